// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The worst case: never much more than 2.05 times the cost of knowing the future.
//!
//! Let the slack be 2.05 times the optimum min(x, B) so far, less the cost so far. A halt of
//! length x under threshold T lowers it most
//!   when T <  B by x just above T:  cost T + B, optimum T:  B - 1.05 T;
//!   when T >= B by any x above T:   cost T + B, optimum B:  T - 1.05 B  (if positive);
//! and not at all when T = B. A threshold is played only if the slack after its worst halt is
//! still at least -[`DEBT`] B, else B is. So the slack never falls below -DEBT B, which says:
//! cost <= 2.05 optimum + DEBT B. The slack is cut off at [`CREDIT`] B, which keeps the bound
//! and makes it hold from any halt on, with (DEBT + CREDIT) B in place of DEBT B.

/// How far the cost may exceed 2.05 times the optimum, in units of B.
const DEBT: i64 = 4;
/// How much of a good past counts, in units of B.
const CREDIT: i64 = 60;

/// Slack is counted in twentieths of a nanosecond: 2.05 is 41 of them.
const UNIT: i64 = 20;
const BOUND: i64 = 41;

#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    /// How far the slack is above its lowest value, and how far it may be.
    room: i64,
    most: i64,
}

impl Guard {
    pub(super) fn new(block_cost: u32) -> Self {
        let unit = UNIT * i64::from(block_cost);
        Self { room: DEBT * unit, most: (DEBT + CREDIT) * unit }
    }

    /// Whether the bound holds whatever comes when `threshold` is played.
    #[inline]
    pub(super) const fn admits(&self, threshold: u32, block_cost: u32) -> bool {
        let t = threshold as i64;
        let b = block_cost as i64;
        // The first is the larger for T < B, the second for T > B; for T = B both are negative.
        let too_short = UNIT * b - (BOUND - UNIT) * t;
        let too_long = UNIT * t - (BOUND - UNIT) * b;
        self.room >= too_short && self.room >= too_long
    }

    /// Accounts for a halt that cost `cost` where `optimum` was possible. Where something else (the
    /// ceiling, the share) forbade what the bound needs, the debt is capped and forgiven.
    #[inline]
    pub(super) fn settle(&mut self, optimum: u32, cost: i64) {
        let room = self.room + BOUND * i64::from(optimum) - UNIT * cost;
        self.room = room.max(0).min(self.most);
    }
}
