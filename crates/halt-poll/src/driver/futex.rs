// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Waiting on a wake word, by futex.

use std::io;

use vcpu_state::{BlockEnd, Kick, WakeSource, WakeWord};

use super::sync::{AtomicU32, FutexEnd, futex_wait, futex_wake};

/// A wake word to wait on. Whoever wakes uses [`wake`].
///
/// Sleeps by `futex(FUTEX_WAIT | FUTEX_PRIVATE_FLAG)`: waiter and wakers are threads of one process.
/// One thread waits at a time: the word's owner.
///
/// ```
/// use halt_poll::{FutexWait, wake};
/// use vcpu_state::{BlockEnd, Kick, WakeSource, WakeWord};
///
/// let word = WakeWord::new();
/// let source = FutexWait::new(&word);
/// assert_eq!(source.block(Some(1_000))?, BlockEnd::TimedOut);
///
/// assert_eq!(wake(&word), Kick::Stored);
/// assert_eq!(source.block(None)?, BlockEnd::NotSlept);
/// assert!(source.take());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FutexWait<'a> {
    word: &'a WakeWord,
}

impl<'a> FutexWait<'a> {
    /// Waits on `word`.
    pub const fn new(word: &'a WakeWord) -> Self {
        Self { word }
    }
}

impl WakeSource for FutexWait<'_> {
    type Error = io::Error;

    #[inline]
    fn is_pending(&self) -> bool {
        self.word.is_kicked()
    }

    #[inline]
    fn take(&self) -> bool {
        self.word.take()
    }

    /// # Errors
    ///
    /// What futex(2) says, other than EAGAIN, EINTR and ETIMEDOUT.
    fn block(&self, timeout_ns: Option<u64>) -> io::Result<BlockEnd> {
        if !self.word.begin_sleep() {
            return Ok(BlockEnd::NotSlept);
        }
        let end = futex_wait(self.word.word(), 0, timeout_ns);
        self.word.end_sleep();
        Ok(match end? {
            FutexEnd::Woken => BlockEnd::Woken,
            FutexEnd::Changed => BlockEnd::NotSlept,
            FutexEnd::Interrupted => BlockEnd::Interrupted,
            FutexEnd::TimedOut => BlockEnd::TimedOut,
        })
    }

    #[inline]
    fn watched_word(&self) -> Option<&AtomicU32> {
        Some(self.word.word())
    }
}

/// Kicks the owner of `word` and, if it sleeps, wakes it: at most one futex wake, and none for a
/// vCPU that runs or polls.
///
/// Whatever the caller wrote before is visible to the owner when its halt ends. Lock-free and
/// async-signal-safe (errno may change). A vCPU that is in the guest does not look at its word: if it
/// has to leave the guest for this, that takes a signal besides.
#[inline]
pub fn wake(word: &WakeWord) -> Kick {
    let kick = word.kick();
    if kick == Kick::WakeSleeper {
        wake_sleeper(word);
    }
    kick
}

/// Wakes the thread that sleeps in [`FutexWait::block`] on `word`: what [`Kick::WakeSleeper`] asks
/// for, whichever call said so ([`WakeWord::request_exit`], `VcpuTable::kick`).
///
/// ```
/// use halt_poll::wake_sleeper;
/// use vcpu_state::{Kick, WakeWord};
///
/// let word = WakeWord::new();
/// match word.request_exit() {
///     Kick::WakeSleeper => wake_sleeper(&word),
///     _ => {}
/// }
/// ```
pub fn wake_sleeper(word: &WakeWord) {
    futex_wake(word.word());
}
