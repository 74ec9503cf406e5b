// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The sleep: spurious ends, time-outs, errors, and what counts as a success.

use halt_poll::HaltEnd;
use vcpu_state::BlockEnd;

use crate::scene::{Scene, Sleep};

#[test]
fn f19_a_wakeup_between_the_last_look_and_the_sleep_is_a_successful_poll() {
    let scene = Scene::new(10).sleep(Sleep::Ends(70, BlockEnd::NotSlept, true));
    let mut poller = scene.poller(100);
    let halted = poller.halt(&&scene).unwrap();
    assert_eq!(halted.end, HaltEnd::Woken);
    assert!(!halted.halt.slept);
    assert_eq!(halted.halt.polled_ns, 100, "the polling, not the attempt to sleep");
    assert_eq!(halted.halt.halt_ns, 180);
    let counters = poller.counters();
    assert_eq!((counters.attempted, counters.successful, counters.wakeup), (1, 1, 0));
    assert_eq!((counters.success_ns, counters.fail_ns), (100, 0));
}

#[test]
fn a_sleep_after_polling_in_vain_is_a_failed_poll() {
    let scene = Scene::new(10).sleep(Sleep::Ends(5_000, BlockEnd::Woken, true));
    let mut poller = scene.poller(100);
    let halt = poller.halt(&&scene).unwrap().halt;
    assert_eq!((halt.slept, halt.polled_ns, halt.halt_ns), (true, 100, 5_110));
    let counters = poller.counters();
    assert_eq!((counters.attempted, counters.successful, counters.wakeup), (1, 0, 1));
    assert_eq!((counters.success_ns, counters.fail_ns, counters.wait_ns), (0, 100, 5_010));
}

#[test]
fn sleeps_that_end_without_reason_are_one_halt() {
    let scene = Scene::new(10)
        .sleep(Sleep::Ends(100, BlockEnd::Woken, false))
        .sleep(Sleep::Ends(100, BlockEnd::NotSlept, false))
        .sleep(Sleep::Ends(100, BlockEnd::TimedOut, false))
        .sleep(Sleep::Ends(100, BlockEnd::Woken, true));
    let mut poller = scene.poller(50);
    let halted = poller.halt(&&scene).unwrap();
    assert_eq!((halted.end, halted.halt.slept), (HaltEnd::Woken, true));
    assert_eq!(scene.slept.borrow().len(), 4);
    assert_eq!(poller.policy().halts, [halted.halt]);
}

#[test]
fn a_signal_ends_the_halt() {
    let scene = Scene::new(10).sleep(Sleep::Ends(100, BlockEnd::Interrupted, false));
    let halted = scene.poller(0).halt(&&scene).unwrap();
    assert_eq!(halted.end, HaltEnd::Interrupted);
}

#[test]
fn a_wakeup_that_comes_with_a_signal_is_consumed() {
    let scene = Scene::new(10).sleep(Sleep::Ends(100, BlockEnd::Interrupted, true));
    let halted = scene.poller(0).halt(&&scene).unwrap();
    assert_eq!(halted.end, HaltEnd::Woken);
    assert_eq!(scene.wake_at.get(), None);
}

#[test]
fn a_timeout_ends_the_halt_without_a_valid_wakeup() {
    let scene = Scene::new(10).sleep(Sleep::Ends(900, BlockEnd::TimedOut, false));
    let mut poller = scene.poller(100);
    let halted = poller.halt_for(&&scene, 1_000).unwrap();
    assert_eq!(halted.end, HaltEnd::TimedOut);
    assert!(halted.halt.slept && !halted.halt.valid);
    assert_eq!(scene.slept.borrow().as_slice(), [Some(900)], "what the polling left of it");
}

#[test]
fn a_sleep_without_reason_does_not_start_the_timeout_afresh() {
    let scene = Scene::new(10).sleep(Sleep::Ends(300, BlockEnd::Woken, false)).sleep(Sleep::Ends(
        690,
        BlockEnd::Woken,
        false,
    ));
    let halted = scene.poller(0).halt_for(&&scene, 1_000).unwrap();
    assert_eq!(halted.end, HaltEnd::TimedOut);
    assert_eq!(scene.slept.borrow().as_slice(), [Some(1_000), Some(690)]);
}

#[test]
fn a_timeout_within_the_window_ends_the_polling_and_the_halt() {
    let scene = Scene::new(10);
    let halted = scene.poller(1_000_000).halt_for(&&scene, 200).unwrap();
    assert_eq!((halted.end, halted.halt.slept), (HaltEnd::TimedOut, false));
    assert_eq!(halted.halt.polled_ns, 200);
    assert!(scene.slept.borrow().is_empty());
}

#[test]
fn a_timeout_of_zero_is_one_look() {
    let scene = Scene::new(10);
    let halted = scene.poller(1_000).halt_for(&&scene, 0).unwrap();
    assert_eq!((halted.end, halted.halt.polled_ns), (HaltEnd::TimedOut, 0));
    assert!(scene.slept.borrow().is_empty());
}

#[test]
fn a_failing_source_is_reported_and_recorded() {
    let scene = Scene::new(10).sleep(Sleep::Fails);
    let mut poller = scene.poller(100);
    assert_eq!(poller.halt(&&scene), Err("scripted"));
    assert_eq!(poller.policy().halts.len(), 1);
    // And the next halt works.
    assert_eq!(poller.halt(&&scene).unwrap().end, HaltEnd::Woken);
}
