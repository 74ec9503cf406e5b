// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The project's chores, one module each. `cargo xtask help` lists them.
//!
//! `cargo xtask test` needs Rust and a C compiler and nothing else; what more a chore can use, and
//! this host lacks, it reports as SKIPPED with the reason.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod accepted;
mod bench;
mod ci;
mod commits;
mod coverage;
mod features;
mod fuzz;
mod headers;
mod libtest;
mod llvm;
mod loom;
mod no_std;
mod package;
mod session;
mod summary;
mod test;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::session::Session;
use crate::workspace::Workspace;

#[derive(Parser)]
#[command(bin_name = "cargo xtask", about = "The project's chores", version)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Every test that this host can run: unit, integration, doc, long, loom, fuzz corpora.
    Test,
    /// What has to pass before a change lands: the tests, fmt, clippy, docs, a smoke of the fuzzers.
    Ci,
    /// The models of the lock-free code, with loom.
    Loom,
    /// Fuzzes one target, or all of them in turn.
    Fuzz(fuzz::Arguments),
    /// The criterion benchmarks.
    Bench(bench::Arguments),
    /// Line coverage of the library crates, against coverage_config_*.json.
    Coverage(coverage::Arguments),
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let workspace = Workspace::load()?;
    let mut session = Session::begin(workspace)?;
    match cli.chore {
        Chore::Test => test::steps(&mut session, features::Warnings::Allow),
        Chore::Ci => return ci::run(session),
        Chore::Loom => loom::steps(&mut session),
        Chore::Fuzz(arguments) => fuzz::run(&mut session, &arguments)?,
        Chore::Bench(arguments) => bench::step(&mut session, &arguments),
        Chore::Coverage(arguments) => coverage::step(&mut session, &arguments),
    }
    session.finish(None)
}
