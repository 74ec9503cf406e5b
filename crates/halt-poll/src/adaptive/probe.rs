// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Doubts about measured sleeps.
//!
//! The length of a halt that slept is known only up to the error of the configured wake-up
//! latency. If that is set too low, halts that polling would have caught look too long for it,
//! nothing is polled, and nothing ever shows the mistake. So a sleep whose length seems to be
//! between B and B + 2 latencies weighs nothing by itself (what came before fades as always); of
//! every 16 such sleeps one halt polls for B and stands for all of them. Polls in vain double the
//! distance to the next, up to 128. Longer sleeps, such as those of a periodic tick, raise no
//! doubt.

const FIRST: u32 = 16;
const LAST: u32 = 128;

#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    /// How far above B a sleep is in doubt.
    doubt: u32,
    doubtful: u32,
    every: u32,
    due: bool,
}

impl Probe {
    pub(super) const fn new(latency: u32) -> Self {
        let doubt = latency.saturating_mul(2);
        Self { doubt, doubtful: 0, every: FIRST, due: false }
    }

    pub(super) const fn set_latency(&mut self, latency: u32) {
        self.doubt = latency.saturating_mul(2);
    }

    /// Whether the next halt should poll for B.
    #[inline]
    pub(super) const fn due(&self) -> bool {
        self.due
    }

    /// For how many halts this one stands.
    #[inline]
    pub(super) fn weigh(&mut self, length: u32, slept: bool, polled: u32, block_cost: u32) -> u32 {
        if self.due {
            return self.settle(length, slept, polled, block_cost);
        }
        self.weigh_unprobed(length, slept, polled, block_cost)
    }

    /// The halt after a doubt: a probe, unless something cut it short.
    #[cold]
    fn settle(&mut self, length: u32, slept: bool, polled: u32, block_cost: u32) -> u32 {
        self.due = false;
        if !slept || polled >= block_cost {
            self.every = if slept { (self.every * 2).min(LAST) } else { FIRST };
            return FIRST;
        }
        self.weigh_unprobed(length, slept, polled, block_cost)
    }

    #[inline]
    fn weigh_unprobed(&mut self, length: u32, slept: bool, polled: u32, block_cost: u32) -> u32 {
        // Without a branch: a doubt is as hard to predict as the guest.
        let near = length.wrapping_sub(block_cost) < self.doubt;
        let doubtful = u32::from(near & slept & (polled < block_cost));
        self.doubtful += doubtful;
        if self.doubtful >= self.every {
            self.doubtful = 0;
            self.due = true;
        }
        1 - doubtful
    }
}
