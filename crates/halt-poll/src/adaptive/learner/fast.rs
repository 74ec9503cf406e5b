// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The short memory: the decayed cost of each of a few thresholds.
//!
//! It is asked after every halt, so it is laid out for vector instructions: as many sums as a
//! vector has lanes, updated and compared without a branch. Few are enough, because each stands
//! for the longest halt of late in its range, and what they miss the long memory finds.

use super::steps::Steps;
use super::{PRIOR, cost_of_uniform};

/// How many thresholds are compared.
const CANDIDATES: usize = 4;
/// The step at whose end each of them stands: 0, B/5, B/2 and B.
const STEP: [usize; CANDIDATES] = [0, 4, 10, 20];
/// Remembers four halts.
const DECAY: f32 = 0.75;

#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Fast {
    thresholds: [f32; CANDIDATES],
    /// What a halt longer than the threshold costs.
    missed: [f32; CANDIDATES],
    /// What the prior adds; out of reach for thresholds above the ceiling.
    prior: [f32; CANDIDATES],
    costs: [f32; CANDIDATES],
    /// What to play for each candidate: refined to the halts of late.
    refined: [u32; CANDIDATES],
}

impl Fast {
    pub(super) fn new(steps: &Steps, ceiling: u32) -> Self {
        let thresholds = STEP.map(|step| steps.ends()[step] as f32);
        let mut fast = Self {
            thresholds,
            missed: thresholds.map(|threshold| threshold + steps.block_cost() as f32),
            prior: thresholds,
            costs: [0.0; CANDIDATES],
            refined: [0; CANDIDATES],
        };
        fast.set_ceiling(steps, ceiling);
        fast.refine(steps);
        fast
    }

    pub(super) fn set_ceiling(&mut self, steps: &Steps, ceiling: u32) {
        let block_cost = steps.block_cost() as f32;
        for (prior, step) in self.prior.iter_mut().zip(STEP) {
            let end = steps.ends()[step];
            let cost = PRIOR * block_cost * cost_of_uniform(end as f32 / block_cost.max(1.0));
            *prior = if end <= ceiling { cost } else { f32::MAX };
        }
    }

    /// Takes over refined thresholds: for each candidate that of its highest step with halts.
    #[cold]
    pub(super) fn refine(&mut self, steps: &Steps) {
        let mut first = 0;
        for (refined, last) in self.refined.iter_mut().zip(STEP) {
            let any = (first..=last).rev().find(|&step| steps.longest(step) > 0);
            *refined = steps.thresholds()[any.unwrap_or(last)];
            first = last + 1;
        }
    }

    /// Adds a halt of length `x` that stands for `times` halts.
    #[inline]
    pub(super) fn add(&mut self, x: f32, times: f32) {
        for (i, cost) in self.costs.iter_mut().enumerate() {
            let this = if x <= self.thresholds[i] { x } else { self.missed[i] };
            *cost = *cost * DECAY + this * times;
        }
    }

    /// The threshold with the smallest cost, the shortest of them at a tie.
    #[inline]
    pub(super) fn cheapest(&self) -> u32 {
        let sum = |i| (self.costs[i] + self.prior[i], self.refined[i]);
        let cheaper = |a: (f32, u32), b: (f32, u32)| {
            (if b.0 < a.0 { b.0 } else { a.0 }, if b.0 < a.0 { b.1 } else { a.1 })
        };
        cheaper(cheaper(sum(0), sum(1)), cheaper(sum(2), sum(3))).1
    }
}
