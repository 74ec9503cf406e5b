// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The filter that vCPU threads run under: they serve an untrusted guest.
//!
//! A forbidden system call does not happen: it fails with ENOSYS, and the vCPU's loop ends with the
//! call's number at its next turn.
// UNSAFE: a signal handler that reads what the kernel says about the signal.
#![expect(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use vmm_sys_util::signal::register_signal_handler;

use super::arch;
use super::error::Error;

/// What the thread's own work and its end need; besides, [`MAPPING_CALLS`] and ioctl.
const SYSTEM_CALLS: &[i64] = &[
    // Locks of the devices and the console, and the sleep in a halt.
    libc::SYS_futex,
    // Tells the event loop of console output and of the vCPU's end.
    libc::SYS_write,
    // Returns from the kick signal's handler.
    libc::SYS_rt_sigreturn,
    // Goes on with a sleep after a stop signal.
    libc::SYS_restart_syscall,
    // malloc and free, of error texts mainly.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // The thread's end.
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
];

/// Those of malloc that could make memory executable. The access is their third argument.
const MAPPING_CALLS: [i64; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

thread_local! {
    /// Number of the first forbidden system call of this thread; -1: none.
    static FORBIDDEN: Cell<i32> = const { Cell::new(-1) };
}

/// The filter of a vCPU's thread whose halt handler makes the `extra` system calls.
pub(super) fn vcpu_filter(extra: &[i64]) -> Result<BpfProgram, Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        SYSTEM_CALLS.iter().chain(extra).map(|&number| (number, Vec::new())).collect();
    for number in MAPPING_CALLS {
        rules.insert(number, vec![not_executable().map_err(Error::SeccompFilter)?]);
    }
    let ioctls: Result<Vec<_>, _> = arch::vcpu_ioctls().into_iter().map(only_ioctl).collect();
    rules.insert(libc::SYS_ioctl, ioctls.map_err(Error::SeccompFilter)?);
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(Error::SeccompFilter)?;
    SeccompFilter::new(rules, SeccompAction::Trap, SeccompAction::Allow, arch)
        .and_then(BpfProgram::try_from)
        .map_err(Error::SeccompFilter)
}

fn not_executable() -> Result<SeccompRule, seccompiler::BackendError> {
    const EXECUTABLE: u64 = libc::PROT_EXEC as u64;
    let none_of = SeccompCmpOp::MaskedEq(EXECUTABLE);
    SeccompRule::new(vec![SeccompCondition::new(2, SeccompCmpArgLen::Dword, none_of, 0)?])
}

fn only_ioctl(request: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(
        1,
        SeccompCmpArgLen::Dword,
        SeccompCmpOp::Eq,
        request,
    )?])
}

/// Makes forbidden system calls known to [`forbidden`], in the whole process.
pub(super) fn install_handler() -> Result<(), Error> {
    register_signal_handler(libc::SIGSYS, on_forbidden)
        .map_err(|error| Error::System { call: "sigaction", source: error.into() })
}

/// The number of the first forbidden system call that this thread made.
pub(super) fn forbidden() -> Option<i32> {
    Some(FORBIDDEN.get()).filter(|number| *number >= 0)
}

extern "C" fn on_forbidden(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    /// The part of siginfo_t that SIGSYS fills; libc has no accessor for it.
    #[repr(C)]
    struct SigSys {
        signo: libc::c_int,
        errno: libc::c_int,
        code: libc::c_int,
        call_address: *const libc::c_void,
        syscall: libc::c_int,
        arch: libc::c_uint,
    }
    // SAFETY: the kernel passes a siginfo_t, which is larger than `SigSys`; of a SIGSYS that
    // someone sent by kill, the fields read are still memory of the siginfo_t.
    let number = unsafe { (*info.cast::<SigSys>()).syscall };
    if FORBIDDEN.get() < 0 {
        FORBIDDEN.set(number);
    }
    // SAFETY: the kernel passes the interrupted thread's ucontext_t.
    arch::set_system_call_result(unsafe { &mut *context.cast() }, -i64::from(libc::ENOSYS));
}
