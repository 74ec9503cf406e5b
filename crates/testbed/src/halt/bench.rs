// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Policies and mechanisms side by side in one run.

use anyhow::{Context, bail};
use halt_poll::calibrate;

use super::comparison::Comparison;
use super::figures::{HaltRow, RunFacts, Series};
use super::host;
use super::kvm::{self, KvmVcpu};
use super::measure::{Outcome, Placement, measure};
use super::module_params::module_params;
use super::plan::{Plan, WANTED_REPEATS};
use super::policies::{HostParams, poller};
use super::rows::{Backend, Mechanism, Row, rows};
use super::think::{self, Think};
use super::threads::ThreadVcpu;
use super::usage::{allowed_cpus, pin};
use super::vcpu::BenchVcpu;
use crate::cli::{self, HaltArgs};
use crate::report::destination::{self, Destination};
use crate::report::diagnostic;
use crate::report::html::{self, Page};
use crate::report::json;
use crate::report::progress::Progress;
use crate::report::table::Table;

/// How long a run takes when nobody says.
const SECONDS: f64 = 60.0;
/// Decides orders and think times: two runs ask the same in the same order.
const SEED: u64 = 0x68_616c_7421;

/// Runs the benchmark and reports one row per mechanism, policy and think time.
///
/// # Errors
///
/// The time is too short, the back end is not to be had, a vCPU failed, or a report cannot be
/// written.
pub fn run(args: &HaltArgs) -> anyhow::Result<()> {
    for destination in [&args.json, &args.html].into_iter().flatten() {
        destination.check()?;
    }
    let (backend, reason) = choose(args.backend, kvm::missing())?;
    let rows = rows(backend);
    let count = u32::try_from(rows.len())?;
    let plan = Plan::new(args.seconds.unwrap_or(SECONDS), count, SEED)?;
    let progress = Progress::new(plan.phases(), plan.total());
    if let Some(reason) = reason {
        progress.say(&reason);
    }
    if plan.is_short() {
        progress.say(&format!(
            "too short for {WANTED_REPEATS} repeats ({:.0} s are needed): medians over {} only",
            plan.seconds_wanted(),
            plan.repeats(),
        ));
    }

    let cpus = allowed_cpus()?;
    let placement = Placement::among(&cpus)?;
    let module = module_params()?;
    let cost = calibrate().context("the cost of blocking cannot be measured")?;
    let host = HostParams::new(cost, module.unwrap_or_default());
    let about = host::facts(cpus.len(), &placement, cost, &host, module.is_some());
    // From here on: timers' threads inherit it.
    pin(placement.client)?;
    let mut vcpus = vcpus(backend, &rows, &plan, &placement, &host)?;
    let outcome = measure(&plan, &rows, &mut vcpus, &placement, &progress)?;
    drop(vcpus);
    progress.finish();

    let facts = RunFacts {
        backend,
        block_cost_ns: cost.cpu_ns,
        block_latency_ns: cost.latency_ns,
        seed: SEED,
    };
    let report = Report {
        results: sum_up(facts, &rows, &outcome.series)?,
        rows: &rows,
        outcome: &outcome,
        plan: &plan,
        facts: about,
    };
    report.write(args)
}

/// The back end to use, and what to say about the choice.
fn choose(
    asked: cli::Backend,
    missing: Option<String>,
) -> anyhow::Result<(Backend, Option<String>)> {
    let threads = |reason: &str| {
        let line = format!("threads play the vCPUs ({reason}): these figures say nothing of KVM");
        Ok((Backend::Threads, Some(line)))
    };
    match (asked, missing) {
        (cli::Backend::Threads, _) => threads("as asked for"),
        (cli::Backend::Auto, Some(reason)) => threads(&reason),
        (cli::Backend::Kvm, Some(reason)) => bail!("no KVM back end: {reason}"),
        (cli::Backend::Auto | cli::Backend::Kvm, None) => Ok((Backend::Kvm, None)),
    }
}

/// A vCPU for each row.
fn vcpus(
    backend: Backend,
    rows: &[Row],
    plan: &Plan,
    placement: &Placement,
    host: &HostParams,
) -> anyhow::Result<Vec<Box<dyn BenchVcpu>>> {
    let cpu = placement.vcpu;
    let vcpu = |row: &Row| -> anyhow::Result<Box<dyn BenchVcpu>> {
        let poller = poller(row.policy, host);
        Ok(match backend {
            Backend::Kvm => {
                let vcpu = KvmVcpu::new(cpu, *row, poller, plan.longest_halt());
                Box::new(vcpu.with_context(|| row.to_string())?)
            }
            Backend::Threads => Box::new(ThreadVcpu::new(cpu, poller)),
        })
    };
    rows.iter().map(vcpu).collect()
}

fn sum_up(facts: RunFacts, rows: &[Row], series: &[Series]) -> anyhow::Result<Vec<HaltRow>> {
    let mut results = Vec::new();
    for (row, series) in rows.iter().zip(series) {
        for think in Think::ALL {
            let result = HaltRow::new(facts, *row, think, series)
                .with_context(|| format!("{row}, {}: nothing was measured", think.name()))?;
            results.push(result);
        }
    }
    Ok(results)
}

/// Everything there is to tell.
struct Report<'a> {
    results: Vec<HaltRow>,
    rows: &'a [Row],
    outcome: &'a Outcome,
    plan: &'a Plan,
    facts: Vec<(&'static str, String)>,
}

impl Report<'_> {
    fn write(&self, args: &HaltArgs) -> anyhow::Result<()> {
        let comparisons = Comparison::of(&self.results);
        let notes = self.notes();
        // A report that cannot be written takes no other with it.
        let json = json::write(args.json.as_ref(), &self.results);
        let html = self.write_html(args, &comparisons, &notes);
        let text = self.text(&comparisons, &notes);
        let stdout = Some(&Destination::Stdout);
        let text = if args.json.as_ref() == stdout || args.html.as_ref() == stdout {
            diagnostic::text(&text);
            Ok(())
        } else {
            destination::print(text.as_bytes())
        };
        json.and(html).and(text)
    }

    fn write_html(
        &self,
        args: &HaltArgs,
        comparisons: &[Comparison],
        notes: &[String],
    ) -> anyhow::Result<()> {
        if let Some(destination) = &args.html {
            let series: Vec<_> =
                self.rows.iter().copied().zip(self.outcome.series.iter().cloned()).collect();
            let page = Page {
                rows: &self.results,
                series: &series,
                comparisons,
                notes,
                facts: &self.facts,
                command: &command(args),
            };
            destination.write(html::page(&page)?.as_bytes())?;
        }
        Ok(())
    }

    fn text(&self, comparisons: &[Comparison], notes: &[String]) -> String {
        let mut table = Table::new([
            "halts, policy",
            "think",
            "idle %",
            "250 Hz %",
            "p50 us",
            "p99 us",
            "CPU us/req",
            "wake-ups/s",
        ]);
        for row in &self.results {
            table.row([
                format!("{} {}", row.mechanism.name(), row.policy.name()),
                row.think.name().to_owned(),
                format!("{:.2}", row.idle_cpu_pct),
                format!("{:.2}", row.idle_250hz_cpu_pct),
                format!("{:.1}", row.rr_p50_us),
                format!("{:.1}", row.rr_p99_us),
                format!("{:.1}", row.cpu_per_rr_us),
                format!("{:.0}", row.wakeups_per_s),
            ]);
        }
        let mut text = format!("{table}\n");
        for comparison in comparisons {
            text.push_str(&format!("{comparison}\n"));
        }
        for note in notes {
            text.push_str(&format!("Note: {note}\n"));
        }
        text
    }

    /// What a reader has to know.
    fn notes(&self) -> Vec<String> {
        let backend = self.results.first().map_or("no", |row| row.backend.name());
        let mut notes = vec![
            format!(
                "Back end {backend}; medians over {} repeats of {:.1} s, rows in an order drawn \
                 anew for each phase.",
                self.plan.repeats(),
                self.plan.repeat().as_secs_f64(),
            ),
            "CPU is the CPU time of the vCPU's thread, guest included; the client's and the \
             timers' threads, interrupts, and what an idle CPU does are not in it."
                .to_owned(),
            "always polls through every halt, so it uses a whole CPU even when the vCPU is idle \
             without a timer."
                .to_owned(),
            format!(
                "Think times: steady {} to {} us; bursty {} to {} requests, each {} us and an \
                 exponential {} us after the other, then an exponential {} ms.",
                think::STEADY_MIN.as_micros(),
                think::STEADY_MAX.as_micros(),
                think::BURST_MIN,
                think::BURST_MAX,
                think::GAP_MIN.as_micros(),
                think::GAP_MEAN.as_micros(),
                think::PAUSE_MEAN.as_millis(),
            ),
        ];
        if self.outcome.repeated + self.outcome.disturbed > 0 {
            notes.push(format!(
                "Others used our CPUs: {} of {} phases were measured again, {} stayed disturbed; \
                 these do not count where three or more repeats are left.",
                self.outcome.repeated,
                self.plan.phases(),
                self.outcome.disturbed,
            ));
            if self.rows.iter().any(|row| row.mechanism == Mechanism::InKernel) {
                notes.push(
                    "The kernel stops polling as soon as another task waits for its CPU, which \
                     user space cannot see: when disturbed, in-kernel rows come out like never."
                        .to_owned(),
                );
            }
        }
        notes
    }
}

/// The command that measures this again.
fn command(args: &HaltArgs) -> String {
    let seconds = args.seconds.unwrap_or(SECONDS);
    let backend = match args.backend {
        cli::Backend::Auto => "auto",
        cli::Backend::Kvm => "kvm",
        cli::Backend::Threads => "threads",
    };
    format!(
        "cargo run --release -p testbed -- halt --seconds {seconds} --backend {backend} --html \
         halt.html"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(asked: cli::Backend, missing: Option<&str>) -> anyhow::Result<(Backend, bool)> {
        let (backend, line) = choose(asked, missing.map(str::to_owned))?;
        if let (Some(line), Some(reason)) = (&line, missing) {
            assert!(asked == cli::Backend::Threads || line.contains(reason), "{line}");
        }
        Ok((backend, line.is_some()))
    }

    #[test]
    fn without_kvm_threads_stand_in_and_it_is_said() {
        let no_kvm = Some("no /dev/kvm");
        assert_eq!(chosen(cli::Backend::Auto, None).unwrap(), (Backend::Kvm, false));
        assert_eq!(chosen(cli::Backend::Auto, no_kvm).unwrap(), (Backend::Threads, true));
        assert_eq!(chosen(cli::Backend::Threads, None).unwrap(), (Backend::Threads, true));
    }

    #[test]
    fn who_wants_kvm_gets_no_threads() {
        assert_eq!(chosen(cli::Backend::Kvm, None).unwrap(), (Backend::Kvm, false));
        let error = chosen(cli::Backend::Kvm, Some("no /dev/kvm")).unwrap_err();
        assert_eq!(error.to_string(), "no KVM back end: no /dev/kvm");
    }
}
