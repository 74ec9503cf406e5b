// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The long memory: how many halts there were in each step, and how long they were together.
//!
//! That gives the exact cost of every threshold that covers a step: the lengths of all halts up
//! to it, and T + B for each above. Adding a halt touches one step; instead of letting all sums
//! decay, later halts weigh more.

use super::steps::{STEPS, Steps};
use super::{PRIOR, cost_of_uniform};

/// A halt weighs this much more than the one before: e-fold in 2048 halts.
const GROWTH: f32 = 1.0 + 1.0 / 2048.0;
/// When to scale everything back.
const HEAVY: f32 = 1e6;

#[derive(Clone, Copy, Debug)]
pub(super) struct Slow {
    /// Weight of the next halt.
    weight: f32,
    /// What the prior adds for each step, for a weight of 1.
    prior: [f32; STEPS],
    halts: [f32; STEPS + 1],
    lengths: [f32; STEPS + 1],
}

impl Slow {
    pub(super) fn new(steps: &Steps) -> Self {
        let block_cost = steps.block_cost() as f32;
        let cost = |end| PRIOR * block_cost * cost_of_uniform(end as f32 / block_cost.max(1.0));
        Self {
            weight: 1.0,
            prior: steps.ends().map(cost),
            halts: [0.0; STEPS + 1],
            lengths: [0.0; STEPS + 1],
        }
    }

    /// Adds a halt of length `x` in `step` that stands for `times` halts.
    #[inline]
    pub(super) fn add(&mut self, step: usize, x: f32, times: f32) {
        let weight = self.weight * times;
        self.halts[step] += weight;
        self.lengths[step] += weight * x;
        self.weight *= GROWTH;
    }

    /// Scales everything back before it gets out of hand: due every few thousand halts.
    pub(super) fn rescale(&mut self) {
        if self.weight < HEAVY {
            return;
        }
        let scale = 1.0 / self.weight;
        self.weight = 1.0;
        for i in 0..=STEPS {
            self.halts[i] *= scale;
            self.lengths[i] *= scale;
        }
    }

    /// The threshold with the smallest cost, the shortest of them at a tie, among the steps that
    /// end at or before `ceiling`.
    pub(super) fn cheapest(&self, steps: &Steps, ceiling: u32) -> u32 {
        let block_cost = steps.block_cost() as f32;
        let mut costs = [0.0; STEPS];
        let mut longer = 0.0;
        // From the top, because long halts are few: subtracted from the total, rounding would
        // swallow them.
        for i in (0..STEPS).rev() {
            longer += self.halts[i + 1];
            let threshold = steps.thresholds()[i] as f32;
            costs[i] = longer * (threshold + block_cost) + self.weight * self.prior[i];
        }
        let mut shorter_ns = 0.0;
        let mut best = 0;
        let mut best_cost = f32::MAX;
        for (i, cost) in costs.iter().enumerate() {
            shorter_ns += self.lengths[i];
            let cost = cost + shorter_ns;
            if cost < best_cost && steps.ends()[i] <= ceiling {
                best = i;
                best_cost = cost;
            }
        }
        steps.thresholds()[best]
    }
}
