// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The one loop all halts go through: poll, then block.

use vcpu_state::{BlockEnd, WakeSource};

use super::{Clock, ClockGap, Contention, Monotonic, Relax};
use crate::{Counters, Halt, Policy};

/// Why a halt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HaltEnd {
    /// A wake-up was pending, and was consumed.
    Woken,
    /// A signal interrupted the sleep. No wake-up was consumed: look at whatever the signal stands
    /// for (`immediate_exit`, a stop flag), and halt again if the vCPU is still idle.
    ///
    /// The policy and the counters take it for a halt with a valid wake-up, as KVM does for a vCPU that a
    /// signal takes out of its halt. So periodic signals (of a profiler, of a VMM's own timer) teach short
    /// halts, even if the guest's are long.
    Interrupted,
    /// The time-out of [`HaltPoller::halt_for`] was over. No wake-up was consumed.
    TimedOut,
}

/// A halt that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the halt may have ended without a wake-up"]
#[non_exhaustive]
pub struct Halted {
    /// How it went; the policy has learned from it already.
    pub halt: Halt,
    /// Why it ended.
    pub end: HaltEnd,
}

/// Polls, then blocks: one value serves one vCPU (or one idle device thread).
///
/// # Signals
///
/// A signal ends the sleep ([`HaltEnd::Interrupted`]) but, as with every system call that sleeps, a
/// signal whose handler ran just before the sleep does not, nor does one during the polling. Whoever
/// has to stop a halted vCPU for sure sets its stop flag and then *kicks* it; if a signal has to do
/// it, its handler kicks ([`wake`](super::wake) is async-signal-safe). The loop looks at its stop flag
/// after each halt:
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// use halt_poll::{Fixed, FutexWait, HaltPoller, wake};
/// use vcpu_state::WakeWord;
///
/// let word = WakeWord::new();
/// let stop = AtomicBool::new(false);
/// std::thread::scope(|scope| {
///     let vcpu = scope.spawn(|| {
///         let mut poller = HaltPoller::new(Fixed::new(20_000));
///         while !stop.load(Ordering::Acquire) {
///             // Run the guest; when it halts:
///             let _halted = poller.halt(&FutexWait::new(&word))?;
///         }
///         Ok::<(), std::io::Error>(())
///     });
///     stop.store(true, Ordering::Release);
///     let _ = wake(&word);
///     vcpu.join()
/// }).unwrap()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct HaltPoller<P, X = ClockGap, C = Monotonic> {
    policy: P,
    contention: X,
    clock: C,
    relax: Relax,
    counters: Counters,
}

impl<P: Policy> HaltPoller<P> {
    /// Polls as long as `policy` says, with the plain spin-wait hint, stops early by
    /// [`ClockGap`], and takes the time from [`Monotonic`].
    pub fn new(policy: P) -> Self {
        Self {
            policy,
            contention: ClockGap::default(),
            clock: Monotonic,
            relax: Relax::default(),
            counters: Counters::default(),
        }
    }
}

impl<P: Policy, X: Contention, C: Clock> HaltPoller<P, X, C> {
    /// Asks `contention` instead whether to stop polling early.
    #[must_use]
    pub fn with_contention<Y: Contention>(self, contention: Y) -> HaltPoller<P, Y, C> {
        let Self { policy, clock, relax, counters, .. } = self;
        HaltPoller { policy, contention, clock, relax, counters }
    }

    /// Takes the time from `clock`.
    #[must_use]
    pub fn with_clock<D: Clock>(self, clock: D) -> HaltPoller<P, X, D> {
        let Self { policy, contention, relax, counters, .. } = self;
        HaltPoller { policy, contention, clock, relax, counters }
    }

    /// Waits by `relax` between two looks.
    #[must_use]
    pub fn with_relax(self, relax: Relax) -> Self {
        Self { relax, ..self }
    }

    /// The policy.
    pub const fn policy(&self) -> &P {
        &self.policy
    }

    /// The policy, to change its parameters: they hold from the next halt on.
    pub const fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// What all halts so far came to.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Halts until a wake-up of `source` is pending, and consumes it. Returns at once, without a
    /// system call (of its own: an eventfd needs two), when one is pending already.
    ///
    /// # Errors
    ///
    /// What [`WakeSource::block`] says. The halt counts as any other.
    #[inline]
    pub fn halt<S: WakeSource>(&mut self, source: &S) -> Result<Halted, S::Error> {
        self.run(source, None)
    }

    /// The same, for at most `timeout_ns` nanoseconds. A halt that ends so was in vain: it is
    /// recorded as one without a valid wake-up.
    ///
    /// # Errors
    ///
    /// What [`WakeSource::block`] says. The halt counts as any other.
    #[inline]
    pub fn halt_for<S: WakeSource>(
        &mut self,
        source: &S,
        timeout_ns: u64,
    ) -> Result<Halted, S::Error> {
        self.run(source, Some(timeout_ns))
    }

    #[inline]
    fn run<S: WakeSource>(
        &mut self,
        source: &S,
        timeout_ns: Option<u64>,
    ) -> Result<Halted, S::Error> {
        let start_ns = self.clock.now_ns();
        let window_ns = self.policy.window(start_ns);
        let mut halt = Halt::polled(start_ns, window_ns, 0);
        let end = if consume(source) {
            Ok(HaltEnd::Woken)
        } else {
            self.wait(source, timeout_ns, &mut halt)
        };
        // Exactly once for each window, whatever happened.
        if let Ok(HaltEnd::TimedOut) = end {
            halt = halt.invalid();
        }
        self.counters.record(&halt);
        self.policy.record(&halt);
        end.map(|end| Halted { halt, end })
    }

    /// The rest of a halt that found nothing at first.
    #[cold]
    #[inline(never)]
    fn wait<S: WakeSource>(
        &mut self,
        source: &S,
        timeout_ns: Option<u64>,
        halt: &mut Halt,
    ) -> Result<HaltEnd, S::Error> {
        let timeout = timeout_ns.unwrap_or(u64::MAX);
        if self.poll(source, timeout, halt) {
            return Ok(HaltEnd::Woken);
        }
        loop {
            let left_ns = match timeout_ns {
                None => None,
                Some(timeout) if halt.halt_ns < timeout => Some(timeout - halt.halt_ns),
                Some(_) if consume(source) => return Ok(HaltEnd::Woken),
                Some(_) => return Ok(HaltEnd::TimedOut),
            };
            let ended = source.block(left_ns);
            halt.halt_ns = self.clock.now_ns().saturating_sub(halt.start_ns);
            // An error: whether it slept is unknown; it certainly did not poll to success.
            halt.slept |= !matches!(ended, Ok(BlockEnd::NotSlept));
            let ended = ended?;
            if consume(source) {
                return Ok(HaltEnd::Woken);
            }
            match ended {
                BlockEnd::Interrupted => return Ok(HaltEnd::Interrupted),
                BlockEnd::TimedOut if timeout_ns.is_some() => return Ok(HaltEnd::TimedOut),
                // Nothing there: the sleep ended without reason.
                _ => {}
            }
        }
    }

    /// Polls for the window (0: not at all) or until the time-out; whether a wake-up was consumed.
    fn poll<S: WakeSource>(&mut self, source: &S, timeout_ns: u64, halt: &mut Halt) -> bool {
        let budget_ns = u64::from(halt.window_ns).min(timeout_ns);
        let mut last_ns = halt.start_ns;
        self.contention.begin(last_ns, self.relax.longest_step_ns());
        let mut woken = false;
        // At most one step per nanosecond, though each takes longer: the end for a clock that
        // stands still.
        for _ in 0..budget_ns {
            self.relax.step(source.watched_word(), budget_ns - halt.polled_ns);
            let now_ns = self.clock.now_ns();
            if consume(source) {
                halt.polled_ns = now_ns.saturating_sub(halt.start_ns);
                woken = true;
                break;
            }
            if now_ns < last_ns {
                // The clock went back: it no longer says when to stop.
                break;
            }
            halt.polled_ns = now_ns - halt.start_ns;
            if halt.polled_ns >= budget_ns {
                break;
            }
            if self.contention.wants_cpu(now_ns) {
                halt.contended = true;
                break;
            }
            last_ns = now_ns;
        }
        halt.halt_ns = halt.polled_ns;
        woken
    }
}

/// Looks, and only then consumes: looking is the cheaper.
#[inline]
fn consume<S: WakeSource>(source: &S) -> bool {
    source.is_pending() && source.take()
}
