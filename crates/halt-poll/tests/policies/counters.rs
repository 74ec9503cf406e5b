// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Counters mean what the kernel's mean.

use halt_poll::{Counters, Halt, Log2Histogram};
use proptest::prelude::*;

#[test]
fn f19_a_halt_that_never_slept_is_a_success_and_its_poll_ended_at_the_last_look() {
    // The wake-up came after the last look (9 us) and before the sleep: the halt took 12 us.
    let mut halt = Halt::polled(0, 10_000, 12_000);
    halt.polled_ns = 9_000;
    let mut counters = Counters::default();
    counters.record(&halt);
    assert_eq!((counters.attempted, counters.successful, counters.wakeup), (1, 1, 0));
    assert_eq!((counters.success_ns, counters.fail_ns, counters.wait_ns), (9_000, 0, 0));
}

#[test]
fn f14_counters_tell_what_polling_costs_and_spares() {
    let mut counters = Counters::default();
    counters.record(&Halt::polled(0, 10_000, 4_000));
    counters.record(&Halt::polled(0, 10_000, 5_000).invalid());
    counters.record(&Halt::slept(0, 10_000, 10_500, 70_500));
    counters.record(&Halt::slept(0, 10_000, 10_000, 20_000).invalid());
    // No window: no attempt, but a sleep.
    counters.record(&Halt::slept(0, 0, 0, 30_000));
    // No window, no sleep: nothing at all.
    counters.record(&Halt::polled(0, 0, 0));
    assert_eq!((counters.attempted, counters.successful, counters.invalid), (4, 2, 1));
    assert_eq!((counters.success_ns, counters.fail_ns), (9_000, 20_500));
    assert_eq!((counters.wakeup, counters.wait_ns), (3, 60_000 + 10_000 + 30_000));
    assert_eq!(counters.success_hist.buckets().iter().sum::<u64>(), 2);
    assert_eq!(counters.fail_hist.buckets()[14], 2, "8192 to 16383 ns");
    assert_eq!(counters.wait_hist.buckets().iter().sum::<u64>(), 3);

    let mut sum = counters;
    sum += &counters;
    assert_eq!((sum.attempted, sum.wait_ns), (8, 200_000));
    assert_eq!(sum.fail_hist.buckets()[14], 4);
}

#[test]
fn each_power_of_two_begins_a_bucket() {
    let mut histogram = Log2Histogram::default();
    for ns in [0, 1, 2, 3, 4, (1 << 30) - 1, 1 << 30, u64::MAX] {
        histogram.record(ns);
    }
    let buckets = histogram.buckets();
    assert_eq!(buckets[..4], [1, 1, 2, 1]);
    assert_eq!(buckets[30..], [1, 2]);
}

proptest! {
    #[test]
    fn every_attempt_is_a_success_or_a_failure(
        halts in prop::collection::vec(
            (any::<u32>(), any::<u64>(), any::<u64>(), any::<bool>(), any::<bool>()),
            1..50,
        ),
    ) {
        let mut counters = Counters::default();
        for &(window, polled, halt, slept, valid) in &halts {
            let mut halt = if slept {
                Halt::slept(0, window, polled, halt)
            } else {
                Halt::polled(0, window, halt)
            };
            halt.valid = valid;
            counters.record(&halt);
        }
        let failed: u64 = counters.fail_hist.buckets().iter().sum();
        prop_assert_eq!(counters.attempted, counters.successful + failed);
        prop_assert_eq!(counters.wakeup, halts.iter().filter(|halt| halt.3).count() as u64);
        prop_assert!(counters.invalid <= counters.successful);
    }
}
