// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The bound on the polled share of wall time.

use halt_poll::{Adaptive, AdaptiveParams, Policy, Share, SharedAdaptiveParams};
use proptest::prelude::*;

use crate::{halt_of, play};

fn params(share: Share) -> AdaptiveParams {
    AdaptiveParams {
        block_cost_ns: 20_000,
        latency_ns: 0,
        ceiling_ns: 200_000,
        max_polled_share: share,
        ..AdaptiveParams::default()
    }
}

proptest! {
    #[test]
    fn no_interval_is_polled_more_than_the_share_and_a_burst(
        ppm in 0..=1_000_000u32,
        halts in prop::collection::vec(
            (1..60_000u64, prop_oneof![0..100_000i64, -1_000_000..0i64, any::<i64>()]),
            1..300,
        ),
    ) {
        let mut policy = Adaptive::new(params(Share::from_ppm(ppm).unwrap()));
        let burst = u128::from(ppm) * 10_000_000 + 200_000 * 1_000_000;
        let mut now = 1u64 << 62;
        let mut forward = 0u128;
        // Time that passed, and what was polled, up to the begin of each halt.
        let mut sums = vec![(0u128, 0u128)];
        let mut polled = 0;
        for (x, jump) in halts {
            let window = policy.window(now);
            let halt = halt_of(now, window, x);
            policy.record(&halt);
            polled += u128::from(halt.polled_ns) * 1_000_000;
            for &(then, before) in &sums {
                prop_assert!(ppm == 1_000_000
                    || polled - before <= (forward - then) * u128::from(ppm) + burst);
            }
            let next = now.saturating_add(x).saturating_add_signed(jump);
            forward += u128::from(next.saturating_sub(now));
            now = next;
            sums.push((forward, polled));
        }
    }
}

#[test]
fn a_window_is_whole_or_0() {
    let windows = play(&mut Adaptive::new(params(Share::percent(10).unwrap())), [15_000; 2_000]);
    let polls = windows.iter().filter(|&&window| window > 0).count();
    assert!(windows.iter().all(|&window| window == 0 || window >= 15_000));
    // 2000 halts of 16 us: 3.2 ms of 32 ms may be polled, and 1 ms and a window more.
    assert!((200..=300).contains(&polls), "{polls}");
}

#[test]
fn a_share_of_nothing_never_polls_and_of_everything_always_may() {
    assert_eq!(play(&mut Adaptive::new(params(Share::NONE)), [1_000; 100]), [0; 100]);
    assert!(play(&mut Adaptive::new(params(Share::ALL)), [1_000; 100]).iter().all(|&w| w > 0));
}

#[test]
fn a_clock_that_stands_still_or_goes_back_refills_nothing() {
    let mut policy = Adaptive::new(params(Share::percent(1).unwrap()));
    let mut polled = 0;
    for i in 0..10_000u64 {
        let now = 1_000_000 - i;
        let window = policy.window(now);
        policy.record(&halt_of(now, window, 10_000));
        polled += u64::from(window.min(10_000));
    }
    assert!(polled <= 100_000 + 200_000, "{polled}");
}

#[test]
fn idle_time_is_saved_up_only_to_the_burst() {
    let mut policy = Adaptive::new(params(Share::percent(1).unwrap()));
    let idle = policy.window(0);
    policy.record(&halt_of(0, idle, 15_000));
    let mut polled = 0;
    for i in 0..1_000u64 {
        // As if ten seconds had passed at once, and then hardly any time.
        let now = 10_000_000_000 + i;
        let window = policy.window(now);
        policy.record(&halt_of(now, window, 15_000));
        polled += u64::from(window.min(15_000));
    }
    assert!((100_000..=300_000).contains(&polled), "{polled}");
}

#[test]
fn the_share_can_change_at_any_time() {
    let shared = SharedAdaptiveParams::new(params(Share::NONE));
    let mut policy = Adaptive::new(&shared);
    assert_eq!(policy.window(0), 0);
    shared.set_max_polled_share(Share::ALL);
    assert_eq!(policy.window(0), 20_000);
    shared.set_max_polled_share(Share::NONE);
    assert_eq!(policy.window(0), 0);
}
