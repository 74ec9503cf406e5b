// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What polling did: the kernel's halt counters.

#![forbid(unsafe_code)]

use core::ops::AddAssign;

use crate::Halt;

/// A histogram of nanoseconds in powers of two, as the kernel's: bucket 0 holds 0, bucket `i`
/// holds 2^(i-1) to 2^i - 1, the last everything above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log2Histogram {
    buckets: [u64; Self::BUCKETS],
}

impl Log2Histogram {
    /// How many buckets there are.
    pub const BUCKETS: usize = 32;

    /// Counts one value.
    pub fn record(&mut self, ns: u64) {
        let bucket = (u64::BITS - ns.leading_zeros()) as usize;
        let bucket = &mut self.buckets[bucket.min(Self::BUCKETS - 1)];
        *bucket = bucket.wrapping_add(1);
    }

    /// How often each bucket was hit.
    pub const fn buckets(&self) -> &[u64; Self::BUCKETS] {
        &self.buckets
    }
}

impl AddAssign<&Self> for Log2Histogram {
    fn add_assign(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket = bucket.wrapping_add(*more);
        }
    }
}

/// Counters of one vCPU with the names and meanings of KVM's binary statistics (`halt_*`).
///
/// They tell whether polling pays: `success_ns` and `fail_ns` are CPU time, the former spent on
/// polls that spared a sleep, the latter in vain. Sum several vCPUs with `+=`.
///
/// ```
/// use halt_poll::{Counters, Halt};
///
/// let mut counters = Counters::default();
/// counters.record(&Halt::polled(0, 10_000, 4_000));
/// counters.record(&Halt::slept(9_000, 10_000, 10_000, 70_000));
/// assert_eq!((counters.attempted, counters.successful, counters.wakeup), (2, 1, 1));
/// assert_eq!((counters.success_ns, counters.fail_ns, counters.wait_ns), (4_000, 10_000, 60_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Halts with a window above 0 (`halt_attempted_poll`).
    pub attempted: u64,
    /// Those that did not sleep, also when the wake-up came after the last look
    /// (`halt_successful_poll`).
    pub successful: u64,
    /// Those whose wake-up was not for this vCPU (`halt_poll_invalid`).
    pub invalid: u64,
    /// Halts that slept and were woken (`halt_wakeup`).
    pub wakeup: u64,
    /// Time spent in successful polls, from the begin to the last look (`halt_poll_success_ns`).
    pub success_ns: u64,
    /// Time spent polling in vain (`halt_poll_fail_ns`).
    pub fail_ns: u64,
    /// Time slept, from the end of polling to going on (`halt_wait_ns`).
    pub wait_ns: u64,
    /// Successful polls by length (`halt_poll_success_hist`).
    pub success_hist: Log2Histogram,
    /// Polls in vain by length (`halt_poll_fail_hist`).
    pub fail_hist: Log2Histogram,
    /// Sleeps by length (`halt_wait_hist`).
    pub wait_hist: Log2Histogram,
}

impl Counters {
    /// Counts one halt.
    pub fn record(&mut self, halt: &Halt) {
        if halt.slept {
            let wait_ns = halt.halt_ns.saturating_sub(halt.polled_ns);
            add(&mut self.wakeup, 1);
            add(&mut self.wait_ns, wait_ns);
            self.wait_hist.record(wait_ns);
        }
        if halt.window_ns == 0 {
            return;
        }
        add(&mut self.attempted, 1);
        if halt.slept {
            add(&mut self.fail_ns, halt.polled_ns);
            self.fail_hist.record(halt.polled_ns);
        } else {
            add(&mut self.successful, 1);
            add(&mut self.invalid, u64::from(!halt.valid));
            add(&mut self.success_ns, halt.polled_ns);
            self.success_hist.record(halt.polled_ns);
        }
    }
}

impl AddAssign<&Self> for Counters {
    fn add_assign(&mut self, other: &Self) {
        add(&mut self.attempted, other.attempted);
        add(&mut self.successful, other.successful);
        add(&mut self.invalid, other.invalid);
        add(&mut self.wakeup, other.wakeup);
        add(&mut self.success_ns, other.success_ns);
        add(&mut self.fail_ns, other.fail_ns);
        add(&mut self.wait_ns, other.wait_ns);
        self.success_hist += &other.success_hist;
        self.fail_hist += &other.fail_hist;
        self.wait_hist += &other.wait_hist;
    }
}

/// Counters wrap, as the kernel's do.
const fn add(counter: &mut u64, more: u64) {
    *counter = counter.wrapping_add(more);
}
