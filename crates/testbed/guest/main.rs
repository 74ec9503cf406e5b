// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The testbed's guest: boots straight into its architecture's 64-bit mode, with memory mapped one
//! to one, and runs the program that the boot information names.
//!
//! Built by the testbed's build.rs with the compiler of the host's own target: no standard library,
//! no red zone, no allocation.

#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn)]

#[allow(dead_code, reason = "the VMM uses the rest")]
mod abi;
mod arch;
mod console;
mod mem;
mod panic;
mod program;

use abi::{BootInfo, Mailbox};
use core::sync::atomic::Ordering;

/// Called by the architecture's entry code, once on each vCPU.
///
/// # Safety
///
/// `boot` and `mailbox` point to what the ABI says, for as long as the guest runs.
unsafe extern "C" fn run(boot: *const BootInfo, mailbox: *const Mailbox) -> ! {
    // SAFETY: the caller's promise; the VMM wrote it before this vCPU started.
    let boot = unsafe { &*boot };
    if boot.magic != abi::MAGIC || boot.version != abi::VERSION {
        arch::exit(abi::STATUS_BAD_BOOT_INFO);
    }
    if boot.privileged != 0 {
        arch::init(boot);
    }
    // SAFETY: the caller's promise; all fields are atomics.
    let mailbox = unsafe { &*mailbox };
    mailbox.stage.store(abi::STAGE_READY, Ordering::Release);
    program::run(boot, mailbox)
}
