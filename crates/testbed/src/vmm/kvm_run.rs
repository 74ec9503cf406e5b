// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the shared `kvm_run` says beyond kvm-ioctls' exits.
// UNSAFE: reads a union whose active field the exit reason tells.
#![expect(unsafe_code)]

use kvm_bindings::KVM_EXIT_INTERNAL_ERROR;
use kvm_ioctls::VcpuFd;

/// The reason of an internal error, if that was the last exit; else 0.
pub(super) fn internal_suberror(vcpu: &mut VcpuFd) -> u32 {
    let run = vcpu.get_kvm_run();
    if run.exit_reason != KVM_EXIT_INTERNAL_ERROR {
        return 0;
    }
    // SAFETY: of this exit, `internal` is the active field; any bytes make its integers.
    unsafe { run.__bindgen_anon_1.internal.suberror }
}
