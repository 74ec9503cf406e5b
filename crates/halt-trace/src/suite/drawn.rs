// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts drawn from a distribution, independently of the policy.

use std::fmt;

use rand::Rng;
use rand::rngs::StdRng;
use rand_distr::{Distribution as _, Exp, LogNormal, Normal, Pareto};

/// No halt is longer: ten seconds.
const LONGEST_NS: f64 = 1e10;

/// A distribution of halts; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Distribution {
    /// Always the same.
    Constant {
        /// The length.
        ns: f64,
    },
    /// Evenly between two bounds.
    Uniform {
        /// The lower one.
        low_ns: f64,
        /// The upper one.
        high_ns: f64,
    },
    /// A memoryless device.
    Exponential {
        /// The mean.
        mean_ns: f64,
    },
    /// Quick answers and long waits: two exponential parts.
    Bimodal {
        /// Mean of the short halts.
        short_ns: f64,
        /// Mean of the long ones.
        long_ns: f64,
        /// The probability of a short one.
        short_share: f64,
    },
    /// A heavy tail: most are short, the rare ones hold most of the time.
    Pareto {
        /// The shortest.
        least_ns: f64,
        /// The exponent of the tail.
        alpha: f64,
    },
    /// A lighter tail over a wide range.
    LogNormal {
        /// The median.
        median_ns: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// What a 250 Hz tick leaves of its period, with jitter.
    Ticks {
        /// How long the vCPU runs in each period.
        run_ns: f64,
        /// Standard deviation of the begin of the next tick.
        jitter_ns: f64,
    },
}

/// Draws the parameters of each kind.
pub(super) const KINDS: &[fn(&mut StdRng) -> Distribution] = &[
    |rng| Distribution::Constant { ns: scale(rng) },
    |rng| {
        let middle_ns = scale(rng);
        let half_width = middle_ns * rng.random_range(0.05..1.0);
        Distribution::Uniform { low_ns: middle_ns - half_width, high_ns: middle_ns + half_width }
    },
    |rng| Distribution::Exponential { mean_ns: scale(rng) },
    |rng| {
        let short_ns = log_uniform(rng, 1e3, 2e5);
        Distribution::Bimodal {
            short_ns,
            long_ns: short_ns * log_uniform(rng, 3.0, 300.0),
            short_share: rng.random_range(0.1..0.9),
        }
    },
    |rng| Distribution::Pareto { least_ns: scale(rng) / 3.0, alpha: rng.random_range(1.1..2.5) },
    |rng| Distribution::LogNormal { median_ns: scale(rng), sigma: rng.random_range(0.5..2.0) },
    |rng| Distribution::Ticks {
        run_ns: log_uniform(rng, 1e3, 5e5),
        jitter_ns: log_uniform(rng, 1e2, 1e5),
    },
];

const TICK_NS: f64 = 4e6;

fn scale(rng: &mut StdRng) -> f64 {
    log_uniform(rng, 1e3, 5e6)
}

fn log_uniform(rng: &mut StdRng, low: f64, high: f64) -> f64 {
    rng.random_range(low.ln()..high.ln()).exp()
}

impl Distribution {
    /// Draws a halt, in nanoseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 0..=10^10 before"
    )]
    pub fn draw(&self, rng: &mut StdRng) -> u64 {
        // Parameters that a constructor refuses (all public) count as a constant.
        let ns = match *self {
            Self::Constant { ns } => ns,
            Self::Uniform { low_ns, high_ns } => low_ns + (high_ns - low_ns) * rng.random::<f64>(),
            Self::Exponential { mean_ns } => exponential(mean_ns, rng),
            Self::Bimodal { short_ns, long_ns, short_share } => {
                let mean_ns = if rng.random::<f64>() < short_share { short_ns } else { long_ns };
                exponential(mean_ns, rng)
            }
            Self::Pareto { least_ns, alpha } => {
                Pareto::new(least_ns, alpha).map_or(least_ns, |pareto| pareto.sample(rng))
            }
            Self::LogNormal { median_ns, sigma } => LogNormal::new(median_ns.ln(), sigma)
                .map_or(median_ns, |log_normal| log_normal.sample(rng)),
            Self::Ticks { run_ns, jitter_ns } => {
                let rest_ns = TICK_NS - run_ns;
                Normal::new(rest_ns, jitter_ns).map_or(rest_ns, |normal| normal.sample(rng))
            }
        };
        // A NaN becomes 0 in the cast.
        ns.clamp(0.0, LONGEST_NS) as u64
    }
}

fn exponential(mean_ns: f64, rng: &mut StdRng) -> f64 {
    Exp::new(mean_ns.recip()).map_or(mean_ns, |exp| exp.sample(rng))
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: f64| ns / 1e3;
        match *self {
            Self::Constant { ns } => write!(f, "constant({:.1}us)", us(ns)),
            Self::Uniform { low_ns, high_ns } => {
                write!(f, "uniform({:.1}us..{:.1}us)", us(low_ns), us(high_ns))
            }
            Self::Exponential { mean_ns } => write!(f, "exponential(mean={:.1}us)", us(mean_ns)),
            Self::Bimodal { short_ns, long_ns, short_share } => write!(
                f,
                "bimodal({:.0}%={:.1}us else={:.1}us)",
                short_share * 100.0,
                us(short_ns),
                us(long_ns)
            ),
            Self::Pareto { least_ns, alpha } => {
                write!(f, "pareto(least={:.1}us alpha={alpha:.2})", us(least_ns))
            }
            Self::LogNormal { median_ns, sigma } => {
                write!(f, "lognormal(median={:.1}us sigma={sigma:.2})", us(median_ns))
            }
            Self::Ticks { run_ns, jitter_ns } => {
                write!(f, "ticks(run={:.1}us jitter={:.1}us)", us(run_ns), us(jitter_ns))
            }
        }
    }
}
