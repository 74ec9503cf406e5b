// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! From what was measured to what is reported: figures of a phase, medians over repeats, rows.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::plan::Phase;
use super::rows::{Backend, Mechanism, Row, RowPolicy};
use super::think::Think;
use super::usage::Usage;

/// One row in one phase of one repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// Wall time.
    pub time: Duration,
    /// What the vCPU's thread used in it.
    pub vcpu: Usage,
    /// Requests answered; 0 in the idle phases, as the two latencies.
    pub requests: u64,
    /// Half of the requests were answered within this, in microseconds.
    pub rr_p50_us: f64,
    /// 99 % of the requests were answered within this, in microseconds.
    pub rr_p99_us: f64,
    /// Whether somebody else used the CPUs meanwhile, even in the best of several tries.
    pub disturbed: bool,
}

impl Measured {
    /// With the percentiles of `latencies`, which are in nanoseconds.
    #[must_use]
    pub fn with_latencies(self, latencies: &Histogram<u64>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds within seconds")]
        let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
        Self { requests: latencies.len(), rr_p50_us: us(0.50), rr_p99_us: us(0.99), ..self }
    }

    /// The vCPU thread's share of one CPU, in percent.
    pub fn cpu_pct(&self) -> f64 {
        self.vcpu.cpu.as_secs_f64() / self.time.as_secs_f64() * 100.0
    }

    /// The vCPU thread's CPU time for each request, polling between requests included.
    pub fn cpu_per_rr_us(&self) -> f64 {
        self.vcpu.cpu.as_secs_f64() * 1e6 / self.requests_f64()
    }

    /// How often the vCPU's thread slept and was woken.
    pub fn wakeups_per_s(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let sleeps = self.vcpu.sleeps as f64;
        sleeps / self.time.as_secs_f64()
    }

    /// How often the client was answered.
    pub fn requests_per_s(&self) -> f64 {
        self.requests_f64() / self.time.as_secs_f64()
    }

    fn requests_f64(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let requests = self.requests as f64;
        requests
    }
}

/// Everything measured of one row, repeat by repeat.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    idle: Vec<Measured>,
    tick: Vec<Measured>,
    steady: Vec<Measured>,
    bursty: Vec<Measured>,
}

impl Series {
    /// Adds the next repeat of `phase`.
    pub fn push(&mut self, phase: Phase, measured: Measured) {
        match phase {
            Phase::Idle => self.idle.push(measured),
            Phase::Tick => self.tick.push(measured),
            Phase::Serve(Think::Steady) => self.steady.push(measured),
            Phase::Serve(Think::Bursty) => self.bursty.push(measured),
        }
    }

    /// The repeats of `phase` so far.
    pub fn phase(&self, phase: Phase) -> &[Measured] {
        match phase {
            Phase::Idle => &self.idle,
            Phase::Tick => &self.tick,
            Phase::Serve(Think::Steady) => &self.steady,
            Phase::Serve(Think::Bursty) => &self.bursty,
        }
    }
}

/// Undisturbed repeats that are enough to leave the disturbed ones out.
const ENOUGH: usize = 3;

/// The repeats to trust: those that nobody disturbed, if there are [`ENOUGH`], else all.
fn trusted(repeats: &[Measured]) -> Vec<Measured> {
    let calm: Vec<_> = repeats.iter().copied().filter(|one| !one.disturbed).collect();
    if calm.len() >= ENOUGH { calm } else { repeats.to_vec() }
}

/// Median and extremes over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of `values`; `None` without any, or when one is not a number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        if values.iter().any(|value| value.is_nan()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Self { min, median, max })
    }
}

/// What holds for all rows of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunFacts {
    /// What ran the vCPUs.
    pub backend: Backend,
    /// CPU time of a sleep and wake-up, as calibrated, in nanoseconds.
    pub block_cost_ns: u32,
    /// Latency of a wake-up, as calibrated, in nanoseconds.
    pub block_latency_ns: u32,
    /// Decided orders and think times.
    pub seed: u64,
}

/// A row of the report, as in JSON (docs/results.md). Figures are medians over the repeats, without
/// the disturbed ones if three or more others are left.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HaltRow {
    /// What ran the vCPU.
    pub backend: Backend,
    /// Who handled its halts.
    pub mechanism: Mechanism,
    /// By which policy.
    pub policy: RowPolicy,
    /// The client's think times.
    pub think: Think,
    /// Share of a CPU of the idle vCPU without a timer, in percent. The same for both think times.
    pub idle_cpu_pct: f64,
    /// Share of a CPU of the idle vCPU with a 250 Hz timer, in percent. The same for both.
    pub idle_250hz_cpu_pct: f64,
    /// Median latency of a request, in microseconds.
    pub rr_p50_us: f64,
    /// Latency that 1 % of the requests exceed, in microseconds.
    pub rr_p99_us: f64,
    /// The vCPU thread's CPU time for each request, in microseconds.
    pub cpu_per_rr_us: f64,
    /// How often the vCPU's thread slept and was woken, while it served.
    pub wakeups_per_s: f64,
    /// How often the client was answered.
    pub requests_per_s: f64,
    /// Smallest of the repeats' [`idle_250hz_cpu_pct`](Self::idle_250hz_cpu_pct).
    pub idle_250hz_cpu_pct_min: f64,
    /// Largest.
    pub idle_250hz_cpu_pct_max: f64,
    /// Smallest of the repeats' [`rr_p50_us`](Self::rr_p50_us).
    pub rr_p50_us_min: f64,
    /// Largest.
    pub rr_p50_us_max: f64,
    /// Smallest of the repeats' [`cpu_per_rr_us`](Self::cpu_per_rr_us).
    pub cpu_per_rr_us_min: f64,
    /// Largest.
    pub cpu_per_rr_us_max: f64,
    /// How often everything was measured.
    pub repeats: usize,
    /// Phases behind this row in which others used the CPUs, whatever was tried.
    pub disturbed: usize,
    /// [`RunFacts::block_cost_ns`].
    pub block_cost_ns: u32,
    /// [`RunFacts::block_latency_ns`].
    pub block_latency_ns: u32,
    /// [`RunFacts::seed`].
    pub seed: u64,
}

impl HaltRow {
    /// Whether others used the CPUs in more than half of the phases behind this row: the medians
    /// then are of what they left.
    pub fn is_disturbed(&self) -> bool {
        2 * self.disturbed > 3 * self.repeats
    }

    /// Sums a row's repeats up. `None` when a phase has not been measured.
    pub fn new(facts: RunFacts, row: Row, think: Think, series: &Series) -> Option<Self> {
        let spread = |phase, figure: fn(&Measured) -> f64| {
            Spread::of(trusted(series.phase(phase)).iter().map(figure))
        };
        let serve = Phase::Serve(think);
        let tick = spread(Phase::Tick, Measured::cpu_pct)?;
        let p50 = spread(serve, |measured| measured.rr_p50_us)?;
        let cpu = spread(serve, Measured::cpu_per_rr_us)?;
        let median = |phase, figure| Some(spread(phase, figure)?.median);
        let phases = [Phase::Idle, Phase::Tick, serve].map(|phase| series.phase(phase));
        Some(Self {
            backend: facts.backend,
            mechanism: row.mechanism,
            policy: row.policy,
            think,
            idle_cpu_pct: median(Phase::Idle, Measured::cpu_pct)?,
            idle_250hz_cpu_pct: tick.median,
            rr_p50_us: p50.median,
            rr_p99_us: median(serve, |measured| measured.rr_p99_us)?,
            cpu_per_rr_us: cpu.median,
            wakeups_per_s: median(serve, Measured::wakeups_per_s)?,
            requests_per_s: median(serve, Measured::requests_per_s)?,
            idle_250hz_cpu_pct_min: tick.min,
            idle_250hz_cpu_pct_max: tick.max,
            rr_p50_us_min: p50.min,
            rr_p50_us_max: p50.max,
            cpu_per_rr_us_min: cpu.min,
            cpu_per_rr_us_max: cpu.max,
            repeats: series.phase(serve).len(),
            disturbed: phases.iter().copied().flatten().filter(|one| one.disturbed).count(),
            block_cost_ns: facts.block_cost_ns,
            block_latency_ns: facts.block_latency_ns,
            seed: facts.seed,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const FACTS: RunFacts = RunFacts {
        backend: Backend::Threads,
        block_cost_ns: 4_000,
        block_latency_ns: 6_000,
        seed: 1,
    };

    /// A phase of 100 ms.
    fn measured(cpu_ms: u64, requests: u64) -> Measured {
        Measured {
            time: Duration::from_millis(100),
            vcpu: Usage { cpu: Duration::from_millis(cpu_ms), sleeps: 50, ..Usage::default() },
            requests,
            rr_p50_us: 10.0,
            rr_p99_us: 20.0,
            disturbed: false,
        }
    }

    /// A row whose figures are easily told apart.
    pub(crate) fn sample(row: Row, think: Think) -> HaltRow {
        let mut series = Series::default();
        for phase in Phase::ALL {
            for cpu_ms in [3, 1, 2] {
                let requests = if matches!(phase, Phase::Serve(_)) { 1000 } else { 0 };
                series.push(phase, measured(cpu_ms, requests));
            }
        }
        HaltRow::new(FACTS, row, think, &series).unwrap()
    }

    const ROW: Row = Row { mechanism: Mechanism::UserSpace, policy: RowPolicy::Adaptive };

    #[test]
    fn medians_are_the_middle() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[1.0, f64::NAN]), None);
        assert_eq!(spread(&[7.0]), Some(Spread { min: 7.0, median: 7.0, max: 7.0 }));
        assert_eq!(spread(&[9.0, 1.0, 2.0]), Some(Spread { min: 1.0, median: 2.0, max: 9.0 }));
        assert_eq!(spread(&[4.0, 9.0, 1.0, 2.0]).unwrap().median, 3.0);
    }

    #[test]
    fn percentiles_come_in_microseconds() {
        let mut latencies = Histogram::new(3).unwrap();
        for us in 1..=1000_u64 {
            latencies.record(us * 1000).unwrap();
        }
        let measured = Measured::default().with_latencies(&latencies);
        assert_eq!(measured.requests, 1000);
        assert!((measured.rr_p50_us - 500.0).abs() < 1.0, "{measured:?}");
        assert!((measured.rr_p99_us - 990.0).abs() < 1.0, "{measured:?}");
    }

    #[test]
    fn figures_are_per_second_and_per_request() {
        let measured = measured(25, 500);
        assert!((measured.cpu_pct() - 25.0).abs() < 1e-9);
        assert!((measured.cpu_per_rr_us() - 50.0).abs() < 1e-9);
        assert!((measured.wakeups_per_s() - 500.0).abs() < 1e-9);
        assert!((measured.requests_per_s() - 5000.0).abs() < 1e-9);
    }

    #[test]
    fn a_row_has_the_documented_fields_and_is_flat() {
        let row = serde_json::to_value(sample(ROW, Think::Bursty)).unwrap();
        let row = row.as_object().unwrap();
        for (field, text) in [
            ("backend", "threads"),
            ("mechanism", "user-space"),
            ("policy", "adaptive"),
            ("think", "bursty"),
        ] {
            assert_eq!(row[field], text);
        }
        for field in [
            "idle_cpu_pct",
            "idle_250hz_cpu_pct",
            "rr_p50_us",
            "rr_p99_us",
            "cpu_per_rr_us",
            "wakeups_per_s",
        ] {
            assert!(row[field].is_f64(), "{field}: {}", row[field]);
        }
        assert!(row.values().all(|value| !value.is_array() && !value.is_object()));
    }

    #[test]
    fn a_row_is_the_median_over_its_repeats() {
        let row = sample(ROW, Think::Steady);
        assert_eq!(row.repeats, 3);
        assert!((row.idle_cpu_pct - 2.0).abs() < 1e-9);
        assert!((row.cpu_per_rr_us - 2.0).abs() < 1e-9);
        assert!((row.cpu_per_rr_us_min - 1.0).abs() < 1e-9);
        assert!((row.cpu_per_rr_us_max - 3.0).abs() < 1e-9);
    }

    #[test]
    fn disturbed_phases_of_the_other_think_time_do_not_count() {
        let mut series = Series::default();
        for phase in Phase::ALL {
            let disturbed = matches!(phase, Phase::Tick | Phase::Serve(Think::Bursty));
            series.push(phase, Measured { disturbed, ..measured(1, 1) });
        }
        let disturbed = |think| HaltRow::new(FACTS, ROW, think, &series).map(|row| row.disturbed);
        assert_eq!(disturbed(Think::Steady), Some(1));
        assert_eq!(disturbed(Think::Bursty), Some(2));
    }

    #[test]
    fn disturbed_repeats_are_left_out_when_enough_others_are_left() {
        let figure = |calm: usize| {
            let mut series = Series::default();
            for phase in Phase::ALL {
                // Disturbed ones are far off.
                for repeat in 0..5 {
                    let disturbed = repeat >= calm;
                    let cpu_ms = if disturbed { 90 } else { 10 };
                    series.push(phase, Measured { disturbed, ..measured(cpu_ms, 1000) });
                }
            }
            HaltRow::new(FACTS, ROW, Think::Steady, &series).unwrap().idle_250hz_cpu_pct_max
        };
        assert!((figure(3) - 10.0).abs() < 1e-9);
        assert!((figure(2) - 90.0).abs() < 1e-9);
    }

    #[test]
    fn a_row_with_nothing_measured_is_no_row() {
        let mut series = Series::default();
        series.push(Phase::Idle, measured(1, 0));
        assert_eq!(HaltRow::new(FACTS, ROW, Think::Steady, &series), None);
        // A phase without a request has no CPU time per request.
        for phase in Phase::ALL {
            series.push(phase, Measured { vcpu: Usage::default(), ..measured(0, 0) });
        }
        assert_eq!(HaltRow::new(FACTS, ROW, Think::Steady, &series), None);
    }
}
