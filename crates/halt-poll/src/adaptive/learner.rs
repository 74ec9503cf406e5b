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
//! What happens at every halt is kept to sums: what needs a search is looked up now and then.
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

/// The choices are compared by the last 2^4 halts.
const LEAD_SHIFT: u32 = 4;
/// The slow sums change little from halt to halt: their minimum is looked up every so many halts,
/// more often while they are young.
const SLOW_EVERY: u32 = 64;
const SLOW_EVERY_WHILE_YOUNG: u32 = 16;
const YOUNG: u32 = 1024;
/// The longest halts are those of the last one to two spans of so many halts.
const SPAN: u32 = 1024;
/// Weight of the prior, in halts.
const PRIOR: f32 = 0.5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Learner {
    block_cost: u32,
    ceiling: u32,
    /// What each time scale would play.
    slow_choice: u32,
    fast_choice: u32,
    /// How much cheaper the fast choices would have been, in nanoseconds: a decayed sum.
    lead: i64,
    /// Halts until the slow minimum is looked up, and halts taught when it was last.
    until_look_up: u32,
    taught: u32,
    steps: Steps,
    slow: Slow,
    fast: Fast,
}

impl Learner {
    pub(super) fn new(block_cost: u32, ceiling: u32) -> Self {
        let steps = Steps::new(block_cost);
        let choice = block_cost.min(ceiling);
        Self {
            block_cost,
            ceiling,
            slow_choice: choice,
            fast_choice: choice,
            lead: 0,
            until_look_up: SLOW_EVERY_WHILE_YOUNG,
            taught: 0,
            slow: Slow::new(&steps),
            fast: Fast::new(&steps, ceiling),
            steps,
        }
    }

    /// Chooses among thresholds up to `ceiling` from now on, and forgets nothing.
    pub(super) fn set_ceiling(&mut self, ceiling: u32) {
        self.ceiling = ceiling;
        self.fast.set_ceiling(&self.steps, ceiling);
        if self.taught == 0 && self.until_look_up == SLOW_EVERY_WHILE_YOUNG {
            self.slow_choice = self.block_cost.min(ceiling);
            self.fast_choice = self.slow_choice;
        } else {
            self.slow_choice = self.slow.cheapest(&self.steps, ceiling);
            self.fast_choice = self.fast.cheapest();
        }
    }

    /// The threshold to play, in nanoseconds; never above the ceiling.
    #[inline]
    pub(super) const fn threshold(&self) -> u32 {
        if self.lead > self.block_cost as i64 { self.unsettled() } else { self.slow_choice }
    }

    /// The threshold while the fast scale leads: between two phases.
    #[cold]
    const fn unsettled(&self) -> u32 {
        self.fast_choice
    }

    /// Learns from a halt of `length` nanoseconds that stands for `times` halts like it.
    #[inline]
    pub(super) fn teach(&mut self, length: u32, times: u32) {
        let lead = self.cost(length, self.slow_choice) - self.cost(length, self.fast_choice);
        self.lead += lead * i64::from(times) - (self.lead >> LEAD_SHIFT);

        let step = self.steps.of(length);
        if self.steps.note(step, length) {
            self.fast.refine(&self.steps);
        }
        let (x, weight) = (length as f32, times as f32);
        self.slow.add(step, x, weight);
        self.fast.add(x, weight);
        self.fast_choice = self.fast.cheapest();

        self.until_look_up -= 1;
        if self.until_look_up == 0 {
            self.look_up();
        }
    }

    /// What a halt of `length` costs under a threshold.
    #[inline]
    fn cost(&self, length: u32, threshold: u32) -> i64 {
        let missed = i64::from(threshold) + i64::from(self.block_cost);
        if length <= threshold { i64::from(length) } else { missed }
    }

    /// What is due only every so many halts.
    #[cold]
    fn look_up(&mut self) {
        self.taught = self.taught.wrapping_add(look_up_every(self.taught));
        if self.taught % SPAN == 0 {
            self.steps.begin_span();
            self.fast.refine(&self.steps);
        }
        self.slow.rescale();
        self.slow_choice = self.slow.cheapest(&self.steps, self.ceiling);
        self.until_look_up = look_up_every(self.taught);
    }
}

const fn look_up_every(taught: u32) -> u32 {
    if taught < YOUNG { SLOW_EVERY_WHILE_YOUNG } else { SLOW_EVERY }
}

/// What a threshold of `t` costs, in units of B, if lengths are uniform on 0 to B; with a little
/// slope above B, where all thresholds would cost the same.
fn cost_of_uniform(t: f32) -> f32 {
    if t <= 1.0 { 1.0 - t * t / 2.0 } else { 0.5 + (t - 1.0) / 64.0 }
}
