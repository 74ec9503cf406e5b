// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! x86-64: the guest starts in long mode, one to one mapped, on VT-x, SVM and the kernel's software
//! back ends alike.

mod interrupt;
pub(in crate::vmm) mod layout;
mod registers;
mod seccomp;
mod tables;
mod vcpu;

pub use registers::Registers;

pub(in crate::vmm) use interrupt::{
    can_inject, create_irqchip, inject, interrupts_enabled, request_window, signal,
};
pub(in crate::vmm) use registers::registers;
pub(in crate::vmm) use seccomp::{set_system_call_result, vcpu_ioctls};
pub(in crate::vmm) use tables::write_tables;
pub(in crate::vmm) use vcpu::setup_vcpu;
