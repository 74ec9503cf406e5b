// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The driver's clock.
// UNSAFE: clock_gettime writes through a pointer.
#![allow(unsafe_code)]

/// Nanoseconds since some fixed point; never goes back.
///
/// The driver survives a clock that breaks this promise: it gives up polling.
pub trait Clock {
    /// The time now, in nanoseconds. Read once per poll iteration.
    fn now_ns(&self) -> u64;
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }
}

/// `CLOCK_MONOTONIC`: through the vDSO, no system call on hosts whose clock source allows it.
///
/// ```
/// use halt_poll::{Clock, Monotonic};
///
/// let before = Monotonic.now_ns();
/// assert!(Monotonic.now_ns() >= before);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        read(libc::CLOCK_MONOTONIC)
    }
}

/// CPU time that the calling thread has used, in nanoseconds. A system call.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that the call may write.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    // It cannot fail for these two clocks; if it did, the time would stand still at 0, which the
    // poll loop survives.
    #[expect(clippy::cast_sign_loss, reason = "both clocks count up from 0")]
    let (seconds, nanoseconds) = (time.tv_sec as u64, time.tv_nsec as u64);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(nanoseconds)
}

/// Nanoseconds as the kernel takes time-outs; what does not fit is for ever.
#[cfg(not(loom))]
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000).try_into().unwrap_or(libc::time_t::MAX),
        // Below 10^9: it fits.
        tv_nsec: (ns % 1_000_000_000).try_into().unwrap_or(0),
    }
}
