// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Vetoes: by the guest and by steal time.

use halt_poll::{Fixed, Gated, KernelParams, KernelPolicy, Policy};

use crate::{halt_of, play};

#[test]
fn f12_poll_control_0_stops_polling_and_reserved_bits_are_refused() {
    let mut policy = Gated::new(Fixed::new(10_000));
    assert_eq!((policy.poll_control(), policy.window(0)), (1, 10_000), "on after reset");
    policy.set_poll_control(0).unwrap();
    assert_eq!((policy.poll_control(), policy.window(0)), (0, 0));
    assert_eq!(policy.vetoed_by_guest(), 1);
    for bit in 1..64 {
        for value in [1 << bit, 1 << bit | 1] {
            assert_eq!(policy.set_poll_control(value).unwrap_err().value, value);
            assert_eq!(policy.poll_control(), 0, "a refused write changes nothing");
        }
    }
    // Restored from what was saved.
    let mut restored = Gated::new(Fixed::new(10_000));
    restored.set_poll_control(policy.poll_control()).unwrap();
    assert_eq!(restored.window(0), 0);
    restored.set_poll_control(1).unwrap();
    assert_eq!(restored.window(0), 10_000);
}

#[test]
fn f10_steal_at_the_limit_stops_polling() {
    let mut policy = Gated::new(Fixed::new(10_000));
    policy.set_steal(100);
    assert_eq!(policy.window(0), 10_000, "off unless asked for");
    policy.set_max_steal(Some(10));
    for (steal, window) in [(9, 10_000), (10, 0), (11, 0), (0, 10_000)] {
        policy.set_steal(steal);
        assert_eq!(policy.window(0), window, "steal {steal}");
    }
    assert_eq!((policy.vetoed_by_steal(), policy.vetoed_by_guest()), (2, 0));
    policy.set_max_steal(Some(0));
    assert_eq!(policy.window(0), 0, "0 forbids all");
    policy.set_max_steal(None);
    assert_eq!(policy.window(0), 10_000);
}

#[test]
fn a_vetoed_halt_neither_grows_nor_shrinks_the_window_but_is_clamped() {
    let mut policy = Gated::new(KernelPolicy::with_window(KernelParams::X86, 400_000));
    policy.set_poll_control(0).unwrap();
    assert_eq!(play(&mut policy, [30_000, 1_000_000, 30_000]), [0; 3]);
    assert_eq!(policy.policy().window_ns(), 200_000);
}

#[test]
fn the_question_is_answered_once_a_halt() {
    // The guest changes its mind during the halt: the halt was vetoed, so nothing is learned.
    let mut policy = Gated::new(KernelPolicy::new(KernelParams::X86));
    policy.set_poll_control(0).unwrap();
    let window = policy.window(0);
    policy.set_poll_control(1).unwrap();
    policy.record(&halt_of(0, window, 30_000));
    assert_eq!(policy.policy().window_ns(), 0);
    // And the reverse: it was allowed, so it counts.
    let window = policy.window(0);
    policy.set_poll_control(0).unwrap();
    policy.record(&halt_of(0, window, 30_000));
    assert_eq!(policy.policy_mut().window_ns(), 10_000);
}
