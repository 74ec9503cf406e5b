// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A bound on the polled share of wall time: a token bucket of nanoseconds.
//!
//! While windows are honoured, what is polled in any interval is at most share * interval + burst,
//! where the burst is share * 10 ms and one longest window, on a clock that does not go back. A
//! step back refills nothing; one ahead at most the burst.

use super::Share;

/// The burst, less one window, is the share of this much time.
const BURST_NS: i64 = 10_000_000;
/// Longer gaps refill as much as this one (68 s): keeps the products within 64 bits.
const LONGEST_GAP_NS: u64 = 1 << 36;

/// Tokens are millionths of nanoseconds, so that no share loses any to rounding.
const TOKEN: i64 = Share::ONE as i64;

#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    share: Share,
    burst: i64,
    tokens: i64,
    /// When the bucket was last refilled; the end of time until the first halt.
    last_ns: u64,
}

impl Budget {
    /// A full bucket.
    pub(super) fn new(share: Share, longest_window: u32) -> Self {
        let burst = burst(share, longest_window);
        Self { share, burst, tokens: burst, last_ns: u64::MAX }
    }

    /// Changes the bound; a change never adds tokens.
    pub(super) fn set(&mut self, share: Share, longest_window: u32) {
        self.share = share;
        self.burst = burst(share, longest_window);
        self.tokens = self.tokens.min(self.burst);
    }

    /// `window` if there are tokens for all of it, else 0: a truncated poll is the dearest.
    #[inline]
    pub(super) fn admit(&mut self, window: u32, now_ns: u64) -> u32 {
        if self.share == Share::ALL {
            return window;
        }
        let gap = now_ns.saturating_sub(self.last_ns).min(LONGEST_GAP_NS);
        self.last_ns = now_ns;
        let refill = gap as i64 * i64::from(self.share.as_ppm());
        self.tokens = (self.tokens + refill).min(self.burst);
        if i64::from(window) * TOKEN <= self.tokens { window } else { 0 }
    }

    /// Pays for what was polled; a window that was not honoured leaves a debt.
    #[inline]
    pub(super) fn charge(&mut self, polled: u32) {
        if self.share != Share::ALL {
            let lowest = -self.burst - i64::from(u32::MAX) * TOKEN;
            self.tokens = (self.tokens - i64::from(polled) * TOKEN).max(lowest);
        }
    }
}

/// What the bucket holds; with a share of 0 nothing.
fn burst(share: Share, longest_window: u32) -> i64 {
    if share == Share::NONE {
        return 0;
    }
    BURST_NS * i64::from(share.as_ppm()) + i64::from(longest_window) * TOKEN
}
