// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Threads by their kernel ID: CPU time, placement, signals, sleeping by futex.
// UNSAFE: system calls that std does not wrap.
#![expect(unsafe_code)]

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// A thread of this process, as the kernel knows it. May outlive the thread: then calls fail, or,
/// should the kernel have given the number away again, mean another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(libc::pid_t);

impl ThreadId {
    /// The calling thread.
    pub fn current() -> Self {
        // SAFETY: no arguments, cannot fail.
        Self(unsafe { libc::gettid() })
    }

    pub(super) const fn from_raw(id: i32) -> Option<Self> {
        if id > 0 { Some(Self(id)) } else { None }
    }

    /// The number, as in `/proc/self/task`.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// CPU time that the thread has used so far, in user space and in the kernel, time in the guest
    /// included.
    ///
    /// # Errors
    ///
    /// EINVAL when the thread has ended.
    pub fn cpu_time(self) -> io::Result<Duration> {
        // The kernel's encoding of a thread's CPU-time clock: the inverted ID, then the bits for
        // "per thread" (4) and "scheduler's clock" (2).
        let clock = (!self.0 << 3) | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is ours to write.
        check(unsafe { libc::clock_gettime(clock, &mut time) })?;
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Ok(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0)))
    }

    /// Binds the thread to one host CPU.
    ///
    /// # Errors
    ///
    /// EINVAL when there is no such CPU, ESRCH when the thread has ended.
    pub fn pin(self, cpu: usize) -> io::Result<()> {
        if cpu >= libc::CPU_SETSIZE.unsigned_abs() as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: all zeroes is the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: `cpu` is in the set's range.
        unsafe { libc::CPU_SET(cpu, &mut set) };
        // SAFETY: the set is valid, and of the size that is given.
        check(unsafe { libc::sched_setaffinity(self.0, size_of_val(&set), &set) })
    }

    /// Sends the thread a signal.
    ///
    /// # Errors
    ///
    /// ESRCH when the thread has ended.
    pub(super) fn signal(self, number: i32) -> io::Result<()> {
        let process = std::process::id();
        // SAFETY: integers only; the target is a thread of this process.
        let result = unsafe { libc::syscall(libc::SYS_tgkill, process, self.0, number) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Sleeps while `word` is `expected`; may end without reason.
///
/// # Errors
///
/// What futex(2) says, other than EAGAIN and EINTR.
pub(super) fn futex_wait(word: &AtomicU32, expected: u32) -> io::Result<()> {
    // SAFETY: the word is a live, aligned 32-bit atomic; no time-out.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            std::ptr::null::<libc::timespec>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(()),
        _ => Err(error),
    }
}

/// Wakes all who sleep on `word`.
pub(super) fn futex_wake(word: &AtomicU32) {
    // SAFETY: the word is a live, aligned 32-bit atomic. Waking cannot fail on such a word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        );
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
