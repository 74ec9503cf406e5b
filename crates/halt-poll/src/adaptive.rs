// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A policy that learns how long to poll from the halts it has seen.

#![forbid(unsafe_code)]

mod budget;
mod guard;
mod learner;
mod params;
mod probe;

pub use params::{AdaptiveParams, Share, ShareAboveOne, SharedAdaptiveParams, Weight};

use crate::{Halt, Policy, Source};
use budget::Budget;
use guard::Guard;
use learner::{LONGEST_IN_BLOCK_COSTS, Learner};
use probe::Probe;

/// Polls as long as would have been cheapest of late, within a bound on the worst case.
///
/// A halt of length x costs x if it ends while polling, and T + B if it polls for the window T in
/// vain and blocks, where B is [`AdaptiveParams::effective_block_cost_ns`]: the CPU time of
/// blocking and what its latency is worth to the user. When a halt is over, the cost of every
/// window for it is known; the policy plays the window with the smallest decayed sum.
/// It remembers on two time scales (some 2000 halts and 4) and follows the one that did better in
/// the last 16 halts. Before it has seen anything it plays B.
///
/// # What it promises
/// * No window above [`ceiling_ns`](AdaptiveParams::ceiling_ns), nor above 32 B; 0 stops polling at
///   the next halt.
/// * **Worst case**: with a ceiling of at least B and no bound on the share, for any sequence of
///   halts: cost <= 2.05 * sum of min(x, B) + 4 B; counted from any later halt on, + 64 B. Halts
///   whose poll was given up for somebody else are not counted: they cost what that one wanted.
///   Proof: write the slack for 2.05 * optimum - cost. For T < B a halt lowers it by at most
///   B - 1.05 T (x just above T), for T > B by at most T - 1.05 B (x above T), for T = B it never
///   does (x <= B: 1.05 x more; x > B: 0.05 B more). A window is played only if the slack stays
///   at least -4 B in its worst case, else B is played. So the slack is never below -4 B.
/// * **Share**: with [`max_polled_share`](AdaptiveParams::max_polled_share) below 1, the time
///   polled in any interval is at most share * interval + burst, where burst is share * 10 ms and
///   one longest window. A window there are no tokens for becomes 0. Both hold for polls that end
///   with their window, on a clock that does not go back. A step ahead refills at most the burst,
///   a step back nothing.
///
/// # What it learns from
/// Halts as measured: of one that slept, [`latency_ns`](AdaptiveParams::latency_ns) is taken off.
/// Sleeps that seem just too long to be polled for are in doubt, because that latency may be
/// wrong; with a latency above 0 one in 16 (to 128) of them is polled for B to find out. Halts
/// whose poll was given up for somebody else, and those whose wake-up was pending before they
/// began, teach nothing. A halt that ended without a wake-up for this vCPU, by a time-out say,
/// teaches that polling was in vain. Changing B makes it start anew; changing the other parameters
/// does not.
///
/// Cost: 1.1 KiB for each vCPU; for the time see the README.
///
/// ```
/// use halt_poll::{Adaptive, AdaptiveParams, Halt, Policy};
///
/// // Blocking costs 20 us here: 10 us of CPU time, and 10 us of latency, worth as much.
/// let params = AdaptiveParams {
///     block_cost_ns: 10_000,
///     latency_ns: 10_000,
///     ..AdaptiveParams::default()
/// };
/// let mut policy = Adaptive::new(params);
/// assert_eq!(policy.window(0), 20_000);
/// // A 250 Hz tick is not worth polling for.
/// for tick in 0..8 {
///     let now = tick * 4_000_000;
///     let window = policy.window(now);
///     policy.record(&Halt::slept(now, window, window.into(), 3_900_000));
/// }
/// assert_eq!(policy.window(40_000_000), 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Adaptive<S> {
    source: S,
    mind: Mind,
}

/// All of [`Adaptive`] but where its parameters come from.
#[derive(Clone, Copy, Debug)]
struct Mind {
    params: AdaptiveParams,
    block_cost: u32,
    /// The window for the next halt, but for the budget.
    planned: u32,
    learner: Learner,
    guard: Guard,
    budget: Budget,
    probe: Probe,
}

impl<S: Source<Params = AdaptiveParams>> Adaptive<S> {
    /// Knows nothing yet: polls for the cost of blocking.
    pub fn new(source: S) -> Self {
        let mind = Mind::new(source.load());
        Self { source, mind }
    }

    /// Where the parameters come from.
    pub const fn source(&self) -> &S {
        &self.source
    }

    #[cold]
    fn configure(&mut self) {
        self.mind.configure(self.source.load());
    }
}

impl<S: Source<Params = AdaptiveParams>> Policy for Adaptive<S> {
    fn window(&mut self, now_ns: u64) -> u32 {
        if self.source.load().differs(&self.mind.params) {
            self.configure();
        }
        self.mind.budget.admit(self.mind.planned, now_ns)
    }

    fn record(&mut self, halt: &Halt) {
        self.mind.record(halt);
    }
}

impl Mind {
    fn new(params: AdaptiveParams) -> Self {
        let block_cost = params.effective_block_cost_ns();
        let mut mind = Self {
            params,
            block_cost,
            planned: 0,
            learner: Learner::new(block_cost, params.ceiling_ns),
            guard: Guard::new(block_cost),
            budget: Budget::new(params.max_polled_share, longest_window(&params)),
            probe: Probe::new(params.latency_ns),
        };
        mind.plan();
        mind
    }

    /// Takes over changed parameters.
    fn configure(&mut self, params: AdaptiveParams) {
        self.params = params;
        let block_cost = params.effective_block_cost_ns();
        if block_cost == self.block_cost {
            self.learner.set_ceiling(params.ceiling_ns);
            self.probe.set_latency(params.latency_ns);
        } else {
            self.block_cost = block_cost;
            self.learner = Learner::new(block_cost, params.ceiling_ns);
            self.guard = Guard::new(block_cost);
            self.probe = Probe::new(params.latency_ns);
        }
        self.budget.set(params.max_polled_share, longest_window(&params));
        self.plan();
    }

    /// Decides on the next window.
    ///
    /// What is rare is branched to, not selected: so a halt does not wait for the sums of the one
    /// before.
    #[inline]
    fn plan(&mut self) {
        let wanted =
            if self.probe.due() { break_even(self.block_cost) } else { self.learner.threshold() };
        let admitted = self.guard.admits(wanted, self.block_cost);
        let window = if admitted { wanted } else { break_even(self.block_cost) };
        self.planned = window.min(self.params.ceiling_ns);
    }

    fn record(&mut self, halt: &Halt) {
        let polled = saturate(halt.polled_ns);
        self.budget.charge(polled);
        let pending = (halt.halt_ns == 0) & !halt.slept;
        let block_cost = self.block_cost;
        if halt.contended | pending | (block_cost == 0) {
            return;
        }
        // Selected without a branch: whether a halt sleeps is what nobody can predict.
        let sleeper = 0u32.wrapping_sub(halt.slept.into());
        let late = self.params.latency_ns & sleeper;
        // One that slept was longer than its poll, whatever the latency.
        let at_least = polled.saturating_add(1) & sleeper;
        let length = saturate(halt.halt_ns.saturating_sub(late.into())).max(at_least);
        let spent = (polled & sleeper) | (length & !sleeper);
        let cost = i64::from(spent) + i64::from(block_cost & sleeper);
        self.guard.settle(length.min(block_cost), cost);
        // Without a wake-up that was meant, no window would have been long enough.
        let lesson = length | 0u32.wrapping_sub((!halt.valid).into());
        let times = self.probe.weigh(lesson, halt.slept, polled, block_cost);
        self.learner.teach(lesson, times);
        self.plan();
    }
}

/// The window that is never far from the optimum.
#[cold]
const fn break_even(block_cost: u32) -> u32 {
    block_cost
}

/// The longest window these parameters allow, in nanoseconds.
fn longest_window(params: &AdaptiveParams) -> u32 {
    let longest = u64::from(params.effective_block_cost_ns()) * LONGEST_IN_BLOCK_COSTS;
    saturate(longest).min(params.ceiling_ns)
}

/// As 32 bits; what is longer than 4 s costs no more.
fn saturate(ns: u64) -> u32 {
    u32::try_from(ns).unwrap_or(u32::MAX)
}
