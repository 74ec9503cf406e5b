// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What can be asked for on the command line, and how failures are told.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use halt_trace::ParamUpdate;

use crate::probe::Trial;
use crate::report::destination::{Destination, StdoutClosed};
use crate::report::diagnostic;
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
    /// What a child process of the probe does: one thing that may hang.
    #[arg(long, hide = true, value_enum, conflicts_with = "json")]
    pub trial: Option<Trial>,
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
#[derive(Debug, Subcommand)]
pub enum HaltSubcommand {
    /// Records the live kernel's halts, those of the testbed's own guest unless told otherwise.
    Record(RecordArgs),
    /// Compares the kernel's recorded windows with KernelPolicy's; fails if any differs.
    Replay(ReplayArgs),
    /// Compares each policy's cost with the clairvoyant's and the best fixed threshold's.
    Evaluate(EvaluateArgs),
}

/// Arguments of `testbed halt record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Where the trace goes; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub out: Destination,
    /// How long to record, in seconds; SIGINT ends it earlier.
    #[arg(
        long,
        value_name = "S",
        default_value_t = 5.0,
        value_parser = seconds,
        allow_negative_numbers = true
    )]
    pub seconds: f64,
    /// The VM's own ceiling: of our guest, which is given it; with --pid what its VMM gave it by
    /// KVM_CAP_HALT_POLL, as the kernel does not tell [default: the host's].
    #[arg(long, value_name = "NS")]
    pub ceiling_ns: Option<u32>,
    /// Record the VMs of these processes and run no guest.
    #[arg(long, value_name = "PID", num_args = 1..)]
    pub pid: Vec<u32>,
}

/// Arguments of `testbed halt replay`.
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Traces with kvm_halt_poll_ns and kvm_vcpu_wakeup lines; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the results as JSON to FILE, or to standard output if it is `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
    /// Parameters.
    #[command(flatten)]
    pub params: ParamArgs,
}

/// Arguments of `testbed halt evaluate`.
#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// Traces with kvm_vcpu_wakeup lines; `-` is standard input.
    #[arg(required_unless_present = "suite", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Evaluate the synthetic workloads, too.
    #[arg(long)]
    pub suite: bool,
    /// The seed that the synthetic workloads are drawn from.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "suite")]
    pub seed: u64,
    /// How many halts each synthetic workload has.
    #[arg(
        long,
        value_name = "N",
        default_value_t = halt_trace::suite::HALTS,
        requires = "suite",
        value_parser = halts
    )]
    pub halts: usize,
    /// What blocking costs; several may be given, with commas between them.
    #[arg(
        long,
        value_name = "B",
        value_delimiter = ',',
        default_values_t = [5_000, 20_000, 50_000],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub block_cost_ns: Vec<u32>,
    /// The longest poll of a policy that learns [default: 1 ms, or 32 B if that is more].
    #[arg(long, value_name = "NS")]
    pub ceiling_ns: Option<u32>,
    /// Write the results as JSON to FILE, or to standard output if it is `-`.
    #[arg(long, value_name = "FILE")]
    pub json: Option<Destination>,
    /// Parameters.
    #[command(flatten)]
    pub params: ParamArgs,
}

/// The kernel's parameters for a trace; each wins over what the trace says.
#[derive(Clone, Copy, Debug, Args)]
pub struct ParamArgs {
    /// The ceiling, instead of the trace's.
    #[arg(long, value_name = "NS")]
    pub halt_poll_ns: Option<u32>,
    /// The growth factor, instead of the trace's.
    #[arg(long, value_name = "FACTOR")]
    pub grow: Option<u32>,
    /// The first step and floor, instead of the trace's.
    #[arg(long, value_name = "NS")]
    pub grow_start: Option<u32>,
    /// The shrink divisor, instead of the trace's.
    #[arg(long, value_name = "DIVISOR")]
    pub shrink: Option<u32>,
}

impl ParamArgs {
    /// As the trace crate knows them.
    pub fn update(self) -> ParamUpdate {
        let Self { halt_poll_ns, grow, grow_start, shrink } = self;
        ParamUpdate { halt_poll_ns, grow, grow_start, shrink }
    }
}

/// Arguments of the benchmark `testbed halt`.
#[derive(Debug, Args)]
pub struct HaltArgs {
    /// How long to measure, in seconds; up to half of it more to repeat what others disturbed
    /// [default: 60].
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
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
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args).and_then(validated) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            // --help and --version; a closed pipe is no failure.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            diagnostic::error(&usage(&error));
            return ExitCode::from(2);
        }
    };
    match run(&cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<StdoutClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            diagnostic::error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Probe(args) => probe::run(args),
        Command::Halt(HaltCommand { bench, command: None }) => halt::bench::run(bench),
        Command::Halt(HaltCommand { command: Some(command), .. }) => match command {
            HaltSubcommand::Record(args) => halt::record::run(args),
            HaltSubcommand::Replay(args) => halt::replay::run(args),
            HaltSubcommand::Evaluate(args) => halt::evaluate::run(args),
        },
    }
}

/// What clap cannot express in attributes.
fn validated(cli: Cli) -> Result<Cli, clap::Error> {
    if let Command::Halt(HaltCommand { bench, command: None }) = &cli.command
        && bench.json.is_some()
        && bench.json == bench.html
    {
        return Err(Cli::command().error(
            ErrorKind::ArgumentConflict,
            "--json and --html cannot both go to the same file or to standard output",
        ));
    }
    Ok(cli)
}

/// A usage error as one line: clap's message without the usage text after it.
fn usage(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "a subcommand is missing; --help lists them".to_owned();
    }
    let text = error.to_string();
    let message: Vec<&str> = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let message = message.join(" ");
    message.strip_prefix("error: ").unwrap_or(&message).to_owned()
}

/// A positive, finite number of seconds, at most a day.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("seconds above 0 and at most 86400 are wanted".to_owned()),
    }
}

/// As many halts as fit into memory, and at least one.
fn halts(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(halts) if (1..=10_000_000).contains(&halts) => Ok(halts),
        _ => Err("1 to 10000000 halts are wanted".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, String> {
        Cli::try_parse_from(line.split(' ')).and_then(validated).map_err(|error| usage(&error))
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
            assert!(!message.starts_with("error"), "{message}");
            assert_eq!(message.lines().count(), 1, "{message}");
        }
        assert!(parse("testbed halt --seconds nan").is_err());
        assert!(parse("testbed halt --seconds inf").is_err());
        assert!(parse("testbed halt --seconds -1").unwrap_err().contains("above 0"));
        for halts in ["0", "10000001", "18446744073709551615"] {
            assert!(parse(&format!("testbed halt evaluate --suite --halts {halts}")).is_err());
        }
    }

    #[test]
    fn two_reports_cannot_share_standard_output() {
        let message = parse("testbed halt --json - --html -").unwrap_err();
        assert!(message.contains("standard output"), "{message}");
    }
}
