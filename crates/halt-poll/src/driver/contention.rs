// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Whether somebody else wants the CPU that polls.

/// Asked once per poll iteration whether to stop polling because somebody else wants this CPU.
///
/// The kernel asks its scheduler (need_resched and a lone task on the queue). User space has no such
/// question that is cheap enough; a VMM that knows better (a scheduler observer, say) implements
/// this trait.
pub trait Contention {
    /// Polling begins. A single relax step may take up to `longest_step_ns` nanoseconds.
    fn begin(&mut self, now_ns: u64, longest_step_ns: u32) {
        let _ = (now_ns, longest_step_ns);
    }

    /// Whether to stop polling now.
    fn wants_cpu(&mut self, now_ns: u64) -> bool;
}

impl<C: Contention + ?Sized> Contention for &mut C {
    fn begin(&mut self, now_ns: u64, longest_step_ns: u32) {
        (**self).begin(now_ns, longest_step_ns);
    }

    fn wants_cpu(&mut self, now_ns: u64) -> bool {
        (**self).wants_cpu(now_ns)
    }
}

/// The default: sees after the fact that the CPU was taken away, by a gap between two consecutive
/// reads of the clock.
///
/// A poll iteration takes well below a microsecond, a host interrupt a few; another thread that ran
/// in between leaves a larger gap. The default threshold, 10 us, is about what a sleep and a wake-up
/// cost: whoever took the CPU for less cost less than giving it up would have. A false alarm costs
/// one early block; a competitor that was missed is found at its next turn, and costs at most the
/// rest of one window.
///
/// What it cannot see: a thread that is runnable and has not been given the CPU yet. It will be seen
/// when the scheduler switches to it. A policy with a bound on its polled share, or
/// with a veto by steal time, covers halts that are too short to be preempted in.
///
/// ```
/// use halt_poll::{ClockGap, Contention};
///
/// let mut gap = ClockGap::new(10_000);
/// gap.begin(0, 0);
/// assert!(!gap.wants_cpu(100));
/// assert!(gap.wants_cpu(4_000_100));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClockGap {
    gap_ns: u64,
    limit_ns: u64,
    last_ns: u64,
}

impl ClockGap {
    /// The threshold of [`ClockGap::default`], in nanoseconds.
    pub const DEFAULT_GAP_NS: u64 = 10_000;

    /// Stops polling when two reads of the clock are more than `gap_ns` (on top of a relax step)
    /// apart.
    pub const fn new(gap_ns: u64) -> Self {
        Self { gap_ns, limit_ns: gap_ns, last_ns: 0 }
    }
}

impl Default for ClockGap {
    fn default() -> Self {
        Self::new(Self::DEFAULT_GAP_NS)
    }
}

impl Contention for ClockGap {
    #[inline]
    fn begin(&mut self, now_ns: u64, longest_step_ns: u32) {
        self.limit_ns = self.gap_ns.saturating_add(longest_step_ns.into());
        self.last_ns = now_ns;
    }

    #[inline]
    fn wants_cpu(&mut self, now_ns: u64) -> bool {
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        gap_ns > self.limit_ns
    }
}

/// Never stops polling early: for vCPUs with a CPU of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Contention for Unwatched {
    #[inline]
    fn wants_cpu(&mut self, _now_ns: u64) -> bool {
        false
    }
}
