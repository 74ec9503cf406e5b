// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts thought out against the policy, which shows its window before each.

use std::fmt;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::evaluate::HaltSource;

/// Far longer than any window worth polling: 100 ms.
const HUGE_NS: u64 = 100_000_000;
/// Shorter than any sleep: 50 ns.
const TINY_NS: u64 = 50;

/// How an adversary plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tactic {
    /// Each halt ends just after the polling does: all of it is wasted, and no other halt
    /// costs a deterministic policy more against the clairvoyant.
    JustMissed,
    /// Tiny halts and huge ones in turn, in runs of a drawn length.
    TinyThenHuge,
    /// Halts worth polling for, until the policy believes in them, and then halts just missed.
    Lure,
    /// Tiny phases and huge ones, each twice as long as the one before: whatever was learned is
    /// wrong, ever longer.
    Doubling,
    /// Any of these at random, in shares drawn from the seed.
    Random,
}

pub(super) const TACTICS: &[Tactic] =
    &[Tactic::JustMissed, Tactic::TinyThenHuge, Tactic::Lure, Tactic::Doubling, Tactic::Random];

impl fmt::Display for Tactic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JustMissed => "adversary(just-missed)",
            Self::TinyThenHuge => "adversary(tiny-then-huge)",
            Self::Lure => "adversary(lure)",
            Self::Doubling => "adversary(doubling)",
            Self::Random => "adversary(random)",
        })
    }
}

/// An adversary at play.
///
/// ```
/// use halt_trace::evaluate::HaltSource;
/// use halt_trace::suite::{Adversary, Tactic};
///
/// let mut adversary = Adversary::new(Tactic::JustMissed, 1, 20_000, 2);
/// assert_eq!(adversary.next_halt(7_000), Some(7_001));
/// assert_eq!(adversary.next_halt(0), Some(1));
/// assert_eq!(adversary.next_halt(0), None);
/// ```
#[derive(Clone, Debug)]
pub struct Adversary {
    tactic: Tactic,
    rng: StdRng,
    block_cost_ns: u64,
    /// Length of runs, and shares of the random tactic.
    run: usize,
    shares: [f64; 3],
    index: usize,
    count: usize,
}

impl Adversary {
    /// Plays `count` halts against a policy whose blocks cost `block_cost_ns`.
    pub fn new(tactic: Tactic, seed: u64, block_cost_ns: u32, count: usize) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let run = rng.random_range(1..200);
        let shares = [rng.random(), rng.random(), rng.random()];
        Self { tactic, rng, block_cost_ns: block_cost_ns.into(), run, shares, index: 0, count }
    }

    fn random(&mut self, just_missed: u64) -> u64 {
        let [missed, tiny, worth] = self.shares;
        let mut draw = self.rng.random_range(0.0..missed + tiny + worth + 0.2);
        for (share, length) in
            [(missed, just_missed), (tiny, TINY_NS), (worth, self.block_cost_ns / 2)]
        {
            if draw < share {
                return length;
            }
            draw -= share;
        }
        HUGE_NS
    }
}

impl HaltSource for Adversary {
    fn next_halt(&mut self, window_ns: u32) -> Option<u64> {
        if self.index == self.count {
            return None;
        }
        let index = self.index;
        self.index += 1;
        let just_missed = u64::from(window_ns) + 1;
        let odd_run = index / self.run % 2 == 1;
        Some(match self.tactic {
            Tactic::JustMissed => just_missed,
            Tactic::TinyThenHuge if odd_run => HUGE_NS,
            Tactic::TinyThenHuge => TINY_NS,
            Tactic::Lure if odd_run => just_missed,
            Tactic::Lure => self.block_cost_ns / 2,
            Tactic::Doubling if (index + 1).ilog2() % 2 == 1 => HUGE_NS,
            Tactic::Doubling => TINY_NS,
            Tactic::Random => self.random(just_missed),
        })
    }
}
