// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! One module per architecture; each offers the same items:
//!
//! * `layout`: where what is in guest memory;
//! * `Registers` and `registers`: a vCPU's state, for reports;
//! * `write_tables`: what the CPU itself reads before the guest is set up;
//! * `create_irqchip`, `setup_vcpu`: a VM and a vCPU ready for the guest's first instruction;
//! * `signal`: an interrupt through the kernel's controllers;
//! * `can_inject`, `inject`, `request_window`: an interrupt without them;
//! * `interrupts_enabled`: whether the guest waits for interrupts at all;
//! * `vcpu_ioctls`, `set_system_call_result`: for the seccomp filter.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::Registers;
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{
    can_inject, create_irqchip, inject, interrupts_enabled, layout, registers, request_window,
    set_system_call_result, setup_vcpu, signal, vcpu_ioctls, write_tables,
};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the testbed's VMM has no module for this architecture yet");
