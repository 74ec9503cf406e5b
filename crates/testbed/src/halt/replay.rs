// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `testbed halt replay`: the kernel's recorded windows against `KernelPolicy`'s.

use std::fmt::Write;

use anyhow::{Context, ensure};
use halt_trace::replay::{Replay, replay};
use serde::Serialize;

use super::trace_file;
use crate::cli::ReplayArgs;
use crate::report::destination::print_unless_taken;
use crate::report::json;
use crate::report::table::Table;

/// How many mismatches of a file are listed.
const LISTED: usize = 20;

#[derive(Debug, Serialize)]
struct Row {
    file: String,
    halts: usize,
    mismatches: usize,
    unsynchronised: usize,
    threads: usize,
    losses: usize,
}

/// Replays each file and compares every window with the kernel's.
///
/// # Errors
///
/// A file that cannot be read or replayed, a report that cannot be written; any mismatch.
pub fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    let fixed = args.params.update();
    let mut rows = Vec::new();
    let mut list = String::new();
    for path in &args.files {
        let trace = trace_file::read(path, !fixed.is_empty())?;
        let file = path.display().to_string();
        let replay = replay(&trace, fixed).with_context(|| file.clone())?;
        list_mismatches(&mut list, &file, &replay);
        rows.push(Row {
            file,
            halts: replay.halts,
            mismatches: replay.mismatches.len(),
            unsynchronised: replay.unsynchronised,
            threads: replay.threads,
            losses: replay.losses,
        });
    }
    // Neither report depends on the other, nor the verdict on either: `replay | head` fails, too.
    let written = json::write(args.json.as_ref(), &rows);
    let printed = print_unless_taken(args.json.as_ref(), &(table(&rows).to_string() + &list));
    let mismatches: usize = rows.iter().map(|row| row.mismatches).sum();
    ensure!(mismatches == 0, "{mismatches} halts differ from the kernel's");
    written.and(printed)
}

fn table(rows: &[Row]) -> Table {
    let mut table =
        Table::new(["file", "halts", "mismatches", "unsynchronised", "threads", "losses"]);
    for row in rows {
        let numbers = [row.halts, row.mismatches, row.unsynchronised, row.threads, row.losses];
        table.row([row.file.clone()].into_iter().chain(numbers.map(|number| number.to_string())));
    }
    table
}

fn list_mismatches(list: &mut String, file: &str, replay: &Replay) {
    for mismatch in replay.mismatches.iter().take(LISTED) {
        // Writing to a string cannot fail.
        let _ = writeln!(list, "{file}: {mismatch}");
    }
    if let Some(more) = replay.mismatches.len().checked_sub(LISTED + 1) {
        let _ = writeln!(list, "{file}: and {} more", more + 1);
    }
}
