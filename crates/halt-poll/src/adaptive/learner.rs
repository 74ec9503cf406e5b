// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The threshold that would have been cheapest of late.
//!
//! Once a halt is over its length x is known, and with it what *every* threshold T would have
//! cost: x if x <= T, else T + B. So the learner keeps one decayed sum of costs per candidate
//! threshold and follows the smallest: no model, no histogram to interpolate.
//!
//! * **Candidates**: 0, twenty equal steps up to B, and eleven up to 32 B. Steps are equal because
//!   a threshold too long by d costs at most d more per halt. Longer ones than B pay only where
//!   halts end ever more likely the longer they last, or with certainty below 2 B.
//! * **Refinement**: within the winning step the longest halt of late is as good as the step's
//!   upper end for all halts in it and cheaper for longer ones.
//! * **Two time scales**: one sum that remembers 2000 halts, for what is stationary, and one that
//!   remembers 4, for changes of phase. Both are scored by what their choice would have cost in
//!   the last 16 halts; the fast one is followed while it leads by more than B.
//! * **Prior**: half a halt of the uniform distribution on 0 to B, which breaks the ties of a
//!   young sum in favour of B.
//!
//! The constants were chosen on the recorded trace and the synthetic families of the tests; none
//! of them is critical (8 instead of 4, 500 instead of 2000 or 48 candidates instead of 32 change
//! no ratio by more than 0.01).

/// How many thresholds are compared.
const CANDIDATES: usize = 32;
/// The index of threshold B; thresholds up to here are equally spaced.
const AT_BLOCK_COST: usize = 20;
/// Thresholds above B, in twentieths of B.
const ABOVE: [u64; CANDIDATES - 1 - AT_BLOCK_COST] =
    [22, 25, 28, 32, 36, 40, 50, 60, 80, 160, 20 * LONGEST_IN_BLOCK_COSTS];
/// The longest threshold, in units of B.
pub(super) const LONGEST_IN_BLOCK_COSTS: u64 = 32;

const SLOW_DECAY: f32 = 1.0 - 1.0 / 2048.0;
const FAST_DECAY: f32 = 0.75;
const SCORE_DECAY: f32 = 1.0 - 1.0 / 16.0;
/// The slow sum changes little from halt to halt: its minimum is looked up every so many halts.
const SLOW_EVERY: u32 = 8;
/// The longest halts are those of the last one to two spans of so many halts.
const LONGEST_SPAN: u32 = 512;
/// Weight of the prior, in halts.
const PRIOR: f32 = 0.5;

/// One value for each candidate.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Table([f32; CANDIDATES]);

/// The costs on one time scale.
#[derive(Clone, Copy, Debug)]
struct Scale {
    costs: Table,
    /// The threshold this scale would play.
    pick: u32,
    /// What its picks would have cost of late.
    score: f32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Learner {
    block_cost: u32,
    ceiling: u32,
    /// Candidate steps for each nanosecond below B.
    steps_per_ns: f32,
    thresholds: Table,
    /// The prior's cost; out of reach for thresholds above the ceiling.
    prior: Table,
    slow: Scale,
    fast: Scale,
    /// The longest halt in each step up to B, in this span of halts and in the one before.
    longest: [u32; AT_BLOCK_COST + 1],
    longest_before: [u32; AT_BLOCK_COST + 1],
    taught: u32,
}

impl Learner {
    pub(super) fn new(block_cost: u32, ceiling: u32) -> Self {
        let mut thresholds = Table([0.0; CANDIDATES]);
        let above = ABOVE.iter().copied();
        for (i, twentieths) in (0..=AT_BLOCK_COST as u64).chain(above).enumerate() {
            thresholds.0[i] = (u64::from(block_cost) * twentieths / 20) as f32;
        }
        let scale = Scale { costs: Table([0.0; CANDIDATES]), pick: block_cost, score: 0.0 };
        let mut learner = Self {
            block_cost,
            ceiling,
            steps_per_ns: AT_BLOCK_COST as f32 / block_cost.max(1) as f32,
            thresholds,
            prior: Table([0.0; CANDIDATES]),
            slow: scale,
            fast: scale,
            longest: [0; AT_BLOCK_COST + 1],
            longest_before: [0; AT_BLOCK_COST + 1],
            taught: 0,
        };
        learner.set_ceiling(ceiling);
        learner
    }

    pub(super) const fn block_cost(&self) -> u32 {
        self.block_cost
    }

    /// Chooses among thresholds up to `ceiling` from now on, and forgets nothing.
    pub(super) fn set_ceiling(&mut self, ceiling: u32) {
        self.ceiling = ceiling;
        let block_cost = self.block_cost as f32;
        for (prior, &threshold) in self.prior.0.iter_mut().zip(&self.thresholds.0) {
            let t = threshold / block_cost.max(1.0);
            // Cost under a length uniform on 0 to B, in units of B; and a little slope above B,
            // where all thresholds cost the same.
            let cost = if t <= 1.0 { 1.0 - t * t / 2.0 } else { 0.5 + (t - 1.0) / 64.0 };
            let reachable = threshold <= ceiling as f32;
            *prior = if reachable { PRIOR * block_cost * cost } else { f32::MAX };
        }
        self.slow.pick = self.pick(&self.slow.costs);
        self.fast.pick = self.pick(&self.fast.costs);
        if self.taught == 0 {
            self.slow.pick = self.block_cost.min(ceiling);
            self.fast.pick = self.slow.pick;
        }
    }

    /// The threshold to play, in nanoseconds; never above the ceiling.
    pub(super) fn threshold(&self) -> u32 {
        let changed = self.fast.score < self.slow.score - self.block_cost as f32;
        if changed { self.fast.pick } else { self.slow.pick }
    }

    /// Learns from a halt of `length` nanoseconds that stands for `weight` halts like it.
    pub(super) fn teach(&mut self, length: u32, weight: f32) {
        let x = length as f32;
        let block_cost = self.block_cost as f32;

        if x <= self.thresholds.0[AT_BLOCK_COST] {
            let step = self.step_of(x).min(AT_BLOCK_COST);
            self.longest[step] = self.longest[step].max(length);
        }
        self.taught = self.taught.wrapping_add(1);
        if self.taught % LONGEST_SPAN == 0 {
            self.longest_before = self.longest;
            self.longest = [0; AT_BLOCK_COST + 1];
        }

        for scale in [&mut self.slow, &mut self.fast] {
            let pick = scale.pick as f32;
            let cost = if x <= pick { x } else { pick + block_cost };
            scale.score = scale.score * SCORE_DECAY + cost * weight;
        }
        // A loop that compilers vectorise: no branch, no call, fixed length.
        for i in 0..CANDIDATES {
            let threshold = self.thresholds.0[i];
            let cost = if x <= threshold { x } else { threshold + block_cost } * weight;
            self.slow.costs.0[i] = self.slow.costs.0[i] * SLOW_DECAY + cost;
            self.fast.costs.0[i] = self.fast.costs.0[i] * FAST_DECAY + cost;
        }
        self.fast.pick = self.pick(&self.fast.costs);
        if self.taught % SLOW_EVERY == 0 {
            self.slow.pick = self.pick(&self.slow.costs);
        }
    }

    /// The first candidate that is not below `x`, of those up to B.
    fn step_of(&self, x: f32) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small number, never negative"
        )]
        let step = ((x * self.steps_per_ns) as usize).min(AT_BLOCK_COST);
        step + usize::from(x > self.thresholds.0[step])
    }

    /// The threshold with the smallest cost, the shortest of them at a tie, refined.
    fn pick(&self, costs: &Table) -> u32 {
        let best = cheapest(costs, &self.prior);
        let longest = match self.longest.get(best) {
            Some(&longest) => longest.max(self.longest_before[best]),
            None => 0,
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "thresholds are between 0 and 32 * 2^27"
        )]
        let upper_end = self.thresholds.0[best] as u32;
        let threshold = if longest > 0 { longest } else { upper_end };
        threshold.min(self.ceiling)
    }
}

/// The index of the smallest sum. The index rides in the low bits of the (never negative) sum, so
/// that one vectorised minimum finds it, the first among nearly equals.
fn cheapest(costs: &Table, prior: &Table) -> usize {
    const INDEX: u32 = 31;
    const { assert!(CANDIDATES == 32) };
    const LANES: usize = 8;
    let mut keys = [0.0; CANDIDATES];
    for (i, index) in (0..CANDIDATES).zip(0u32..) {
        let sum = costs.0[i] + prior.0[i];
        keys[i] = f32::from_bits((sum.to_bits() & !INDEX) | index);
    }
    let mut lanes = [f32::MAX; LANES];
    for chunk in keys.chunks_exact(LANES) {
        for (lane, &key) in lanes.iter_mut().zip(chunk) {
            *lane = if key < *lane { key } else { *lane };
        }
    }
    let smallest = lanes.iter().fold(f32::MAX, |a, &b| if b < a { b } else { a });
    (smallest.to_bits() & INDEX) as usize
}
