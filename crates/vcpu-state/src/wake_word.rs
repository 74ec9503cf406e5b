// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The sticky, coalescing kick and its hand-shake with a sleeper.

use crate::sync::{AtomicU32, Ordering, fence};

/// A wake-up that is never lost: a kick sticks until the waiter takes it, several kicks are one.
///
/// One thread waits (the owner); any number kick. The owner announces its sleep, looks once more,
/// and only then sleeps on [`word`](Self::word); a kicker stores the kick, and only then looks
/// whether there is a sleeper. A sequentially consistent fence on each side makes sure that at
/// least one of them sees the other.
#[derive(Debug, Default)]
pub struct WakeWord {
    /// 0, or 1 while a kick is pending. Set by kickers, cleared by the owner.
    kicked: AtomicU32,
    /// 1 while the owner sleeps or is about to. Written by the owner alone.
    sleeping: AtomicU32,
}

/// What the kicker has to do to make its kick arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a sleeper has to be woken, by whatever it sleeps on"]
#[non_exhaustive]
pub enum Kick {
    /// Nothing: an earlier kick is still pending, and whoever sent it wakes the owner.
    Coalesced,
    /// Nothing: the owner is awake and will find the kick before it sleeps.
    Stored,
    /// Wake the sleeper (a futex wake on [`WakeWord::word`], say).
    WakeSleeper,
}

impl WakeWord {
    /// No kick is pending and nobody sleeps.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { kicked: AtomicU32::new(0), sleeping: AtomicU32::new(0) }
    }

    /// No kick is pending and nobody sleeps.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Kicks the owner. Whatever the caller wrote before is visible to the owner once it sees the
    /// kick. Lock-free, callable from a signal handler.
    #[inline]
    pub fn kick(&self) -> Kick {
        if self.kicked.swap(1, Ordering::AcqRel) != 0 {
            return Kick::Coalesced;
        }
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) != 0 { Kick::WakeSleeper } else { Kick::Stored }
    }

    /// Whether a kick is pending.
    #[inline]
    pub fn is_kicked(&self) -> bool {
        self.kicked.load(Ordering::Acquire) != 0
    }

    /// Owner: consumes the pending kick; says whether there was one.
    #[inline]
    pub fn take(&self) -> bool {
        self.is_kicked() && self.kicked.swap(0, Ordering::AcqRel) != 0
    }

    /// Owner: announces that it is going to sleep. True: it may sleep on [`word`](Self::word)
    /// while that is 0. False: a kick is pending, and nothing was announced.
    #[inline]
    pub fn begin_sleep(&self) -> bool {
        self.sleeping.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_kicked() {
            self.end_sleep();
            return false;
        }
        true
    }

    /// Owner: it is awake again.
    #[inline]
    pub fn end_sleep(&self) {
        self.sleeping.store(0, Ordering::Relaxed);
    }

    /// The word to sleep on: 0 while no kick is pending.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.kicked
    }
}
