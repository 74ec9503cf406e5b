// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Carries the plan out: every row, phase by phase.

use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;

use super::client::{Waiting, converse};
use super::disturbance::{Disturbance, Watch};
use super::figures::{Measured, Series};
use super::plan::{Phase, Plan};
use super::rows::Row;
use super::think::Thinks;
use super::vcpu::BenchVcpu;
use crate::report::progress::Progress;

/// Tries of a phase that is disturbed.
const TRIES: u32 = 3;
/// All repetitions together take at most this share of the planned time.
const EXTRA_SHARE: f64 = 0.5;

/// Where the threads of the run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The CPU of the client and of timers.
    pub client: usize,
    /// The CPU of the vCPUs, of which one runs at a time.
    pub vcpu: usize,
}

impl Placement {
    /// The first and the last of the CPUs that may be used: on most machines these are not threads
    /// of one core.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn among(cpus: &[usize]) -> anyhow::Result<Self> {
        let (client, vcpu) = cpus.first().zip(cpus.last()).context("there is no CPU to run on")?;
        Ok(Self { client: *client, vcpu: *vcpu })
    }

    /// How the client waits for answers.
    pub fn waiting(&self) -> Waiting {
        if self.client == self.vcpu { Waiting::Yield } else { Waiting::Spin }
    }

    fn cpus(&self) -> Vec<usize> {
        let mut cpus = vec![self.client, self.vcpu];
        cpus.dedup();
        cpus
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The figures of each row, in the order of the rows.
    pub series: Vec<Series>,
    /// Phases that were measured again because they were disturbed.
    pub repeated: u32,
    /// Phases that stayed disturbed.
    pub disturbed: u32,
}

/// Measures `vcpus`, which belong to `rows` one by one, from the CPU of the client.
///
/// # Errors
///
/// A vCPU failed, or the client did; with the row and the phase.
pub fn measure(
    plan: &Plan,
    rows: &[Row],
    vcpus: &mut [Box<dyn BenchVcpu>],
    placement: &Placement,
    progress: &Progress,
) -> anyhow::Result<Outcome> {
    let mut outcome =
        Outcome { series: vec![Series::default(); rows.len()], repeated: 0, disturbed: 0 };
    let mut extra = plan.total().mul_f64(EXTRA_SHARE);
    let cpus = placement.cpus();
    for repeat in 0..plan.repeats() {
        for phase in Phase::ALL {
            for index in plan.order(repeat, phase) {
                let what = format!("{}, {}", rows[index], phase.name());
                progress.step(format!("repeat {} of {}: {what}", repeat + 1, plan.repeats()));
                let turn = Turn { plan, repeat, phase, cpus: &cpus, waiting: placement.waiting() };
                let (measured, again) =
                    turn.settle(vcpus[index].as_mut(), &mut extra).context(what)?;
                outcome.repeated += again;
                outcome.disturbed += u32::from(measured.disturbed);
                outcome.series[index].push(phase, measured);
            }
        }
    }
    Ok(outcome)
}

/// One row's turn in one phase.
struct Turn<'a> {
    plan: &'a Plan,
    repeat: u32,
    phase: Phase,
    cpus: &'a [usize],
    waiting: Waiting,
}

impl Turn<'_> {
    /// Measures until nobody disturbs it, or there were enough tries, or no `extra` time is left;
    /// returns the figures that were disturbed least, and how often it measured again.
    fn settle(
        &self,
        vcpu: &mut dyn BenchVcpu,
        extra: &mut Duration,
    ) -> anyhow::Result<(Measured, u32)> {
        let time = self.plan.warm_up(self.phase) + self.plan.measured(self.phase);
        let (mut measured, mut least) = self.measure(vcpu)?;
        let mut again = 0;
        while least.matters() && again + 1 < TRIES && *extra >= time {
            *extra -= time;
            again += 1;
            let (other, disturbance) = self.measure(vcpu)?;
            if disturbance.weight() < least.weight() {
                (measured, least) = (other, disturbance);
            }
        }
        Ok((Measured { disturbed: least.matters(), ..measured }, again))
    }

    fn measure(&self, vcpu: &mut dyn BenchVcpu) -> anyhow::Result<(Measured, Disturbance)> {
        vcpu.begin(self.phase)?;
        let measured = self.while_it_runs(vcpu);
        // A vCPU that failed is the reason why its client failed, too.
        vcpu.end()?;
        measured
    }

    fn while_it_runs(&self, vcpu: &dyn BenchVcpu) -> anyhow::Result<(Measured, Disturbance)> {
        let mut latencies = latencies()?;
        // Other think times than the measured ones, which so are the same for all rows however
        // fast they are warmed up.
        let seed = self.plan.seed_of(self.repeat, self.phase);
        self.pass(vcpu, !seed, self.plan.warm_up(self.phase), &mut latencies)?;
        latencies.reset();

        let watch = Watch::begin(self.cpus)?;
        let before = vcpu.usage()?;
        let began = Instant::now();
        self.pass(vcpu, seed, self.plan.measured(self.phase), &mut latencies)?;
        let time = began.elapsed();
        let used = vcpu.usage()?.since(before);
        let disturbance = watch.end(used)?;
        let measured = Measured { time, vcpu: used, ..Measured::default() };
        Ok((measured.with_latencies(&latencies), disturbance))
    }

    fn pass(
        &self,
        vcpu: &dyn BenchVcpu,
        seed: u64,
        time: Duration,
        latencies: &mut Histogram<u64>,
    ) -> anyhow::Result<()> {
        match self.phase {
            Phase::Idle | Phase::Tick => std::thread::sleep(time),
            Phase::Serve(think) => {
                let mut thinks = Thinks::new(think, seed);
                converse(vcpu, self.waiting, &mut thinks, time, latencies)?;
            }
        }
        Ok(())
    }
}

/// For latencies in nanoseconds, of any size, to three digits.
fn latencies() -> anyhow::Result<Histogram<u64>> {
    Histogram::new(3).context("no histogram")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_and_vcpu_are_apart_when_they_can_be() {
        let two = Placement::among(&[2, 3, 5]).unwrap();
        assert_eq!((two.client, two.vcpu), (2, 5));
        assert_eq!(two.waiting(), Waiting::Spin);
        assert_eq!(two.cpus(), [2, 5]);
        let one = Placement::among(&[4]).unwrap();
        assert_eq!(one.waiting(), Waiting::Yield);
        assert_eq!(one.cpus(), [4]);
        assert!(Placement::among(&[]).is_err());
    }
}
