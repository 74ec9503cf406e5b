// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The steps into which lengths of halts are sorted, and the candidate threshold of each.

/// Index of the step that ends at B. Steps up to here are equally long; step 0 is the length 0.
pub(super) const AT_BLOCK_COST: usize = 20;
/// Ends of the steps above B, in twentieths of B.
const ABOVE: [u64; STEPS - 1 - AT_BLOCK_COST] =
    [22, 25, 28, 32, 36, 40, 50, 60, 80, 160, 20 * LONGEST_IN_BLOCK_COSTS];
/// How many steps there are. Longer halts count as of step `STEPS`, which has no end.
pub(super) const STEPS: usize = 32;
/// The end of the last step, in units of B.
pub(in super::super) const LONGEST_IN_BLOCK_COSTS: u64 = 32;

/// The longest halts are those of the last one to two spans of so many halts.
const SPAN: u32 = 1024;

#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    block_cost: u32,
    /// Where each step ends, in nanoseconds, inclusive.
    ends: [u32; STEPS],
    /// The candidate threshold of each step.
    thresholds: [u32; STEPS],
    /// The longest halt in each step up to B, in this span of halts and in the one before.
    longest: [u32; STEPS + 1],
    longest_before: [u32; STEPS + 1],
    noted: u32,
}

impl Steps {
    pub(super) fn new(block_cost: u32) -> Self {
        let mut ends = [0; STEPS];
        let twentieths = (0..=AT_BLOCK_COST as u64).chain(ABOVE);
        for (end, twentieths) in ends.iter_mut().zip(twentieths) {
            let ns = u64::from(block_cost) * twentieths / 20;
            *end = u32::try_from(ns).unwrap_or(u32::MAX);
        }
        Self {
            block_cost,
            ends,
            thresholds: ends,
            longest: [0; STEPS + 1],
            longest_before: [0; STEPS + 1],
            noted: 0,
        }
    }

    pub(super) const fn block_cost(&self) -> u32 {
        self.block_cost
    }

    /// Where each step ends, in nanoseconds.
    pub(super) const fn ends(&self) -> &[u32; STEPS] {
        &self.ends
    }

    /// The candidates: the end of each step; up to B where there were halts in the step of late,
    /// a little (1/64) above the longest of them.
    pub(super) const fn thresholds(&self) -> &[u32; STEPS] {
        &self.thresholds
    }

    /// The longest halt of late in `step`; 0 if there was none.
    pub(super) fn longest(&self, step: usize) -> u32 {
        self.longest[step].max(self.longest_before[step])
    }

    /// The step of a halt of `length`: the first that does not end before it.
    #[inline]
    pub(super) fn of(&self, length: u32) -> usize {
        self.ends.partition_point(|&end| end < length)
    }

    /// Notes the length of a halt in `step`. Returns whether a threshold changed, which is rare.
    #[inline]
    pub(super) fn note(&mut self, step: usize, length: u32) -> bool {
        self.noted += 1;
        let ends = self.noted == SPAN;
        let refines = length > self.longest[step];
        if refines {
            self.longest[step] = length;
            self.refine(step);
        }
        if ends {
            self.begin_span();
        }
        refines || ends
    }

    #[cold]
    fn begin_span(&mut self) {
        self.noted = 0;
        self.longest_before = self.longest;
        self.longest = [0; STEPS + 1];
        for step in 0..=AT_BLOCK_COST {
            self.refine(step);
        }
    }

    fn refine(&mut self, step: usize) {
        if step <= AT_BLOCK_COST {
            let longest = self.longest(step);
            let covering = (longest + longest / 64).min(self.ends[step]);
            self.thresholds[step] = if longest > 0 { covering } else { self.ends[step] };
        }
    }
}
