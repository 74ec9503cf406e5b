// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The programs. What they do in interrupts is in the architecture's handlers.

use crate::abi::{self, BootInfo, Mailbox};
use crate::{arch, console};

/// Runs the program that the VMM asked for.
pub fn run(boot: &BootInfo, mailbox: &Mailbox) -> ! {
    match boot.program {
        abi::PROGRAM_IDLE => arch::idle(),
        abi::PROGRAM_HELLO => {
            console::print(abi::HELLO);
            arch::exit(abi::STATUS_OK)
        }
        abi::PROGRAM_COUNT => {
            if boot.privileged != 0 {
                arch::enable_interrupts();
            }
            arch::count(mailbox)
        }
        abi::PROGRAM_DOORBELL => arch::ring_doorbell(mailbox),
        abi::PROGRAM_HYPERCALL => {
            arch::hypercall();
            arch::exit(abi::STATUS_OK)
        }
        abi::PROGRAM_UNDEFINED => arch::undefined_instruction(),
        abi::PROGRAM_TRIPLE_FAULT => arch::fault_beyond_handling(),
        abi::PROGRAM_UNKNOWN_PORT => {
            arch::write_unknown_port();
            arch::exit(abi::STATUS_OK)
        }
        abi::PROGRAM_HALT_FOR_EVER => arch::halt_for_ever(),
        abi::PROGRAM_PANIC => panic!(),
        abi::PROGRAM_UNKNOWN_MEMORY => {
            // SAFETY: not memory, but mapped: the VMM sees the access and ends the vCPU.
            unsafe { (abi::ADDRESS_NOBODY as *const u32).read_volatile() };
            arch::exit(abi::STATUS_OK)
        }
        abi::PROGRAM_CMPXCHG16B => {
            arch::compare_exchange_16_bytes();
            arch::exit(abi::STATUS_OK)
        }
        _ => arch::exit(abi::STATUS_BAD_BOOT_INFO),
    }
}
