// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The kernel's statistics of a vCPU, as a file (`KVM_GET_STATS_FD`).
// UNSAFE: an ioctl that kvm-ioctls lacks, and the file descriptor it returns.
#![expect(unsafe_code)]

use std::fs::File;
use std::os::fd::FromRawFd;

use kvm_bindings::KVMIO;
use kvm_ioctls::VcpuFd;
use vmm_sys_util::ioctl::ioctl;
use vmm_sys_util::ioctl_io_nr;

ioctl_io_nr!(KVM_GET_STATS_FD, KVMIO, 0xce);

/// The file; `None` where the kernel has none (before Linux 5.14).
pub(super) fn vcpu_stats(vcpu: &VcpuFd) -> Option<File> {
    // SAFETY: takes no argument, and `vcpu` is a vCPU.
    let fd = unsafe { ioctl(vcpu, KVM_GET_STATS_FD()) };
    // SAFETY: the kernel made this file descriptor for us; nobody else has it.
    (fd >= 0).then(|| unsafe { File::from_raw_fd(fd) })
}
