// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The threshold that would have been cheapest of late.
//!
//! Once a halt is over its length x is known, and with it what *every* threshold T would have
//! cost: x if x <= T, else T + B. So the learner follows the threshold with the smallest decayed
//! sum of costs; there is no model to fit.
//!
//! * **Two time scales**: [`Slow`] remembers some 2000 halts, for what is stationary, [`Fast`] 4,
//!   for changes of phase. Both are scored by what their choice would have cost in the last 16
//!   halts; the fast one is followed while it leads by more than B.
//! * **Candidates** stand at the ends of [`Steps`]: 0, equal steps up to B, sparse ones up to
//!   32 B. Equal, because a threshold too long by d costs at most d more per halt. Longer ones
//!   than B pay only where halts end ever more likely the longer they last, or certainly
//!   before 2 B. The short memory compares four of them.
//! * **Refinement**: a candidate up to B is moved down to the longest halt of late within its
//!   step: as good for all halts of the step, and cheaper for longer ones.
//! * **Prior**: half a halt of the uniform distribution on 0 to B. It breaks the ties of a young
//!   sum in favour of B.
//!
//! The constants were chosen on the recorded trace and on synthetic families (stationary ones and
//! changes of phase). None is critical: 8 for the 4, 500 for the 2000, 24 or 48 candidates for the
//! 32 change no figure by more than 0.02.

mod fast;
mod slow;
mod steps;

use fast::Fast;
use slow::Slow;
use steps::Steps;

pub(super) use steps::LONGEST_IN_BLOCK_COSTS;

const SCORE_DECAY: f32 = 1.0 - 1.0 / 16.0;
/// The slow sums change little from halt to halt: their minimum is looked up every so many halts,
/// more often while they are young.
const SLOW_EVERY: u32 = 64;
const SLOW_EVERY_WHILE_YOUNG: u32 = 16;
const YOUNG: u32 = 1024;
/// Weight of the prior, in halts.
const PRIOR: f32 = 0.5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Learner {
    block_cost: u32,
    ceiling: u32,
    steps: Steps,
    slow: Slow,
    fast: Fast,
    choices: Choices,
    taught: u32,
}

const SLOW: usize = 0;
const FAST: usize = 1;

/// What each time scale would play, and how well that went. A vector has four lanes; the other two
/// are idle.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Choices {
    thresholds: [f32; 4],
    /// Decayed sums of what the thresholds would have cost.
    scores: [f32; 4],
    /// The thresholds in whole nanoseconds.
    windows: [u32; 2],
}

impl Choices {
    const fn new(window: u32) -> Self {
        Self { thresholds: [window as f32; 4], scores: [0.0; 4], windows: [window; 2] }
    }

    const fn choose(&mut self, scale: usize, window: u32) {
        self.windows[scale] = window;
        self.thresholds[scale] = window as f32;
    }

    fn judge(&mut self, x: f32, block_cost: f32, weight: f32) {
        for (score, &threshold) in self.scores.iter_mut().zip(&self.thresholds) {
            let cost = if x <= threshold { x } else { threshold + block_cost };
            *score = *score * SCORE_DECAY + cost * weight;
        }
    }
}

impl Learner {
    pub(super) fn new(block_cost: u32, ceiling: u32) -> Self {
        let steps = Steps::new(block_cost);
        Self {
            block_cost,
            ceiling,
            slow: Slow::new(&steps),
            fast: Fast::new(&steps, ceiling),
            choices: Choices::new(block_cost.min(ceiling)),
            steps,
            taught: 0,
        }
    }

    #[inline]
    pub(super) const fn block_cost(&self) -> u32 {
        self.block_cost
    }

    /// Chooses among thresholds up to `ceiling` from now on, and forgets nothing.
    pub(super) fn set_ceiling(&mut self, ceiling: u32) {
        self.ceiling = ceiling;
        self.fast.set_ceiling(&self.steps, ceiling);
        if self.taught == 0 {
            self.choices = Choices::new(self.block_cost.min(ceiling));
        } else {
            self.choices.choose(SLOW, self.slow.cheapest(&self.steps, ceiling));
            self.choices.choose(FAST, self.fast.cheapest());
        }
    }

    /// The threshold to play, in nanoseconds; never above the ceiling.
    #[inline]
    pub(super) fn threshold(&self) -> u32 {
        let lead = self.choices.scores[SLOW] - self.choices.scores[FAST];
        self.choices.windows[usize::from(lead > self.block_cost as f32)]
    }

    /// Learns from a halt of `length` nanoseconds that stands for `weight` halts like it.
    #[inline]
    pub(super) fn teach(&mut self, length: u32, weight: f32) {
        let x = length as f32;
        let block_cost = self.block_cost as f32;
        self.choices.judge(x, block_cost, weight);

        let step = self.steps.of(length);
        if self.steps.note(step, length) {
            self.fast.refine(&self.steps);
        }
        self.slow.add(step, x, weight);
        self.fast.add(x, block_cost, weight);

        self.taught = self.taught.wrapping_add(1);
        self.choices.choose(FAST, self.fast.cheapest());
        let every = if self.taught < YOUNG { SLOW_EVERY_WHILE_YOUNG } else { SLOW_EVERY };
        if self.taught % every == 0 {
            self.choices.choose(SLOW, self.slow.cheapest(&self.steps, self.ceiling));
        }
    }
}

/// What a threshold of `t` costs, in units of B, if lengths are uniform on 0 to B; with a little
/// slope above B, where all thresholds would cost the same.
fn cost_of_uniform(t: f32) -> f32 {
    if t <= 1.0 { 1.0 - t * t / 2.0 } else { 0.5 + (t - 1.0) / 64.0 }
}
