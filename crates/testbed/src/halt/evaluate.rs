// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `testbed halt evaluate`: what each policy's decisions cost, on recorded and drawn halts.

use std::collections::BTreeMap;

use halt_poll::KernelParams;
use halt_trace::Trace;
use halt_trace::evaluate::{
    CONTESTANTS, Contestant, Cost, HaltSource, Recorded, Setup, best_fixed, geometric_mean,
    run as live,
};
use halt_trace::suite::{Class, Workload, suite};
use serde::Serialize;

use super::trace_file;
use crate::cli::EvaluateArgs;
use crate::report::destination::print_unless_taken;
use crate::report::json;
use crate::report::table::Table;

/// The worst case that a learning policy promises: this often the clairvoyant, and a constant.
const WORST_CASE: f64 = 2.05;

#[derive(Debug, Serialize)]
struct Row {
    file: String,
    policy: &'static str,
    block_cost_ns: u32,
    halts: usize,
    cost_ratio: f64,
    regret_ratio: f64,
    polled_ns: u64,
    blocks: usize,
    #[serde(skip)]
    class: Option<Class>,
    /// By how many blocks the cost is above the promise of the worst case.
    #[serde(skip)]
    excess_blocks: f64,
}

/// Runs every policy over every workload.
///
/// # Errors
///
/// A file that cannot be read, or a report that cannot be written.
pub fn run(args: &EvaluateArgs) -> anyhow::Result<()> {
    let fixed = args.params.update();
    let mut rows = Vec::new();
    for path in &args.files {
        let trace = trace_file::read(path, !fixed.is_empty())?;
        let threads = by_thread(&trace);
        let kernel = fixed.apply(trace.first_params());
        let file = path.display().to_string();
        evaluate(args, kernel, &file, None, &mut rows, |_| {
            threads.iter().map(|halts| Box::new(Recorded::new(halts)) as Box<_>).collect()
        });
    }
    let recorded = rows.len();
    if args.suite {
        let kernel = fixed.apply(KernelParams::X86);
        for workload in suite(args.seed, args.halts) {
            let Workload { name, class, .. } = &workload;
            evaluate(args, kernel, name, Some(*class), &mut rows, |block| {
                vec![workload.source(block)]
            });
        }
    }
    let mut text = String::new();
    if recorded > 0 {
        text += &details(&rows[..recorded], &args.block_cost_ns).to_string();
    }
    if args.suite {
        let drawn = &rows[recorded..];
        text += &format!("\nsynthetic suite, seed {}\n", args.seed);
        text += &details(drawn, &args.block_cost_ns).to_string();
        text += &format!("\nthe same by class\n{}", summary(drawn));
    }
    let written = json::write(args.json.as_ref(), &rows);
    written.and(print_unless_taken(args.json.as_ref(), text.trim_start()))
}

/// The lengths of each thread's halts.
fn by_thread(trace: &Trace) -> Vec<Vec<u64>> {
    let mut threads: BTreeMap<Option<u32>, Vec<u64>> = BTreeMap::new();
    for (thread, wakeup) in trace.halts() {
        threads.entry(thread).or_default().push(wakeup.halt_ns);
    }
    threads.into_values().collect()
}

/// Adds a row for each policy and block cost. `sources` gives one source for each vCPU.
fn evaluate<'a>(
    args: &EvaluateArgs,
    kernel: KernelParams,
    file: &str,
    class: Option<Class>,
    rows: &mut Vec<Row>,
    sources: impl Fn(u32) -> Vec<Box<dyn HaltSource + 'a>>,
) {
    for Contestant { name, build } in CONTESTANTS {
        for &block_cost_ns in &args.block_cost_ns {
            let mut setup = Setup::new(block_cost_ns, kernel);
            setup.ceiling_ns = args.ceiling_ns.unwrap_or(setup.ceiling_ns);
            let mut seen = Vec::new();
            let cost =
                sources(block_cost_ns).into_iter().fold(Cost::default(), |cost, mut source| {
                    cost.plus(live(&mut build(&setup), &mut *source, block_cost_ns, &mut seen))
                });
            let best = best_fixed(&mut seen, block_cost_ns);
            rows.push(Row {
                file: file.to_owned(),
                policy: name,
                block_cost_ns,
                halts: cost.halts,
                cost_ratio: cost.ratio_to_clairvoyant(),
                regret_ratio: cost.ratio_to(best),
                polled_ns: u64::try_from(cost.polled_ns).unwrap_or(u64::MAX),
                blocks: cost.blocks,
                class,
                excess_blocks: cost.above(WORST_CASE) / f64::from(block_cost_ns),
            });
        }
    }
}

/// A line for each workload and policy: both ratios for each block cost, and their means.
fn details(rows: &[Row], block_costs: &[u32]) -> Table {
    let mut headings = vec!["file".to_owned(), "policy".to_owned()];
    for block in block_costs {
        let us = f64::from(*block) / 1e3;
        headings.extend([format!("cost@{us}us"), format!("regret@{us}us")]);
    }
    headings.extend(["cost mean".to_owned(), "regret mean".to_owned()]);
    let mut table = Table::new(headings);
    // Rows of one workload and policy stand together, one for each block cost.
    for group in rows.chunks(block_costs.len()) {
        let mut cells = vec![group[0].file.clone(), group[0].policy.to_owned()];
        cells.extend(group.iter().flat_map(|row| [row.cost_ratio, row.regret_ratio]).map(number));
        cells.push(mean(group, |row| row.cost_ratio));
        cells.push(mean(group, |row| row.regret_ratio));
        table.row(cells);
    }
    table
}

/// A line for each class and policy: the mean and the worst over workloads and block costs.
fn summary(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "class",
        "policy",
        "cost mean",
        "cost worst",
        "regret mean",
        "regret worst",
        "excess [B]",
    ]);
    for class in [Class::Stationary, Class::Phases, Class::Adversarial] {
        for contestant in CONTESTANTS {
            let group: Vec<_> = rows
                .iter()
                .filter(|row| row.class == Some(class) && row.policy == contestant.name)
                .collect();
            let worst = |value: fn(&Row) -> f64| {
                number(group.iter().map(|row| value(row)).fold(0.0, f64::max))
            };
            table.row([
                format!("{class:?}").to_lowercase(),
                contestant.name.to_owned(),
                mean(group.iter().copied(), |row| row.cost_ratio),
                worst(|row| row.cost_ratio),
                mean(group.iter().copied(), |row| row.regret_ratio),
                worst(|row| row.regret_ratio),
                worst(|row| row.excess_blocks),
            ]);
        }
    }
    table
}

fn mean<'a>(rows: impl IntoIterator<Item = &'a Row>, value: fn(&Row) -> f64) -> String {
    let values: Vec<_> = rows.into_iter().map(value).collect();
    geometric_mean(&values).map_or("-".to_owned(), number)
}

/// Three decimals, fewer for numbers that need none.
fn number(value: f64) -> String {
    if value < 100.0 { format!("{value:.3}") } else { format!("{value:.0}") }
}
