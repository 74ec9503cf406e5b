// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! SIGINT and SIGTERM end a recording early, not in the middle.

use std::sync::atomic::{AtomicBool, Ordering};

use vmm_sys_util::errno;
use vmm_sys_util::signal::register_signal_handler;

static REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// From now on the two signals only set the flag.
pub(super) fn install() -> Result<(), errno::Error> {
    register_signal_handler(libc::SIGINT, on_signal)?;
    register_signal_handler(libc::SIGTERM, on_signal)
}

/// Whether one of them has come.
pub(super) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
