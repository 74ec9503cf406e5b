// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Synthetic workloads, drawn from a seed: the same seed gives the same halts.
//!
//! Scales are drawn between 1 us and 5 ms, evenly on a logarithmic axis, so that every block cost
//! has workloads on both sides of it and across it.

mod adversary;
mod drawn;

pub use adversary::{Adversary, Tactic};
pub use drawn::Distribution;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::evaluate::{HaltSource, Recorded};

/// How many halts a workload has unless asked for otherwise.
pub const HALTS: usize = 10_000;

/// How many workloads of each kind a suite has.
const OF_EACH_KIND: usize = 4;

/// What can be expected of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Class {
    /// One distribution throughout: near the best fixed threshold.
    Stationary,
    /// Distributions that change every few hundred or thousand halts.
    Phases,
    /// Halts thought out against the policy: near twice the clairvoyant at worst.
    Adversarial,
}

/// One workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Kind and parameters, such as `exponential(mean=12us)`.
    pub name: String,
    /// What can be expected.
    pub class: Class,
    halts: Halts,
}

#[derive(Clone, Debug)]
enum Halts {
    Drawn(Vec<u64>),
    Adversary { tactic: Tactic, seed: u64, count: usize },
}

impl Workload {
    /// Its halts from the first; an adversary plays against the block cost given.
    pub fn source(&self, block_cost_ns: u32) -> Box<dyn HaltSource + '_> {
        match &self.halts {
            Halts::Drawn(halts) => Box::new(Recorded::new(halts)),
            Halts::Adversary { tactic, seed, count } => {
                Box::new(Adversary::new(*tactic, *seed, block_cost_ns, *count))
            }
        }
    }
}

/// The suite of a seed, with `halts` halts in each workload.
///
/// ```
/// let suite = halt_trace::suite::suite(1, 100);
/// assert!(suite.iter().any(|workload| workload.name.starts_with("exponential(")));
/// ```
pub fn suite(seed: u64, halts: usize) -> Vec<Workload> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut workloads = Vec::new();
    for kind in drawn::KINDS {
        for _ in 0..OF_EACH_KIND {
            let distribution = kind(&mut rng);
            workloads.push(Workload {
                name: distribution.to_string(),
                class: Class::Stationary,
                halts: Halts::Drawn((0..halts).map(|_| distribution.draw(&mut rng)).collect()),
            });
        }
    }
    for _ in 0..OF_EACH_KIND {
        workloads.push(phases(&mut rng, halts));
    }
    for tactic in adversary::TACTICS {
        let seed = rng.random();
        workloads.push(Workload {
            name: tactic.to_string(),
            class: Class::Adversarial,
            halts: Halts::Adversary { tactic: *tactic, seed, count: halts },
        });
    }
    workloads
}

/// Two to five distributions in turn, a few hundred to a few thousand halts each.
fn phases(rng: &mut StdRng, count: usize) -> Workload {
    let length = rng.random_range(300..3_000);
    let distributions: Vec<_> = (0..rng.random_range(2..=5))
        .map(|_| drawn::KINDS[rng.random_range(0..drawn::KINDS.len())](rng))
        .collect();
    let halts = (0..count)
        .map(|index| distributions[index / length % distributions.len()].draw(rng))
        .collect();
    Workload {
        name: format!("phases(of={} every={length})", distributions.len()),
        class: Class::Phases,
        halts: Halts::Drawn(halts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u64) -> Vec<Vec<u64>> {
        let draw = |workload: &Workload| {
            let mut source = workload.source(20_000);
            std::iter::from_fn(|| source.next_halt(0)).collect()
        };
        suite(seed, 200).iter().map(draw).collect()
    }

    #[test]
    fn a_seed_fixes_the_suite_and_another_changes_it() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn every_workload_has_the_halts_asked_for() {
        assert!(drawn(3).iter().all(|halts| halts.len() == 200));
    }

    #[test]
    fn every_kind_that_was_promised_is_there() {
        let suite = suite(1, 1);
        for kind in [
            "constant",
            "uniform",
            "exponential",
            "bimodal",
            "pareto",
            "lognormal",
            "ticks",
            "phases",
            "adversary",
        ] {
            assert!(suite.iter().any(|workload| workload.name.starts_with(kind)), "{kind}");
        }
    }
}
