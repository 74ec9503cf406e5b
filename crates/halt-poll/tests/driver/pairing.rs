// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Whatever clock, source and script do, the driver keeps its promises.

use halt_poll::HaltEnd;
use proptest::prelude::*;
use vcpu_state::BlockEnd;

use crate::scene::{Asked, Scene, Sleep};

fn sleeps() -> impl Strategy<Value = Vec<Sleep>> {
    let end = prop_oneof![
        Just(BlockEnd::NotSlept),
        Just(BlockEnd::Woken),
        Just(BlockEnd::Interrupted),
        Just(BlockEnd::TimedOut),
    ];
    let sleep = prop_oneof![
        9 => (0..100_000_u64, end, any::<bool>()).prop_map(|(ns, e, p)| Sleep::Ends(ns, e, p)),
        1 => Just(Sleep::Fails),
    ];
    proptest::collection::vec(sleep, 0..6)
}

fn steps() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![8 => 1..200_i64, 1 => -5_000..5_000_i64, 1 => any::<i64>()];
    (proptest::collection::vec(step, 0..200), 0..200_i64)
        .prop_map(|(steps, last)| steps.into_iter().chain([last]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_window_has_one_record_and_bounds_hold(
        window in prop_oneof![Just(0_u32), 1..20_000_u32],
        timeout in proptest::option::of(0..50_000_u64),
        wake_in in proptest::option::of(0..30_000_u64),
        wants_from in proptest::option::of(1..100_u64),
        steps in steps(),
        sleeps in sleeps(),
    ) {
        let scene = Scene::default();
        scene.now.set(1 << 40);
        let longest = steps.iter().copied().max().unwrap_or(0).max(0).unsigned_abs();
        scene.steps.borrow_mut().extend(steps);
        scene.sleeps.borrow_mut().extend(sleeps);
        if let Some(ns) = wake_in {
            scene.wake_at.set(Some(scene.now.get() + ns));
        }
        // Noting checks the pairing itself.
        let mut poller = scene.poller(window).with_contention(Asked { times: 0, wants_from });
        let halted = match timeout {
            Some(timeout) => poller.halt_for(&&scene, timeout),
            None => poller.halt(&&scene),
        };
        let [halt] = poller.policy().halts[..] else {
            return Err(TestCaseError::fail("not exactly one record"));
        };
        let budget = u64::from(window).min(timeout.unwrap_or(u64::MAX));
        prop_assert!(halt.polled_ns < budget.saturating_add(longest).max(1), "{halt:?}");
        prop_assert!(window > 0 || halt.polled_ns == 0);
        prop_assert!(halt.slept || !matches!(halted, Ok(h) if h.end == HaltEnd::Interrupted));
        prop_assert!(timeout.is_some() || !matches!(halted, Ok(h) if h.end == HaltEnd::TimedOut));
        if let Ok(halted) = halted {
            prop_assert_eq!(halted.halt, halt);
            prop_assert_eq!(halt.valid, halted.end != HaltEnd::TimedOut);
        }
        prop_assert_eq!(poller.counters().attempted, u64::from(window > 0));
    }
}
