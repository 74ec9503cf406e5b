// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The sticky, coalescing kick and its hand-shake with a sleeper.

use core::fmt;

use crate::sync::{AtomicU32, Ordering, fence};

/// Set by [`WakeWord::kick`].
const KICK: u32 = 1;
/// Set by [`WakeWord::request_exit`].
const EXIT: u32 = 2;

/// A wake-up that is never lost: a kick sticks until the waiter takes it, several kicks are one.
///
/// One thread waits (the owner); any number kick. The owner announces its sleep, looks once more,
/// and only then sleeps on [`word`](Self::word); a kicker stores the kick, and only then looks
/// whether there is a sleeper. A sequentially consistent fence on each side makes sure that at
/// least one of them sees the other.
///
/// # Every kick stands on its own
///
/// The first of several kickers may be preempted between storing its kick and waking the sleeper;
/// on an over-committed host that takes milliseconds. So a later kicker looks for a sleeper too and
/// wakes it a second time, instead of relying on the first: to wake a thread that is awake costs a
/// system call that does nothing. What it does rely on the first kicker for is the signal to a
/// *running* vCPU: that one interrupts the guest, so there is one per request
/// ([`VcpuTable::request_exit`](crate::VcpuTable::request_exit)).
///
/// # Two kinds of kick
///
/// [`kick`](Self::kick) ends a halt, this one or the next; it says nothing to a running guest and
/// stays until the next halt takes it. [`request_exit`](Self::request_exit) ends a halt as well,
/// but wants the thread back in the VMM, and stays until the loop takes it
/// ([`take_exit_request`](Self::take_exit_request)). They coalesce separately: a kick that waits
/// for a halt that does not come must not swallow the request to pause.
///
/// ```
/// use vcpu_state::{Kick, WakeWord};
///
/// let word = WakeWord::new();
/// assert_eq!(word.kick(), Kick::Stored);
/// assert_eq!(word.kick(), Kick::Coalesced);
/// assert!(word.take());
/// assert!(!word.take(), "two kicks are one wake-up");
///
/// assert!(word.begin_sleep());
/// assert_eq!(word.kick(), Kick::WakeSleeper);
/// word.end_sleep();
/// assert!(!word.begin_sleep(), "the kick is still there: no sleep");
/// ```
#[derive(Debug, Default)]
pub struct WakeWord {
    /// [`KICK`] and [`EXIT`] while they are pending. Set by kickers, cleared by the owner.
    kicked: AtomicU32,
    /// 1 while the owner sleeps or is about to. Written by the owner alone.
    sleeping: AtomicU32,
}

/// What the kicker has to do to make its kick arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a sleeper has to be woken, by whatever it sleeps on"]
#[non_exhaustive]
pub enum Kick {
    /// Nothing: the same is pending already, and the owner is not asleep.
    Coalesced,
    /// Nothing: the owner is awake and will find the kick before it sleeps or enters the guest.
    Stored,
    /// Wake the sleeper (a futex wake on [`WakeWord::word`], say). Whoever is told so has to do
    /// it; several kickers may be told so for one sleep.
    WakeSleeper,
    /// The vCPU is in the guest or about to enter it: send its thread a signal if the guest has to
    /// come out. Nothing otherwise: the next halt finds the kick. Only a [`VcpuTable`](crate::VcpuTable) says so, a
    /// [`WakeWord`] alone knows no guest.
    InGuest,
}

/// What is pending at one moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[must_use = "an exit request that is overlooked now waits for the next exit"]
pub struct Pending(u32);

impl Pending {
    /// Anything at all.
    #[inline]
    pub const fn any(self) -> bool {
        self.0 != 0
    }

    /// A [kick](WakeWord::kick), for the current or the next halt.
    #[inline]
    pub const fn kick(self) -> bool {
        self.0 & KICK != 0
    }

    /// An [exit request](WakeWord::request_exit).
    #[inline]
    pub const fn exit_request(self) -> bool {
        self.0 & EXIT != 0
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("kick", &self.kick())
            .field("exit_request", &self.exit_request())
            .finish()
    }
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

    /// Kicks the owner: ends its halt, or the next one. Whatever the caller wrote before is visible
    /// to the owner once it took the kick. Lock-free, callable from a signal handler.
    #[inline]
    pub fn kick(&self) -> Kick {
        self.post(KICK)
    }

    /// Asks the owner back into the VMM: ends its halt, or keeps it from the next one, until it
    /// [takes](Self::take_exit_request) the request. Otherwise as [`kick`](Self::kick).
    ///
    /// ```
    /// use vcpu_state::{Kick, WakeWord};
    ///
    /// let word = WakeWord::new();
    /// assert_eq!(word.kick(), Kick::Stored);
    /// assert_eq!(word.request_exit(), Kick::Stored, "not swallowed by the kick");
    /// assert!(word.take(), "ends a halt");
    /// assert!(word.pending().exit_request(), "but is not forgotten in it");
    /// assert!(word.take_exit_request());
    /// assert!(!word.is_kicked());
    /// ```
    #[inline]
    pub fn request_exit(&self) -> Kick {
        self.post(EXIT)
    }

    #[inline]
    fn post(&self, what: u32) -> Kick {
        // A read-modify-write even if the bit is set already: it is what publishes the caller's
        // data to the owner's next take.
        let before = self.kicked.fetch_or(what, Ordering::AcqRel);
        // Pairs with the fences of `begin_sleep` and `VcpuOwner::enter`.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) != 0 {
            Kick::WakeSleeper
        } else if before & what != 0 {
            Kick::Coalesced
        } else {
            Kick::Stored
        }
    }

    /// Whether anything is pending: a kick or an exit request.
    #[inline]
    pub fn is_kicked(&self) -> bool {
        self.pending().any()
    }

    /// What is pending.
    #[inline]
    pub fn pending(&self) -> Pending {
        Pending(self.kicked.load(Ordering::Acquire))
    }

    /// Owner: consumes the pending kick; says whether there was a reason to wake up, which an exit
    /// request is too (it stays pending).
    #[inline]
    pub fn take(&self) -> bool {
        if !self.is_kicked() {
            return false;
        }
        // Nobody but the owner clears, so what was seen is still there.
        self.kicked.fetch_and(!KICK, Ordering::AcqRel);
        true
    }

    /// Owner: consumes the pending exit request; says whether there was one.
    #[inline]
    pub fn take_exit_request(&self) -> bool {
        if !self.pending().exit_request() {
            return false;
        }
        self.kicked.fetch_and(!EXIT, Ordering::AcqRel);
        true
    }

    /// Owner: announces that it is going to sleep. True: it may sleep on [`word`](Self::word)
    /// while that is 0. False: a kick is pending, and nothing was announced.
    #[inline]
    pub fn begin_sleep(&self) -> bool {
        self.sleeping.store(1, Ordering::Relaxed);
        // Pairs with the fence of `post`.
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

    /// Whether the owner sleeps or is about to. A hint, for diagnosis: it may change at any time.
    #[inline]
    pub fn is_sleeping(&self) -> bool {
        self.sleeping.load(Ordering::Relaxed) != 0
    }

    /// The word to sleep on: 0 while nothing is pending.
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        &self.kicked
    }
}
