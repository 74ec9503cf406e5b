// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What can be asked for on the command line, and how failures are told.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::report::destination::{Destination, StdoutClosed};
use crate::{halt, probe};

/// Measures the vCPU scheduling crates on this host.
#[derive(Debug, Parser)]
#[command(name = "testbed", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Says what this host offers and what not, each with a reason.
    Probe(ProbeArgs),
    /// Measures halts: mechanisms and policies side by side.
    Halt(HaltCommand),
}

/// Arguments of `testbed probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Write the findings as JSON to FILE, or to standard output if it is `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
}

/// `testbed halt`: the benchmark, or one of its subcommands.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HaltCommand {
    /// Arguments of the benchmark.
    #[command(flatten)]
    pub bench: HaltArgs,
    /// What to do instead of the benchmark.
    #[command(subcommand)]
    pub command: Option<HaltSubcommand>,
}

/// What `testbed halt` can do besides the benchmark.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum HaltSubcommand {}

/// Arguments of the benchmark `testbed halt`.
#[derive(Debug, Args)]
pub struct HaltArgs {
    /// How long the whole run may take, in seconds.
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Write the results as JSON to FILE, or to standard output if it is `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
    /// Write a page with plots to FILE, or to standard output if it is `-`.
    #[arg(long, value_name = "FILE")]
    pub html: Option<Destination>,
    /// What runs the vCPUs.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
}

/// What runs the vCPUs of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// Guests under /dev/kvm.
    Kvm,
    /// Plain threads that stand for vCPUs.
    Threads,
    /// KVM where it works, else threads; the report says which.
    Auto,
}

/// Parses the command line, runs what it asks for and tells how it went.
#[expect(clippy::print_stderr, reason = "the one place where failures are told")]
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args).and_then(validated) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // --help and --version; a closed pipe is no failure.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{}", usage_line(&error));
            return ExitCode::from(2);
        }
    };
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<StdoutClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", format!("{error:#}").replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Probe(args) => probe::run(args),
        Command::Halt(HaltCommand { bench, command: None }) => halt::bench::run(bench),
        Command::Halt(HaltCommand { command: Some(command), .. }) => match *command {},
    }
}

/// What clap cannot express in attributes.
fn validated(cli: Cli) -> Result<Cli, clap::Error> {
    if let Command::Halt(HaltCommand { bench, command: None }) = &cli.command
        && bench.json == Some(Destination::Stdout)
        && bench.html == Some(Destination::Stdout)
    {
        return Err(Cli::command().error(
            ErrorKind::ArgumentConflict,
            "only one of --json and --html can go to standard output",
        ));
    }
    Ok(cli)
}

/// A usage error as one line: clap's message without the usage text after it.
fn usage_line(error: &clap::Error) -> String {
    let text = error.to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "error: a subcommand is missing; --help lists them".to_owned();
    }
    let message: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    message.join(" ")
}

/// A positive, finite number of seconds, at most a day.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("seconds above 0 and at most 86400 are wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, String> {
        Cli::try_parse_from(line.split(' ')).and_then(validated).map_err(|error| usage_line(&error))
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn halt_alone_is_the_benchmark() {
        let Command::Halt(halt) = parse("testbed halt --seconds 2.5 --json -").unwrap().command
        else {
            panic!("not halt");
        };
        assert!(halt.command.is_none());
        assert_eq!(halt.bench.seconds, Some(2.5));
        assert_eq!(halt.bench.json, Some(Destination::Stdout));
        assert_eq!(halt.bench.backend, Backend::Auto);
    }

    #[test]
    fn usage_errors_are_one_line() {
        for line in
            ["testbed", "testbed halt --seconds 0", "testbed halt --nope", "testbed probe --json"]
        {
            let message = parse(line).unwrap_err();
            assert!(message.starts_with("error: "), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        assert!(parse("testbed halt --seconds nan").is_err());
        assert!(parse("testbed halt --seconds inf").is_err());
    }

    #[test]
    fn two_reports_cannot_share_standard_output() {
        let message = parse("testbed halt --json - --html -").unwrap_err();
        assert!(message.contains("standard output"), "{message}");
    }
}
