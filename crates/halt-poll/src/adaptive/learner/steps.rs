// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The steps into which lengths of halts are sorted, and the candidate threshold of each.

/// Index of the step that ends at B. Steps up to here are equally long; step 0 is the length 0.
pub(super) const AT_BLOCK_COST: usize = 20;
/// Ends of the steps above B, in twentieths of B.
const ABOVE: [usize; STEPS - 1 - AT_BLOCK_COST] = [22, 25, 28, 32, 36, 40, 50, 60, 80, 160, 640];
/// How many steps there are. Longer halts count as of step `STEPS`, which has no end.
pub(super) const STEPS: usize = 32;
/// The end of the last step, in units of B.
pub(in super::super) const LONGEST_IN_BLOCK_COSTS: u64 = ABOVE[ABOVE.len() - 1] as u64 / 20;

/// The step that each begun twentieth of B belongs to.
static STEP_OF: [u8; TWENTIETHS] = steps_of_twentieths();
/// As many as there are before the point.
const TWENTIETHS: usize = 1 << (u64::BITS - POINT);

#[expect(clippy::cast_possible_truncation, reason = "steps are few")]
const fn steps_of_twentieths() -> [u8; TWENTIETHS] {
    let mut table = [0; TWENTIETHS];
    let mut step = 0;
    let mut twentieths = 0;
    while twentieths < TWENTIETHS {
        while step < STEPS && twentieths > end_of(step) {
            step += 1;
        }
        table[twentieths] = step as u8;
        twentieths += 1;
    }
    table
}

/// Where a step ends, in twentieths of B.
const fn end_of(step: usize) -> usize {
    if step <= AT_BLOCK_COST { step } else { ABOVE[step - AT_BLOCK_COST - 1] }
}

/// A length times this many twentieths per nanosecond has this many bits behind the point.
const POINT: u32 = 54;
/// What rounds up to the next twentieth: 1, but for less than what the factor was rounded up by.
const ROUND_UP: u64 = (1 << POINT) - (1 << 27);

#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    block_cost: u32,
    /// Halts longer than this are of step `STEPS`.
    longest_sorted: u32,
    /// Twentieths of B per nanosecond, rounded up, with `POINT` bits behind the point.
    twentieths: u64,
    /// Where each step ends, in nanoseconds, inclusive.
    ends: [u32; STEPS],
    /// The candidate threshold of each step.
    thresholds: [u32; STEPS],
    /// The longest halt in each step up to B, in this span of halts and in the one before. Out of
    /// reach above B.
    longest: [u32; STEPS + 1],
    longest_before: [u32; AT_BLOCK_COST + 1],
}

impl Steps {
    pub(super) fn new(block_cost: u32) -> Self {
        let mut ends = [0; STEPS];
        for (step, end) in ends.iter_mut().enumerate() {
            let ns = u64::from(block_cost) * end_of(step) as u64 / 20;
            *end = u32::try_from(ns).unwrap_or(u32::MAX);
        }
        let mut longest = [u32::MAX; STEPS + 1];
        longest[..=AT_BLOCK_COST].fill(0);
        Self {
            block_cost,
            longest_sorted: ends[STEPS - 1].saturating_add(block_cost / 20 + 1),
            twentieths: (20 << POINT) / u64::from(block_cost.max(1)) + 1,
            ends,
            thresholds: ends,
            longest,
            longest_before: [0; AT_BLOCK_COST + 1],
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

    /// The longest halt of late in a step up to B; 0 if there was none.
    pub(super) fn longest(&self, step: usize) -> u32 {
        self.longest[step].max(self.longest_before[step])
    }

    /// The step of a halt of `length`: the first that does not end before it. With a B above 4 ms,
    /// at the very end of a step, it may be the next.
    #[inline]
    pub(super) fn of(&self, length: u32) -> usize {
        let length = u64::from(length.min(self.longest_sorted));
        let twentieths = (length * self.twentieths + ROUND_UP) >> POINT;
        usize::from(STEP_OF[twentieths as usize])
    }

    /// Notes the length of a halt in `step`. Returns whether a threshold changed, which is rare.
    #[inline]
    pub(super) fn note(&mut self, step: usize, length: u32) -> bool {
        let longer = length > self.longest[step];
        if longer {
            self.longest[step] = length;
            self.refine(step);
        }
        longer
    }

    /// Forgets the longest halts of the span before this one.
    pub(super) fn begin_span(&mut self) {
        for step in 0..=AT_BLOCK_COST {
            self.longest_before[step] = self.longest[step];
            self.longest[step] = 0;
            self.refine(step);
        }
    }

    fn refine(&mut self, step: usize) {
        let longest = self.longest(step);
        let covering = (longest + longest / 64).min(self.ends[step]);
        self.thresholds[step] = if longest > 0 { covering } else { self.ends[step] };
    }
}

#[cfg(test)]
mod tests {
    use super::{STEPS, Steps};

    #[test]
    fn lengths_are_sorted_into_the_first_step_that_does_not_end_before_them() {
        for block_cost in [1, 2, 7, 19, 20, 21, 999, 5_000, 20_000, 49_999, 1 << 20, 4_000_000] {
            let steps = Steps::new(block_cost);
            let around = steps.ends().iter().flat_map(|&end| end.saturating_sub(2)..=end + 2);
            for length in around.chain([block_cost / 3, 33 * block_cost, u32::MAX]) {
                let first = steps.ends().partition_point(|&end| end < length);
                assert_eq!(steps.of(length), first, "{length} with {block_cost}");
            }
        }
    }

    #[test]
    fn no_length_is_sorted_into_a_step_that_ends_before_it() {
        for block_cost in [(1 << 23) + 1, (1 << 26) + 77, (1 << 27) - 1, 1 << 27] {
            let steps = Steps::new(block_cost);
            for length in
                steps.ends().iter().flat_map(|&end| end - end.min(2)..=end.saturating_add(9))
            {
                let step = steps.of(length);
                assert!(step == STEPS || steps.ends()[step] >= length, "{length} in {step}");
            }
        }
    }
}
