// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a policy's decisions cost.
//!
//! The model is ski rental: polling costs 1 per nanosecond, blocking costs B, the price of going
//! to sleep and being woken. A halt of length x under window T costs x if x <= T, and T + B if not.
//! Two yardsticks: the *clairvoyant*, who knows x beforehand and pays min(x, B); and the *best
//! fixed threshold in hindsight*, the one T that is cheapest over the same halts. No policy beats
//! the first; on stationary halts none can be expected to beat the second by much.

mod contestant;
mod fixed;

pub use contestant::{CONTESTANTS, Contestant, Setup};
pub use fixed::{BestFixed, best_fixed};

use halt_poll::{Halt, Policy};

/// How long the vCPU runs between two halts, in nanoseconds: traces do not tell.
pub const RUN_NS: u64 = 1_000;

/// Where halts come from, one by one: recorded, drawn, or thought out against the policy.
pub trait HaltSource {
    /// How long the next halt is, in nanoseconds, now that the policy has chosen its window; none
    /// at the end.
    fn next_halt(&mut self, window_ns: u32) -> Option<u64>;
}

/// Halts whose lengths do not depend on the policy.
#[derive(Clone, Debug)]
pub struct Recorded<'a> {
    halts: std::slice::Iter<'a, u64>,
}

impl<'a> Recorded<'a> {
    /// These lengths, in order.
    pub fn new(halts: &'a [u64]) -> Self {
        Self { halts: halts.iter() }
    }
}

impl HaltSource for Recorded<'_> {
    fn next_halt(&mut self, _window_ns: u32) -> Option<u64> {
        self.halts.next().copied()
    }
}

/// What a policy paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Number of halts.
    pub halts: usize,
    /// Time polled, in nanoseconds.
    pub polled_ns: u128,
    /// How many halts blocked.
    pub blocks: usize,
    /// The policy's cost, in nanoseconds.
    pub cost_ns: u128,
    /// What the clairvoyant pays for the same halts, in nanoseconds.
    pub clairvoyant_ns: u128,
}

impl Cost {
    /// The sum of two costs, of two threads for instance.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            halts: self.halts + other.halts,
            polled_ns: self.polled_ns + other.polled_ns,
            blocks: self.blocks + other.blocks,
            cost_ns: self.cost_ns + other.cost_ns,
            clairvoyant_ns: self.clairvoyant_ns + other.clairvoyant_ns,
        }
    }

    /// The policy's cost over the clairvoyant's.
    pub fn ratio_to_clairvoyant(&self) -> f64 {
        ratio(self.cost_ns, self.clairvoyant_ns)
    }

    /// The policy's cost over that of the best fixed threshold for the same halts.
    pub fn ratio_to(&self, best: BestFixed) -> f64 {
        ratio(self.cost_ns, best.cost_ns)
    }
}

impl Cost {
    /// What the policy paid above `factor` times the clairvoyant's cost, in nanoseconds; negative
    /// if it paid less.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are enough to compare with a bound")]
    pub fn above(&self, factor: f64) -> f64 {
        self.cost_ns as f64 - factor * self.clairvoyant_ns as f64
    }
}

/// 1 if both are 0, infinite if only the second is.
#[expect(clippy::cast_precision_loss, reason = "a ratio needs no more than 53 bits")]
fn ratio(cost: u128, of: u128) -> f64 {
    if cost == of { 1.0 } else { cost as f64 / of as f64 }
}

/// Lets a policy live through halts and adds up what it pays when blocking costs `block_cost_ns`.
/// The lengths are pushed to `seen`, for [`best_fixed`].
///
/// ```
/// use halt_poll::Fixed;
/// use halt_trace::evaluate::{Recorded, best_fixed, run};
///
/// let halts = [1_000, 1_000, 100_000];
/// let mut seen = Vec::new();
/// let cost = run(&mut Fixed::new(2_000), &mut Recorded::new(&halts), 20_000, &mut seen);
/// assert_eq!(cost.cost_ns, 1_000 + 1_000 + 2_000 + 20_000);
/// assert_eq!(cost.clairvoyant_ns, 1_000 + 1_000 + 20_000);
/// assert_eq!(best_fixed(&mut seen, 20_000).threshold_ns, 1_000);
/// ```
pub fn run(
    policy: &mut dyn Policy,
    source: &mut dyn HaltSource,
    block_cost_ns: u32,
    seen: &mut Vec<u64>,
) -> Cost {
    let mut total = Cost::default();
    let mut now = 0_u64;
    let block = u128::from(block_cost_ns);
    loop {
        let window = policy.window(now);
        let Some(length) = source.next_halt(window) else { break };
        let (polled, blocked) = (length.min(window.into()), length > u64::from(window));
        let halt = if blocked {
            Halt::slept(now, window, polled, length)
        } else {
            Halt::polled(now, window, length)
        };
        policy.record(&halt);
        now = now.saturating_add(length).saturating_add(RUN_NS);
        seen.push(length);
        total = total.plus(Cost {
            halts: 1,
            polled_ns: polled.into(),
            blocks: usize::from(blocked),
            cost_ns: u128::from(polled) + if blocked { block } else { 0 },
            clairvoyant_ns: u128::from(length).min(block),
        });
    }
    total
}

/// The geometric mean; none of an empty list.
#[expect(clippy::cast_precision_loss, reason = "nobody has 2^53 values")]
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}
