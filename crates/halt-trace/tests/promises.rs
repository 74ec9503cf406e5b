// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What Adaptive promises, on the synthetic suite.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use halt_trace::evaluate::{CONTESTANTS, Cost, Setup, best_fixed, run};
use halt_trace::suite::{Class, HALTS, Workload, suite};

const BLOCK_COSTS_NS: [u32; 3] = [5_000, 20_000, 50_000];

/// The cost of a policy and the lengths of the halts it met.
fn live(policy: &str, workload: &Workload, block_cost_ns: u32) -> (Cost, Vec<u64>) {
    let contestant = CONTESTANTS.iter().find(|contestant| contestant.name == policy).unwrap();
    let setup = Setup::new(block_cost_ns, halt_poll::KernelParams::X86);
    let mut policy = (contestant.build)(&setup);
    let mut seen = Vec::new();
    let cost = run(&mut *policy, &mut *workload.source(block_cost_ns), block_cost_ns, &mut seen);
    (cost, seen)
}

#[test]
fn adaptive_is_near_the_best_fixed_threshold_on_stationary_halts() {
    for seed in [2, 71] {
        for workload in suite(seed, HALTS) {
            for block in BLOCK_COSTS_NS {
                if workload.class == Class::Stationary {
                    let (cost, mut seen) = live("adaptive", &workload, block);
                    let regret = cost.ratio_to(best_fixed(&mut seen, block));
                    assert!(
                        regret <= 1.05,
                        "{} at {block} ns, seed {seed}: {regret}",
                        workload.name
                    );
                }
            }
        }
    }
}

/// At every length of the game: at most 2.05 times the clairvoyant and a few blocks.
#[test]
fn no_adversary_makes_adaptive_pay_more_than_promised() {
    for (seed, halts) in [(3, 10), (4, 100), (5, 1_000), (6, 4_000)] {
        for workload in suite(seed, halts) {
            for block in BLOCK_COSTS_NS {
                let (cost, _) = live("adaptive", &workload, block);
                let excess = cost.above(2.05) / f64::from(block);
                assert!(excess <= 6.0, "{} at {block} ns, seed {seed}: {excess} B", workload.name);
            }
        }
    }
}

/// The adversaries are worth their name: the policies without a guard pay for them.
#[test]
fn adversaries_hurt_policies_without_a_guard() {
    for policy in ["never", "always", "kernel"] {
        let worst = suite(1, 1_000)
            .iter()
            .filter(|workload| workload.class == Class::Adversarial)
            .map(|workload| live(policy, workload, 20_000).0.ratio_to_clairvoyant())
            .fold(0.0, f64::max);
        assert!(worst > 3.0, "{policy}: {worst}");
    }
}
