// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the driver's protocols are built on: the real thing, or loom's when a model is checked.
//!
//! The futex is here, beside the atomics, for that reason: everything above it is the shipped code
//! in a loom model too.
// UNSAFE: the futex system call takes a pointer.
#![allow(unsafe_code)]

use std::io;

#[cfg(not(loom))]
pub(crate) use core::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, Ordering},
};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};

/// Nothing: loom's own would let the other threads run to their end first, and so hide the kicks that
/// come while the waiter goes from polling to sleeping. The models bound the polling by their clock.
#[cfg(loom)]
pub(crate) fn spin_loop() {}

/// How a futex wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(loom, expect(dead_code, reason = "neither signals nor time in the model"))]
pub(crate) enum FutexEnd {
    /// Woken, perhaps without reason.
    Woken,
    /// The word was not what was expected: there was no sleep.
    Changed,
    /// A signal handler ran.
    Interrupted,
    /// The time was over.
    TimedOut,
}

/// Sleeps while `word` is `expected`, at most `timeout_ns`.
///
/// # Errors
///
/// What futex(2) says, other than EAGAIN, EINTR and ETIMEDOUT.
#[cfg(not(loom))]
pub(crate) fn futex_wait(
    word: &AtomicU32,
    expected: u32,
    timeout_ns: Option<u64>,
) -> io::Result<FutexEnd> {
    let timeout = timeout_ns.map(super::clock::timespec);
    let timeout = timeout.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the word and the timespec (or null) live across the call; the kernel reads both and
    // writes neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            timeout,
        )
    };
    if result == 0 {
        return Ok(FutexEnd::Woken);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN) => Ok(FutexEnd::Changed),
        Some(libc::EINTR) => Ok(FutexEnd::Interrupted),
        Some(libc::ETIMEDOUT) => Ok(FutexEnd::TimedOut),
        _ => Err(error),
    }
}

/// Wakes one sleeper on `word`, if there is one.
#[cfg(not(loom))]
pub(crate) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the address as a key; it touches no memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
    // It fails for a bad address or a bad operation only: a reference is neither.
    debug_assert!(result >= 0, "futex wake: {}", io::Error::last_os_error());
}

#[cfg(loom)]
loom::lazy_static! {
    /// One queue for all words: a waker of another word is a wake-up without reason.
    static ref QUEUE: (loom::sync::Mutex<()>, loom::sync::Condvar) =
        (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
}

/// The model: the word is compared under the lock the waker takes. Time does not pass in it.
#[cfg(loom)]
pub(crate) fn futex_wait(
    word: &AtomicU32,
    expected: u32,
    _timeout_ns: Option<u64>,
) -> io::Result<FutexEnd> {
    let queue = QUEUE.0.lock().map_err(|_| io::Error::other("a model's thread panicked"))?;
    if word.load(Ordering::Relaxed) != expected {
        return Ok(FutexEnd::Changed);
    }
    let _queue = QUEUE.1.wait(queue).map_err(|_| io::Error::other("a model's thread panicked"))?;
    Ok(FutexEnd::Woken)
}

/// The model of the wake.
#[cfg(loom)]
pub(crate) fn futex_wake(_word: &AtomicU32) {
    let _queue = QUEUE.0.lock();
    QUEUE.1.notify_all();
}
