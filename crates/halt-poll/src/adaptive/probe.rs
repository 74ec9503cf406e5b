// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Doubts about measured sleeps.
//!
//! The length of a halt that slept is known only up to the error of the configured wake-up
//! latency. If that is set too low, halts that polling would have caught look too long for it,
//! nothing is polled, and nothing ever shows the mistake. So a sleep whose length seems to be
//! between B and B + 2 latencies teaches nothing by itself; of every 16 such sleeps one halt polls
//! for B and stands for all of them. Polls in vain double the distance to the next, up to 128.
//! Longer sleeps, such as those of a periodic tick, raise no doubt.

const FIRST: u32 = 16;
const LAST: u32 = 128;

#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    doubtful: u32,
    every: u32,
    due: bool,
}

impl Probe {
    pub(super) const fn new() -> Self {
        Self { doubtful: 0, every: FIRST, due: false }
    }

    /// Whether the next halt should poll for B.
    #[inline]
    pub(super) const fn due(&self) -> bool {
        self.due
    }

    /// For how many halts this one stands.
    #[inline]
    pub(super) fn weigh(
        &mut self,
        length: u32,
        slept: bool,
        polled: u32,
        block_cost: u32,
        latency: u32,
    ) -> f32 {
        if self.due {
            self.due = false;
            if !slept || polled >= block_cost {
                self.every = if slept { (self.every * 2).min(LAST) } else { FIRST };
                return FIRST as f32;
            }
        }
        let doubtful = slept
            && polled < block_cost
            && length >= block_cost
            && u64::from(length) < u64::from(block_cost) + 2 * u64::from(latency);
        if !doubtful {
            return 1.0;
        }
        self.doubtful += 1;
        if self.doubtful >= self.every {
            self.doubtful = 0;
            self.due = true;
        }
        0.0
    }
}
