// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The policies: against naive models, against adversaries, and against the faults of
//! docs/faults.md that concern them (f01_ and so on).
#![cfg(not(loom))]

mod adaptive;
mod adversary;
mod counters;
mod gated;
mod kernel;
mod share;
mod sources;
mod stationary;

use halt_poll::{Halt, Policy};

/// A halt of true length `x` under a window, as a driver without wake-up latency reports it.
fn halt_of(now: u64, window: u32, x: u64) -> Halt {
    if x <= u64::from(window) {
        Halt::polled(now, window, x)
    } else {
        Halt::slept(now, window, window.into(), x)
    }
}

/// What a halt of length `x` costs under a window.
fn cost_of(window: u32, x: u64, block_cost: u64) -> u64 {
    if x <= u64::from(window) { x } else { u64::from(window) + block_cost }
}

/// Asks, halts for each length, teaches; returns the windows.
fn play(policy: &mut impl Policy, lengths: impl IntoIterator<Item = u64>) -> Vec<u32> {
    let mut now = 0;
    let mut windows = Vec::new();
    for x in lengths {
        let window = policy.window(now);
        policy.record(&halt_of(now, window, x));
        now += x + 1_000;
        windows.push(window);
    }
    windows
}
