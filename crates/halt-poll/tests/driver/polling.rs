// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The poll phase: when it starts, when it ends, what it reports.

use halt_poll::{Fixed, HaltEnd, HaltPoller, Policy};
use vcpu_state::BlockEnd;

use crate::scene::{Asked, Noting, Scene, Sleep};

#[test]
fn a_pending_wakeup_ends_the_halt_at_once() {
    let scene = Scene::new(10).wake_in(0);
    let mut poller = scene.poller(1_000);
    let halted = poller.halt(&&scene).unwrap();
    assert_eq!((halted.end, halted.halt.halt_ns, halted.halt.slept), (HaltEnd::Woken, 0, false));
    assert_eq!(scene.reads.get(), 1, "one reading of the clock");
    assert!(scene.slept.borrow().is_empty());
    assert_eq!(poller.policy().halts.len(), 1);
}

#[test]
fn f01_a_window_of_zero_blocks_without_polling() {
    let scene = Scene::new(10).sleep(Sleep::Ends(500, BlockEnd::Woken, true));
    let halted = scene.poller(0).halt(&&scene).unwrap();
    assert_eq!(halted.halt.polled_ns, 0);
    assert!(halted.halt.slept);
    assert_eq!(scene.reads.get(), 2, "at the begin and after the sleep");
}

#[test]
fn f01_a_window_that_becomes_zero_holds_from_the_next_halt() {
    let scene = Scene::new(10);
    let mut poller = HaltPoller::new(Fixed::new(1_000)).with_clock(&scene);
    assert!(poller.halt(&&scene).unwrap().halt.polled_ns >= 1_000);
    *poller.policy_mut() = Fixed::new(0);
    assert_eq!(poller.halt(&&scene).unwrap().halt.polled_ns, 0);
}

#[test]
fn a_boxed_policy_is_asked_and_taught_as_the_policy_itself() {
    let scene = Scene::new(10).wake_in(300);
    let mut noting = Noting::new(1_000);
    let boxed: Box<dyn Policy + '_> = Box::new(&mut noting);
    let mut poller = HaltPoller::new(boxed).with_contention(Asked::default()).with_clock(&scene);
    let halted = poller.halt(&&scene).unwrap();
    assert_eq!((halted.end, halted.halt.slept), (HaltEnd::Woken, false));
    assert_eq!(halted.halt.window_ns, 1_000);
    drop(poller);
    assert_eq!(noting.halts, [halted.halt]);
}

#[test]
fn a_wakeup_within_the_window_spares_the_sleep() {
    let scene = Scene::new(10).wake_in(300);
    let mut poller = scene.poller(1_000);
    let halted = poller.halt(&&scene).unwrap();
    assert_eq!(halted.end, HaltEnd::Woken);
    assert!(!halted.halt.slept && scene.slept.borrow().is_empty());
    assert!((280..=300).contains(&halted.halt.halt_ns), "{halted:?}");
    assert_eq!(halted.halt.polled_ns, halted.halt.halt_ns);
    assert_eq!((poller.counters().attempted, poller.counters().successful), (1, 1));
}

#[test]
fn polling_ends_within_one_step_of_the_window() {
    let scene = Scene::new(30);
    let halted = scene.poller(1_000).halt(&&scene).unwrap();
    assert!((1_000..1_030).contains(&halted.halt.polled_ns), "{halted:?}");
    assert_eq!(scene.slept.borrow().as_slice(), [None]);
}

#[test]
fn f08_polling_ends_when_the_cpu_is_wanted() {
    let scene = Scene::new(10);
    let mut poller =
        scene.poller(1_000_000).with_contention(Asked { times: 0, wants_from: Some(5) });
    let halted = poller.halt(&&scene).unwrap();
    assert!(halted.halt.contended && halted.halt.slept);
    assert_eq!(halted.halt.polled_ns, 50);
}

#[test]
fn f13_contention_is_asked_at_each_iteration() {
    let scene = Scene::new(10);
    let mut contention = Asked::default();
    let mut poller = scene.poller(1_000).with_contention(&mut contention);
    let _ = poller.halt(&&scene).unwrap();
    // 100 iterations; the last one is over anyway.
    assert_eq!(contention.times, 99);
}

#[test]
fn a_clock_that_stands_still_ends_the_polling() {
    let scene = Scene::new(0);
    let halted = scene.poller(10_000).halt(&&scene).unwrap();
    assert_eq!((halted.end, halted.halt.slept), (HaltEnd::Woken, true));
    assert!(scene.reads.get() <= 10_002, "at most a step per nanosecond");
}

#[test]
fn a_clock_that_goes_back_ends_the_polling() {
    let scene = Scene::new(10);
    scene.steps.borrow_mut().extend([10, 10, -900_000, 10]);
    let halted = scene.poller(u32::MAX).halt(&&scene).unwrap();
    assert!(halted.halt.slept);
    assert!(scene.reads.get() < 10);
    assert!(halted.halt.polled_ns <= 40, "{halted:?}");
}

#[test]
fn a_clock_that_jumps_ahead_ends_the_polling() {
    let scene = Scene::new(10);
    scene.steps.borrow_mut().extend([10, 1 << 60, 10]);
    let halted = scene.poller(1_000_000).halt(&&scene).unwrap();
    assert!(halted.halt.slept);
    assert!(scene.reads.get() < 10);
}
