// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! How long the client thinks between an answer and its next request.
//!
//! Seeded: every row of a repeat sees the same sequence.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

/// The two workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Think {
    /// As TCP_RR: one request after the other. Uniform from [`STEADY_MIN`] to [`STEADY_MAX`]: long
    /// enough for the vCPU to get to its halt before the next one comes, and short enough that it
    /// is worth polling for.
    Steady,
    /// As a server with few clients: [`BURST_MIN`] to [`BURST_MAX`] requests, each [`GAP_MIN`] and
    /// an exponential [`GAP_MEAN`] after the other, then an exponential pause of [`PAUSE_MEAN`].
    /// Polling pays within a burst and not between bursts.
    Bursty,
}

/// Shortest steady think time.
pub const STEADY_MIN: Duration = Duration::from_micros(15);
/// Longest steady think time.
pub const STEADY_MAX: Duration = Duration::from_micros(25);
/// Fewest requests of a burst.
pub const BURST_MIN: u32 = 16;
/// Most requests of a burst.
pub const BURST_MAX: u32 = 64;
/// Shortest gap between the requests of a burst: what the client has to do in any case.
pub const GAP_MIN: Duration = Duration::from_micros(10);
/// Mean of the exponential time that comes on top.
pub const GAP_MEAN: Duration = Duration::from_micros(10);
/// Mean pause between two bursts.
pub const PAUSE_MEAN: Duration = Duration::from_millis(2);
/// Longest pause between two bursts.
pub const PAUSE_MAX: Duration = Duration::from_millis(2 * LONGEST_MEANS as u64);
/// Exponential times are cut at this many means.
const LONGEST_MEANS: u32 = 10;

impl Think {
    /// Both, in the order of the table.
    pub const ALL: [Self; 2] = [Self::Steady, Self::Bursty];

    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Bursty => "bursty",
        }
    }
}

/// An endless sequence of think times.
#[derive(Debug)]
pub struct Thinks {
    think: Think,
    rng: StdRng,
    /// Requests left in the burst.
    left: u32,
}

impl Thinks {
    /// The sequence of `think` that belongs to `seed`.
    pub fn new(think: Think, seed: u64) -> Self {
        Self { think, rng: StdRng::seed_from_u64(seed), left: BURST_MAX }
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        // 1 - [0, 1) is never 0.
        let times = -(1.0 - self.rng.random::<f64>()).ln();
        mean.mul_f64(times.min(LONGEST_MEANS.into()))
    }
}

impl Iterator for Thinks {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(match self.think {
            Think::Steady => self.rng.random_range(STEADY_MIN..=STEADY_MAX),
            Think::Bursty if self.left == 0 => {
                self.left = self.rng.random_range(BURST_MIN..=BURST_MAX) - 1;
                self.exponential(PAUSE_MEAN)
            }
            Think::Bursty => {
                self.left -= 1;
                GAP_MIN + self.exponential(GAP_MEAN)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        for think in Think::ALL {
            let take = |seed| Thinks::new(think, seed).take(1000).collect::<Vec<_>>();
            assert_eq!(take(7), take(7));
            assert_ne!(take(7), take(8));
        }
    }

    #[test]
    fn steady_times_are_within_their_bounds() {
        for time in Thinks::new(Think::Steady, 1).take(10_000) {
            assert!((STEADY_MIN..=STEADY_MAX).contains(&time), "{time:?}");
        }
    }

    #[test]
    fn bursts_are_close_requests_and_long_pauses() {
        let times: Vec<_> = Thinks::new(Think::Bursty, 1).take(100_000).collect();
        assert_eq!(PAUSE_MAX, PAUSE_MEAN * LONGEST_MEANS);
        // A gap above ten means cannot be: what is longer is a pause.
        let longest_gap = GAP_MIN + GAP_MEAN * LONGEST_MEANS;
        let (gaps, pauses): (Vec<_>, Vec<_>) = times.iter().partition(|time| **time <= longest_gap);
        let mean = |times: &[&Duration]| {
            times.iter().copied().sum::<Duration>() / u32::try_from(times.len()).unwrap()
        };
        // 40 requests a burst on average; 5 % of the pauses are as short as a gap.
        let requests = times.len() as f64 / pauses.len() as f64;
        assert!((40.0..55.0).contains(&requests), "{requests} requests a burst");
        assert!(mean(&gaps) < (GAP_MIN + GAP_MEAN) * 11 / 10, "{:?}", mean(&gaps));
        assert!(mean(&pauses) > PAUSE_MEAN * 9 / 10, "{:?}", mean(&pauses));
        assert!(pauses.iter().all(|pause| **pause <= PAUSE_MAX));
    }
}
