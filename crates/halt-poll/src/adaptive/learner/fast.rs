// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The short memory: the decayed cost of each of a few thresholds.
//!
//! It is asked after every halt, so it is laid out for vector instructions: as many sums as a
//! vector has lanes, updated and compared without a branch. Few are enough, because each stands
//! for the longest halt of late in its range, and what they miss the long memory finds.

use super::steps::{AT_BLOCK_COST, Steps};
use super::{PRIOR, cost_of_uniform};

/// How many thresholds are compared.
const CANDIDATES: usize = 4;
/// The step at whose end each of them stands: 0, B/5, B/2 and B.
const STEP: [usize; CANDIDATES] = [0, 4, 10, 20];
/// Remembers four halts.
const DECAY: f32 = 0.75;

#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Fast {
    thresholds: [f32; CANDIDATES],
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
            let step = if last <= AT_BLOCK_COST { any.unwrap_or(last) } else { last };
            *refined = steps.thresholds()[step];
            first = last + 1;
        }
    }

    /// Adds a halt of length `x` that stands for `times` halts.
    #[inline]
    pub(super) fn add(&mut self, x: f32, block_cost: f32, times: f32) {
        for (cost, &threshold) in self.costs.iter_mut().zip(&self.thresholds) {
            let this = if x <= threshold { x } else { threshold + block_cost };
            *cost = *cost * DECAY + this * times;
        }
    }

    /// The threshold with the smallest cost, the shortest of them at a tie.
    ///
    /// The index of each sum rides in its low bits; of floats that are never negative the order is
    /// that of their bits. So one minimum of integers finds it.
    #[inline]
    pub(super) fn cheapest(&self) -> u32 {
        const INDEX: u32 = 3;
        const { assert!(CANDIDATES == INDEX as usize + 1) };
        let mut smallest = f32::MAX.to_bits();
        for (i, index) in (0..CANDIDATES).zip(0u32..) {
            let sum = self.costs[i] + self.prior[i];
            smallest = smallest.min((sum.to_bits() & !INDEX) | index);
        }
        self.refined[(smallest & INDEX) as usize]
    }
}
