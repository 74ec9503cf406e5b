// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The instructions that programs are about.

use crate::abi::{self, Mailbox};
use core::arch::asm;

/// Lets the handlers of the IDT run from now on, in between.
pub fn enable_interrupts() {
    // SAFETY: the handlers save what they use.
    unsafe { asm!("sti", options(nostack)) };
}

/// Interrupts on, halt, again.
pub fn idle() -> ! {
    // SAFETY: the handlers of the IDT save what they use.
    unsafe { asm!("2: sti", "hlt", "jmp 2b", options(noreturn)) }
}

/// Halts with interrupts off.
pub fn halt_for_ever() -> ! {
    // SAFETY: touches nothing.
    unsafe { asm!("2: cli", "hlt", "jmp 2b", options(noreturn)) }
}

/// Counts as fast as two instructions can.
pub fn count(mailbox: &Mailbox) -> ! {
    // SAFETY: this vCPU is the only writer of its counter, which is an atomic for the reader.
    unsafe {
        asm!(
            "2: inc qword ptr [{mailbox} + {count}]",
            "jmp 2b",
            mailbox = in(reg) mailbox,
            count = const abi::MAILBOX_COUNT,
            options(noreturn),
        )
    }
}

/// Leaves the guest again and again, with as little between as possible, and counts.
pub fn ring_doorbell(mailbox: &Mailbox) -> ! {
    // SAFETY: as in `count`; the port's device does nothing.
    unsafe {
        asm!(
            "2: inc qword ptr [{mailbox} + {count}]",
            "out dx, al",
            "jmp 2b",
            mailbox = in(reg) mailbox,
            count = const abi::MAILBOX_COUNT,
            in("dx") abi::PORT_DOORBELL,
            options(noreturn),
        )
    }
}

/// KVM_HC_VAPIC_POLL_IRQ (1), which does nothing. KVM replaces the other vendor's instruction.
pub fn hypercall() {
    // SAFETY: the hypercall changes RAX only.
    unsafe { asm!("vmcall", inout("rax") 1u64 => _, options(nostack)) };
}

/// #UD.
pub fn undefined_instruction() -> ! {
    // SAFETY: the exception handler ends the vCPU.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// An exception with an empty IDT: no handler, no double fault handler, shutdown.
pub fn fault_beyond_handling() -> ! {
    let empty = [0u16; 5];
    // SAFETY: the vCPU ends here.
    unsafe { asm!("lidt [{}]", "ud2", in(reg) &empty, options(noreturn)) }
}

/// CMPXCHG16B on the stack.
pub fn compare_exchange_16_bytes() {
    #[repr(align(16))]
    struct Aligned([u64; 2]);
    let mut value = Aligned([1, 2]);
    // SAFETY: the operand is aligned and ours; RBX, which the compiler keeps, is restored.
    unsafe {
        asm!(
            "xchg {low}, rbx",
            "lock cmpxchg16b [{value}]",
            "mov rbx, {low}",
            low = inout(reg) 3u64 => _,
            value = in(reg) &mut value,
            inout("rax") 1u64 => _,
            inout("rdx") 2u64 => _,
            in("rcx") 4u64,
            options(nostack),
        );
    }
    core::hint::black_box(value.0);
}
