// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A vCPU's state, for reports.

use std::fmt;

use kvm_bindings::{kvm_regs, kvm_sregs};
use kvm_ioctls::VcpuFd;

/// What a vCPU's registers were; `None` where KVM does not say.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// General registers, instruction pointer, flags.
    pub general: Option<kvm_regs>,
    /// Segments and control registers.
    pub system: Option<kvm_sregs>,
}

/// Reads them.
pub(in crate::vmm) fn registers(vcpu: &VcpuFd) -> Registers {
    Registers { general: vcpu.get_regs().ok(), system: vcpu.get_sregs().ok() }
}

impl fmt::Display for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.general {
            Some(r) => write!(
                f,
                "rip {:#x} rflags {:#x} rsp {:#x} rax {:#x} rbx {:#x} rcx {:#x} rdx {:#x} rsi {:#x} rdi {:#x}",
                r.rip, r.rflags, r.rsp, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi
            )?,
            None => f.write_str("general registers unknown")?,
        }
        match &self.system {
            Some(s) => write!(
                f,
                " cr0 {:#x} cr2 {:#x} cr3 {:#x} cr4 {:#x} efer {:#x} cs {:#x}",
                s.cr0, s.cr2, s.cr3, s.cr4, s.efer, s.cs.selector
            ),
            None => f.write_str(" system registers unknown"),
        }
    }
}
