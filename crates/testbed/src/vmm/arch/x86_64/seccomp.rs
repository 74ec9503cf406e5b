// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the vCPU threads' seccomp filter needs to know about x86-64.

use kvm_bindings::{KVMIO, kvm_regs, kvm_sregs};
use vmm_sys_util::{ioctl_io_nr, ioctl_ior_nr};

use super::interrupt::KVM_INTERRUPT;

ioctl_io_nr!(KVM_RUN, KVMIO, 0x80);
ioctl_ior_nr!(KVM_GET_REGS, KVMIO, 0x81, kvm_regs);
ioctl_ior_nr!(KVM_GET_SREGS, KVMIO, 0x83, kvm_sregs);

/// The ioctls of a vCPU's loop: run, inject, report.
pub(in crate::vmm) fn vcpu_ioctls() -> [u64; 4] {
    [KVM_RUN(), KVM_INTERRUPT(), KVM_GET_REGS(), KVM_GET_SREGS()]
}

/// Makes the system call that a signal handler interrupted return `result`.
pub(in crate::vmm) fn set_system_call_result(context: &mut libc::ucontext_t, result: i64) {
    let rax = libc::REG_RAX as usize;
    context.uc_mcontext.gregs[rax] = result;
}
