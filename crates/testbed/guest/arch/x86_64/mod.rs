// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! x86-64. The VMM starts each vCPU in long mode, interrupts off, with a stack, flat segments,
//! RDI = address of the boot information, and GS base = address of the vCPU's mailbox.

mod apic;
mod entry;
mod idt;
mod instructions;
mod port;

use crate::abi::{self, BootInfo};

pub use instructions::{
    compare_exchange_16_bytes, count, enable_interrupts, fault_beyond_handling, halt_for_ever,
    hypercall, idle, ring_doorbell, undefined_instruction,
};

/// Makes this vCPU ready for interrupts, which stay off.
pub fn init(boot: &BootInfo) {
    idt::load(boot.local_irqchip != 0);
    if boot.local_irqchip != 0 {
        apic::enable();
        apic::start_timer(boot.tick_ns);
    }
}

/// Ends this vCPU with `status`.
pub fn exit(status: u32) -> ! {
    port::write_u32(abi::PORT_EXIT, status);
    halt_for_ever()
}

/// Sends one byte. The VMM's device is always ready: no look at its status, which would cost an
/// exit.
pub fn write_serial(byte: u8) {
    port::write_u8(abi::PORT_SERIAL, byte);
}

/// Writes where no device is.
pub fn write_unknown_port() {
    port::write_u8(abi::PORT_NOBODY, 0xaa);
}
