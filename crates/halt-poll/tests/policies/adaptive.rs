// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What `Adaptive` learns, and from what.

use halt_poll::{Adaptive, AdaptiveParams, Halt, Policy, Share, SharedAdaptiveParams, Weight};
use proptest::prelude::*;

use crate::{halt_of, play};

/// Blocking costs 20 us.
fn params(latency_ns: u32) -> AdaptiveParams {
    AdaptiveParams {
        block_cost_ns: 20_000,
        latency_ns,
        latency_weight: Weight::percent(0),
        ..AdaptiveParams::default()
    }
}

/// Halts of the true lengths on a host whose sleepers wake up `late` after the event.
fn play_late(
    policy: &mut impl Policy,
    lengths: impl IntoIterator<Item = u64>,
    late: u64,
) -> Vec<u32> {
    let mut now = 0;
    let mut windows = Vec::new();
    for x in lengths {
        let window = policy.window(now);
        let mut halt = halt_of(now, window, x);
        if halt.slept {
            halt.halt_ns += late;
        }
        policy.record(&halt);
        now += halt.halt_ns + 1_000;
        windows.push(window);
    }
    windows
}

proptest! {
    #[test]
    fn windows_keep_to_the_ceiling_whatever_changes_and_whatever_comes(
        halts in prop::collection::vec(
            (
                prop_oneof![0..100u32, 0..100_000u32, any::<u32>()],
                prop_oneof![0..100_000u32, any::<u32>()],
                any::<u16>(),
                prop_oneof![Just(0), 0..100_000u32, any::<u32>()],
                0..=1_000_000u32,
                (any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>(), any::<bool>()),
                1..20usize,
            ),
            1..40,
        ),
    ) {
        let shared = SharedAdaptiveParams::default();
        let mut policy = Adaptive::new(&shared);
        for (block, latency, weight, ceiling, ppm, halt, times) in halts {
            shared.set_block_cost_ns(block);
            shared.set_latency_ns(latency);
            shared.set_latency_weight(Weight::percent(weight));
            shared.set_ceiling_ns(ceiling);
            shared.set_max_polled_share(Share::from_ppm(ppm).unwrap());
            let (now, polled_ns, halt_ns, slept, contended) = halt;
            for _ in 0..times {
                let window = policy.window(now);
                prop_assert!(window <= ceiling);
                let mut halt = Halt::slept(now, window, polled_ns, halt_ns);
                halt.slept = slept;
                halt.contended = contended;
                policy.record(&halt);
            }
        }
    }
}

#[test]
fn plays_the_break_even_window_until_it_knows_better() {
    assert_eq!(Adaptive::new(params(0)).window(0), 20_000);
    let low = AdaptiveParams { ceiling_ns: 7_000, ..params(0) };
    assert_eq!(Adaptive::new(low).window(0), 7_000);
    let free = AdaptiveParams { block_cost_ns: 0, ..params(0) };
    assert_eq!(play(&mut Adaptive::new(free), [1, 1_000, 1_000_000]), [0; 3]);
}

#[test]
fn f11_an_idle_250_hz_guest_is_not_polled_for() {
    for latency in [0, 5_000, 100_000] {
        let windows = play(&mut Adaptive::new(params(latency)), [3_999_000; 10_000]);
        let polled: u64 = windows.iter().map(|&window| u64::from(window)).sum();
        assert!(polled <= 100_000, "{polled} ns in 40 s with latency {latency}");
    }
}

#[test]
fn f11_a_guest_that_works_between_its_ticks_is_polled_for_while_it_works() {
    // Six round trips of 10 us, then a tick, over and over.
    let lengths = (0..7_000).map(|i| if i % 7 == 6 { 3_900_000 } else { 10_000 + i % 50 });
    let windows = play(&mut Adaptive::new(params(0)), lengths);
    let last = &windows[1_000..];
    let caught = last.iter().filter(|&&window| window > 10_050).count();
    assert!(caught * 100 > last.len() * 85, "{caught} of {}", last.len());
    // Stationary, so the window is fitted to the halts, not to B.
    let fitted = last.iter().filter(|&&window| (10_049..11_000).contains(&window)).count();
    assert!(fitted * 100 > last.len() * 80, "{fitted} of {}", last.len());
}

#[test]
fn a_change_of_phase_is_noticed_within_a_few_halts() {
    let mut policy = Adaptive::new(params(0));
    for round in 0..20 {
        play(&mut policy, [4_000; 100]);
        let to_idle = play(&mut policy, [1_000_000; 100]);
        let polled: u32 = to_idle.iter().sum();
        assert!(polled <= 5 * 20_000, "round {round}: {polled} ns polled for an idle guest");
        let to_work = play(&mut policy, [4_000; 100]);
        let missed = to_work.iter().filter(|&&window| window < 4_000).count();
        assert!(missed <= 8, "round {round}: {missed} misses of a busy guest");
    }
}

#[test]
fn measured_sleeps_are_shorter_by_the_latency() {
    // 15 us, and 10 us late. As measured, 25 us are too long for a B of 20 us.
    let windows = play_late(&mut Adaptive::new(params(10_000)), [15_000; 300], 10_000);
    assert!(windows.iter().skip(2).all(|&window| window >= 15_000));
    // Once it blocks, sleeps alone must bring it back.
    let mut policy = Adaptive::new(params(10_000));
    play_late(&mut policy, [1_000_000; 100], 10_000);
    assert_eq!(policy.window(0), 0);
    let windows = play_late(&mut policy, [15_000; 100], 10_000);
    assert!(windows.iter().skip(10).all(|&window| window >= 15_000), "{windows:?}");
}

#[test]
fn a_latency_set_too_low_is_found_out_by_probing() {
    // Truly 30 us late, said to be 10: halts of 12 us look like 32.
    let mut policy = Adaptive::new(params(10_000));
    play_late(&mut policy, [1_000_000; 100], 30_000);
    let windows = play_late(&mut policy, [12_000; 400], 30_000);
    let missed = windows.iter().filter(|&&window| window < 12_000).count();
    assert!(missed < 40, "{missed}");
    assert!(windows[300..].iter().all(|&window| window >= 12_000));
}

#[test]
fn probing_costs_little_and_ticks_and_a_known_latency_cause_none() {
    // Truly just too long to poll for: in doubt, so probed, ever more seldom.
    let windows = play_late(&mut Adaptive::new(params(10_000)), [25_000; 4_096], 10_000);
    let probes = windows.iter().skip(100).filter(|&&window| window > 0).count();
    assert!((4_096 / 256..=4_096 / 64).contains(&probes), "{probes}");
    for (length, latency) in [(25_000, 0), (4_000_000, 10_000)] {
        let windows = play_late(&mut Adaptive::new(params(latency)), [length; 4_096], 10_000);
        let probes = windows.iter().skip(100).filter(|&&window| window > 0).count();
        assert_eq!(probes, 0, "halts of {length} with latency {latency}");
    }
}

#[test]
fn f13_a_poll_given_up_for_somebody_else_teaches_nothing() {
    let mut policy = Adaptive::new(params(0));
    for _ in 0..100 {
        let window = policy.window(0);
        policy.record(&Halt::slept(0, window, 1_000, 5_000_000).contended());
    }
    assert_eq!(policy.window(0), 20_000);
}

#[test]
fn a_wakeup_pending_before_the_halt_teaches_nothing() {
    let mut policy = Adaptive::new(params(0));
    play(&mut policy, [1_000_000; 20]);
    for _ in 0..100_000 {
        let window = policy.window(0);
        policy.record(&Halt::polled(0, window, 0));
    }
    assert_eq!(policy.window(0), 0);
}

#[test]
fn halts_that_time_out_teach_that_polling_is_in_vain() {
    // A wait of 15 us at a time for what does not come: shorter than B, and no success.
    let mut policy = Adaptive::new(params(0));
    for _ in 0..16 {
        let window = policy.window(0);
        let polled = u64::from(window.min(15_000));
        let halt = if window < 15_000 {
            Halt::slept(0, window, polled, 15_000)
        } else {
            Halt::polled(0, window, polled)
        };
        policy.record(&halt.invalid());
    }
    assert_eq!(policy.window(0), 0);
}

#[test]
fn no_more_than_the_ceiling_is_chosen_even_where_more_would_be_better() {
    // 15 us would be best; with at most 10 us, polling is for nothing.
    let low = AdaptiveParams { ceiling_ns: 10_000, ..params(0) };
    let windows = play(&mut Adaptive::new(low), [15_000; 100]);
    assert!(windows.iter().skip(20).all(|&window| window == 0), "{windows:?}");
}

#[test]
fn a_new_block_cost_counts_at_the_next_halt() {
    let shared = SharedAdaptiveParams::new(params(0));
    let mut policy = Adaptive::new(&shared);
    play(&mut policy, [40_000; 100]);
    assert_eq!(policy.window(0), 0);
    shared.set_block_cost_ns(60_000);
    assert_eq!(policy.window(0), 60_000);
    assert!(play(&mut policy, [40_000; 100]).iter().all(|&window| window >= 40_000));
}
