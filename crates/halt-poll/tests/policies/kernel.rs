// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `KernelPolicy` is the kernel's, halt for halt.

use std::cell::Cell;

use halt_poll::{Adjustment, Halt, KernelParams, KernelPolicy, Policy, Source};
use proptest::prelude::*;

use crate::{halt_of, play};

/// The kernel's decision as facts/halt-poll.md says it, in wide arithmetic.
fn model(window: u64, p: &KernelParams, halt_ns: u64, valid: bool) -> (u64, bool) {
    let (max, floor) = (u64::from(p.halt_poll_ns), u64::from(p.grow_start));
    let shrink = || {
        let smaller = if p.shrink == 0 { 0 } else { window / u64::from(p.shrink) };
        (if smaller < floor { 0 } else { smaller }, true)
    };
    if !valid {
        return shrink();
    }
    if max == 0 {
        return (0, false);
    }
    if halt_ns <= window {
        return (window, false);
    }
    if window > 0 && halt_ns > max {
        return shrink();
    }
    if window < max && halt_ns < max {
        if p.grow == 0 {
            return (window, true);
        }
        let larger = window * u64::from(p.grow) % (1 << 32);
        return (larger.max(floor), true);
    }
    (window, false)
}

fn params() -> impl Strategy<Value = KernelParams> {
    let ceiling = prop_oneof![Just(0), 1..20_000u32, Just(200_000), any::<u32>()];
    let grow = prop_oneof![0..4u32, any::<u32>()];
    let floor = prop_oneof![Just(0), 1..20_000u32, any::<u32>()];
    let shrink = prop_oneof![0..4u32, any::<u32>()];
    (ceiling, grow, floor, shrink).prop_map(|(halt_poll_ns, grow, grow_start, shrink)| {
        KernelParams { halt_poll_ns, grow, grow_start, shrink }
    })
}

/// A source that can be changed between any two reads, and counts them.
#[derive(Default)]
struct Watched {
    params: Cell<KernelParams>,
    loads: Cell<u32>,
}

impl Source for Watched {
    type Params = KernelParams;

    fn load(&self) -> KernelParams {
        self.loads.set(self.loads.get() + 1);
        self.params.get()
    }
}

proptest! {
    #[test]
    fn windows_are_the_models_whatever_changes(
        halts in prop::collection::vec(
            (params(), params(), prop_oneof![0..500_000u64, any::<u64>()], any::<bool>()),
            1..60,
        ),
    ) {
        let source = Watched::default();
        let mut policy = KernelPolicy::new(&source);
        let mut window = 0u64;
        for (before, after, length, valid) in halts {
            source.params.set(before);
            window = window.min(before.halt_poll_ns.into());
            prop_assert_eq!(u64::from(policy.window(0)), window);
            // The parameters may change during the halt.
            source.params.set(after);
            let mut halt = halt_of(0, policy.window_ns(), length);
            halt.valid = valid;
            let (next, traced) = model(window, &after, length, valid);
            let adjustment = policy.adjust(&halt);
            prop_assert_eq!(adjustment.is_traced(), traced);
            if let Adjustment::Grow { from, to } | Adjustment::Shrink { from, to } = adjustment {
                prop_assert_eq!((u64::from(from), u64::from(to)), (window, next));
            }
            window = next;
            prop_assert_eq!(u64::from(policy.window_ns()), window);
        }
    }

    #[test]
    fn f04_no_window_is_above_the_ceiling(
        params in params(),
        lengths in prop::collection::vec(0..1_000_000u64, 1..100),
    ) {
        let windows = play(&mut KernelPolicy::new(params), lengths);
        prop_assert!(windows.iter().all(|&window| window <= params.halt_poll_ns));
    }
}

#[test]
fn f02_one_snapshot_for_each_decision() {
    let source = Watched::default();
    let mut policy = KernelPolicy::with_window(&source, 50_000);
    let window = policy.window(0);
    assert_eq!(source.loads.replace(0), 1);
    policy.record(&halt_of(0, window, 100_000));
    assert_eq!(source.loads.get(), 1);
}

#[test]
fn f03_a_lowered_ceiling_clamps_the_next_poll() {
    let source = Watched::default();
    let mut policy = KernelPolicy::with_window(&source, 160_000);
    source.params.set(KernelParams { halt_poll_ns: 20_000, ..KernelParams::X86 });
    assert_eq!(policy.window(0), 20_000);
}

#[test]
fn f04_growth_past_an_odd_ceiling_is_capped() {
    let params = KernelParams { halt_poll_ns: 11_000, ..KernelParams::X86 };
    assert_eq!(play(&mut KernelPolicy::new(params), [10_500; 4]), [0, 10_000, 11_000, 11_000]);
}

#[test]
fn f05_a_growth_factor_of_0_keeps_the_window() {
    let params = KernelParams { grow: 0, ..KernelParams::X86 };
    let mut policy = KernelPolicy::with_window(params, 20_000);
    let adjustment = policy.adjust(&halt_of(0, 20_000, 30_000));
    assert_eq!(adjustment, Adjustment::Grow { from: 20_000, to: 20_000 });
    assert!(adjustment.is_traced(), "the kernel prints a line with equal windows");
}

#[test]
fn f06_growth_jumps_to_the_first_step() {
    assert_eq!(play(&mut KernelPolicy::new(KernelParams::X86), [30_000; 2]), [0, 10_000]);
    let mut small = KernelPolicy::with_window(KernelParams::X86, 3_000);
    small.record(&halt_of(0, 3_000, 30_000));
    assert_eq!(small.window(0), 10_000);
}

#[test]
fn f07_a_shrink_below_the_floor_gives_0() {
    let mut policy = KernelPolicy::with_window(KernelParams::X86, 19_998);
    policy.record(&halt_of(0, 19_998, 1_000_000));
    assert_eq!(policy.window(0), 0);
}

#[test]
fn f16_one_long_sleep_halves_the_window_and_can_reset_it() {
    let after_a_sleep = |params| {
        let mut policy = KernelPolicy::with_window(params, 160_000);
        policy.record(&halt_of(0, 160_000, 1_000_000));
        policy.window(0)
    };
    assert_eq!(after_a_sleep(KernelParams::default()), 80_000);
    assert_eq!(after_a_sleep(KernelParams { shrink: 0, ..KernelParams::default() }), 0);
}

#[test]
fn a_wakeup_pending_before_the_halt_keeps_the_window() {
    let mut policy = KernelPolicy::with_window(KernelParams::X86, 20_000);
    assert_eq!(policy.adjust(&Halt::polled(0, 20_000, 0)), Adjustment::Keep);
}
