// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The worst case of `Adaptive`, against guests that see the window.

use halt_poll::{Adaptive, AdaptiveParams, Policy};
use proptest::prelude::*;

use crate::{cost_of, halt_of};

/// What an adversary does when it sees the window.
#[derive(Clone, Copy, Debug)]
enum Move {
    JustMissed,
    JustCaught,
    AtOnce,
    AtBreakEven,
    JustAfterBreakEven,
    Never,
    Anything(u64),
}

impl Move {
    fn length(self, window: u32, block_cost: u64) -> u64 {
        match self {
            Self::JustMissed => u64::from(window) + 1,
            Self::JustCaught => u64::from(window),
            Self::AtOnce => 1,
            Self::AtBreakEven => block_cost,
            Self::JustAfterBreakEven => block_cost + 1,
            Self::Never => 1 << 40,
            Self::Anything(x) => x,
        }
    }
}

fn a_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        Just(Move::JustMissed),
        Just(Move::JustCaught),
        Just(Move::AtOnce),
        Just(Move::AtBreakEven),
        Just(Move::JustAfterBreakEven),
        Just(Move::Never),
        (0..100_000u64).prop_map(Move::Anything),
    ]
}

/// Plays and checks both bounds at every halt: from the first halt on (4 B), and from any (64 B).
fn check(block_cost: u32, moves: impl IntoIterator<Item = Move>) {
    let params = AdaptiveParams {
        block_cost_ns: block_cost,
        latency_ns: 0,
        ceiling_ns: u32::MAX,
        ..AdaptiveParams::default()
    };
    let mut policy = Adaptive::new(params);
    let block_cost = u64::from(block_cost);
    let (mut now, mut slack, mut best_slack) = (0, 0i128, 0i128);
    for (i, each) in moves.into_iter().enumerate() {
        let window = policy.window(now);
        let x = each.length(window, block_cost);
        policy.record(&halt_of(now, window, x));
        now += x;
        let optimum = i128::from(x.min(block_cost));
        slack += 41 * optimum - 20 * i128::from(cost_of(window, x, block_cost));
        best_slack = best_slack.max(slack);
        let unit = 20 * i128::from(block_cost);
        assert!(slack >= -4 * unit, "halt {i}: {slack} below the bound");
        assert!(slack - best_slack >= -64 * unit, "halt {i}: bad stretch");
    }
}

proptest! {
    #[test]
    fn cost_is_bounded_against_any_mixture(
        block_cost in prop_oneof![1..50u32, Just(5_000), Just(20_000), Just(50_000)],
        moves in prop::collection::vec((a_move(), 1..40usize), 1..100),
    ) {
        check(block_cost, moves.into_iter().flat_map(|(each, n)| std::iter::repeat_n(each, n)));
    }
}

#[test]
fn cost_is_bounded_against_each_single_minded_adversary() {
    for each in [
        Move::JustMissed,
        Move::JustCaught,
        Move::AtOnce,
        Move::AtBreakEven,
        Move::JustAfterBreakEven,
        Move::Never,
    ] {
        check(20_000, std::iter::repeat_n(each, 20_000));
    }
}

#[test]
fn cost_is_bounded_against_lulling_and_striking() {
    // Teaches that blocking is right, then ends every halt at once, for longer and longer.
    let round = |n| [Move::Never, Move::AtOnce].map(|each| vec![each; n]).concat();
    check(20_000, (1..200).flat_map(round));
    // Teaches that polling is right, then misses.
    let round = |n| [Move::AtOnce, Move::JustMissed].map(|each| vec![each; n]).concat();
    check(20_000, (1..200).flat_map(round));
}
