// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the adaptive policy promises, checked in the run at hand and said in plain words.

use std::fmt;

use super::figures::HaltRow;
use super::rows::{Backend, Mechanism, RowPolicy};
use super::think::Think;

/// Latency that [`RowPolicy::Adaptive`] may have, in latencies of [`RowPolicy::Always`].
const LATENCY_RATIO: f64 = 1.05;
/// What a 250 Hz tick may cost more than without polling: this share of it ...
const TICK_SHARE: f64 = 0.10;
/// ... or these points of a CPU, whichever is larger.
const TICK_POINTS: f64 = 0.2;

/// Whether a promise was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was.
    Holds,
    /// It was not.
    Fails,
    /// Others used the CPUs in most of what was measured: the figures tell nothing.
    Undecided,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::Fails => "DOES NOT HOLD",
            Self::Undecided => "not decided, others used the CPUs most of the time",
        })
    }
}

/// A promise, and what was measured of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Comparison {
    /// Median latency against always polling.
    Latency {
        /// The workload.
        think: Think,
        /// Of adaptive, in microseconds.
        adaptive_us: f64,
        /// Of always, in microseconds.
        always_us: f64,
        /// Whether others disturbed it too much to tell.
        disturbed: bool,
    },
    /// CPU of a vCPU that is idle but for a 250 Hz timer, against never polling.
    Tick {
        /// Of adaptive, in percent.
        adaptive_pct: f64,
        /// Of never, in percent.
        never_pct: f64,
        /// Whether others disturbed it too much to tell.
        disturbed: bool,
    },
}

impl Comparison {
    /// All promises about user-space halts that these rows can tell something of.
    ///
    /// That of latency is about vCPUs: on the way to its halt, and back from it, a guest has some of
    /// the think time behind it. A thread that plays one halts at once, and so for longer; whether
    /// polling pays then depends on the host.
    pub fn of(rows: &[HaltRow]) -> Vec<Self> {
        let find = |policy, think| {
            rows.iter().find(|row| {
                row.mechanism == Mechanism::UserSpace && row.policy == policy && row.think == think
            })
        };
        let latency = |think| {
            let adaptive =
                find(RowPolicy::Adaptive, think).filter(|row| row.backend == Backend::Kvm)?;
            let always = find(RowPolicy::Always, think)?;
            Some(Self::Latency {
                think,
                adaptive_us: adaptive.rr_p50_us,
                always_us: always.rr_p50_us,
                disturbed: adaptive.is_disturbed() || always.is_disturbed(),
            })
        };
        let tick = || {
            let adaptive = find(RowPolicy::Adaptive, Think::Steady)?;
            let never = find(RowPolicy::Never, Think::Steady)?;
            Some(Self::Tick {
                adaptive_pct: adaptive.idle_250hz_cpu_pct,
                never_pct: never.idle_250hz_cpu_pct,
                disturbed: adaptive.is_disturbed() || never.is_disturbed(),
            })
        };
        Think::ALL.into_iter().map(latency).chain([tick()]).flatten().collect()
    }

    /// Whether the promise was kept.
    pub fn verdict(&self) -> Verdict {
        let (kept, disturbed) = match *self {
            Self::Latency { adaptive_us, always_us, disturbed, .. } => {
                (adaptive_us <= LATENCY_RATIO * always_us, disturbed)
            }
            Self::Tick { adaptive_pct, never_pct, disturbed } => {
                (adaptive_pct - never_pct <= TICK_POINTS.max(TICK_SHARE * never_pct), disturbed)
            }
        };
        match (disturbed, kept) {
            (true, _) => Verdict::Undecided,
            (false, true) => Verdict::Holds,
            (false, false) => Verdict::Fails,
        }
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.verdict();
        match *self {
            Self::Latency { think, adaptive_us, always_us, .. } => write!(
                f,
                "Latency, {}: adaptive answers in {adaptive_us:.1} us (median), always in \
                 {always_us:.1} us: {:.2} times as long, {LATENCY_RATIO} are allowed: {verdict}.",
                think.name(),
                adaptive_us / always_us,
            ),
            Self::Tick { adaptive_pct, never_pct, .. } => write!(
                f,
                "Idle at 250 Hz: adaptive uses {adaptive_pct:.2} % of a CPU, never {never_pct:.2} \
                 %: {:+.2} points, {:.2} are allowed: {verdict}.",
                adaptive_pct - never_pct,
                TICK_POINTS.max(TICK_SHARE * never_pct),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::sample;
    use super::super::rows::{Row, rows};
    use super::*;

    #[test]
    fn latency_may_be_five_percent_above() {
        let holds = |adaptive_us| {
            let comparison = Comparison::Latency {
                think: Think::Steady,
                adaptive_us,
                always_us: 20.0,
                disturbed: false,
            };
            comparison.verdict() == Verdict::Holds
        };
        assert!(holds(19.0) && holds(20.9));
        assert!(!holds(21.1) && !holds(f64::NAN));
    }

    #[test]
    fn a_tick_may_cost_a_tenth_or_a_fifth_of_a_point() {
        let holds = |adaptive_pct, never_pct| {
            let comparison = Comparison::Tick { adaptive_pct, never_pct, disturbed: false };
            comparison.verdict() == Verdict::Holds
        };
        assert!(holds(0.6, 0.5) && holds(0.69, 0.5) && !holds(0.71, 0.5));
        assert!(holds(5.4, 5.0) && !holds(5.6, 5.0));
        assert!(holds(0.1, 0.5));
    }

    #[test]
    fn rows_are_compared_within_user_space() {
        let mut all = Vec::new();
        for row in rows(Backend::Kvm) {
            for think in Think::ALL {
                all.push(sample(row, think));
            }
        }
        for row in &mut all {
            row.backend = Backend::Kvm;
            row.rr_p50_us = match (row.mechanism, row.policy) {
                (Mechanism::UserSpace, RowPolicy::Adaptive) => 10.2,
                (Mechanism::UserSpace, RowPolicy::Always) => 10.0,
                _ => 1.0,
            };
        }
        let said: Vec<_> = Comparison::of(&all).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "Latency, steady: adaptive answers in 10.2 us (median), always in 10.0 us: 1.02 \
                 times as long, 1.05 are allowed: holds.",
                "Latency, bursty: adaptive answers in 10.2 us (median), always in 10.0 us: 1.02 \
                 times as long, 1.05 are allowed: holds.",
                "Idle at 250 Hz: adaptive uses 2.00 % of a CPU, never 2.00 %: +0.00 points, 0.20 \
                 are allowed: holds.",
            ]
        );
    }

    #[test]
    fn a_run_that_others_disturbed_decides_nothing() {
        let mut all: Vec<_> = rows(Backend::Kvm)
            .into_iter()
            .flat_map(|row| Think::ALL.map(|think| sample(row, think)))
            .collect();
        let adaptive = all.iter_mut().filter(|row| row.policy == RowPolicy::Adaptive);
        for row in adaptive {
            row.backend = Backend::Kvm;
            (row.repeats, row.disturbed) = (5, 8);
        }
        let said = Comparison::of(&all);
        assert_eq!(said.len(), 3);
        assert!(said.iter().all(|one| one.verdict() == Verdict::Undecided), "{said:?}");
    }

    #[test]
    fn nothing_is_promised_of_the_latency_of_threads() {
        let rows: Vec<_> = rows(Backend::Threads)
            .into_iter()
            .flat_map(|row| Think::ALL.map(|think| sample(row, think)))
            .collect();
        let all = Comparison::of(&rows);
        assert!(matches!(all[..], [Comparison::Tick { .. }]), "{all:?}");
    }

    #[test]
    fn nothing_is_said_of_rows_that_are_not_there() {
        let row = Row { mechanism: Mechanism::InKernel, policy: RowPolicy::Always };
        assert_eq!(Comparison::of(&[sample(row, Think::Steady)]), []);
    }
}
