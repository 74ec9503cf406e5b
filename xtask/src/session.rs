// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A run of xtask: steps one after the other, what each one said, and the closing summary.
//!
//! Every step runs, whatever became of those before it: one run shows all there is to mend.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::accepted::AcceptedSkips;
use crate::libtest::Tally;
use crate::summary::{Skip, Step, Summary, Verdict};
use crate::workspace::Workspace;

/// How long one step may take where nobody watches: a test that hangs must not hang CI.
const TIME_LIMIT: Duration = Duration::from_secs(25 * 60);

/// The tests that a step's command runs.
#[derive(Clone, Copy)]
enum Tests {
    /// Those it reports, or none.
    Any,
    /// Those it reports, at least one.
    Some,
    /// It is one.
    Itself,
}

pub(crate) struct Session {
    pub(crate) workspace: Workspace,
    /// Where tests write that they were skipped.
    skip_log: PathBuf,
    /// Standard output is a terminal, so somebody watches, and can interrupt.
    watched: bool,
    summary: Summary,
}

impl Session {
    pub(crate) fn begin(workspace: Workspace) -> Result<Self> {
        let folder = workspace.target.join("xtask");
        fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
        let skip_log = folder.join("skipped-tests");
        File::create(&skip_log).with_context(|| format!("{}", skip_log.display()))?;
        let watched = std::io::stdout().is_terminal();
        Ok(Self { workspace, skip_log, watched, summary: Summary::default() })
    }

    /// A step that succeeds if the command does.
    pub(crate) fn run(&mut self, name: &str, command: Command) {
        self.step(name, command, Tests::Any);
    }

    /// The same for a command that runs tests: one that ran none has failed.
    pub(crate) fn run_tests(&mut self, name: &str, command: Command) {
        self.step(name, command, Tests::Some);
    }

    /// The same for a command that is a test, without Rust's harness.
    pub(crate) fn run_as_test(&mut self, name: &str, command: Command) {
        self.step(name, command, Tests::Itself);
    }

    fn step(&mut self, name: &str, command: Command, tests: Tests) {
        self.announce(name, Some(&command));
        let begin = Instant::now();
        let log_before = self.log_length();
        let mut tally = Tally::default();
        let mut verdict = match self.execute(command, &mut tally) {
            Ok(()) => Verdict::Ok,
            Err(error) => Verdict::Failed(format!("{error:#}")),
        };
        if verdict == Verdict::Ok {
            match tests {
                Tests::Some if tally.passed == 0 => {
                    verdict = Verdict::Failed("it ran no test".into());
                }
                Tests::Itself => tally.passed = 1,
                Tests::Any | Tests::Some => {}
            }
        }
        let skips = self.skips_since(log_before);
        if let Verdict::Failed(reason) = &verdict {
            println!("==== {name}: FAILED: {reason}");
        }
        let seconds = begin.elapsed().as_secs_f64();
        self.summary.steps.push(Step { name: name.into(), verdict, seconds, tally, skips });
    }

    /// A step of xtask's own: it succeeds if `check` finds nothing.
    pub(crate) fn check(
        &mut self,
        name: &str,
        check: impl FnOnce(&Workspace) -> Result<Vec<String>>,
    ) {
        self.announce(name, None);
        let begin = Instant::now();
        let verdict = match check(&self.workspace) {
            Ok(findings) if findings.is_empty() => Verdict::Ok,
            Ok(findings) => {
                findings.iter().for_each(|finding| println!("{finding}"));
                Verdict::Failed(format!("{} finding(s)", findings.len()))
            }
            Err(error) => Verdict::Failed(format!("{error:#}")),
        };
        if let Verdict::Failed(reason) = &verdict {
            println!("==== {name}: FAILED: {reason}");
        }
        let seconds = begin.elapsed().as_secs_f64();
        let step = Step { name: name.into(), verdict, seconds, ..Step::default() };
        self.summary.steps.push(step);
    }

    /// A step that this host cannot take.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        self.announce(name, None);
        println!("SKIPPED: {reason}");
        let skip = Skip { name: name.into(), reason: reason.into() };
        let step = Step {
            name: name.into(),
            verdict: Verdict::Skipped,
            skips: vec![skip],
            ..Step::default()
        };
        self.summary.steps.push(step);
    }

    /// Prints the summary. `accepted`: the skips that do not fail the run; without a list, all.
    pub(crate) fn finish(self, accepted: Option<&AcceptedSkips>) -> Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        let passed = self.summary.print(&mut out, accepted)?;
        out.flush()?;
        Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn announce(&self, name: &str, command: Option<&Command>) {
        println!("\n==== {name}");
        if let Some(command) = command {
            println!("$ {}", shell_words(command));
        }
    }

    /// Runs the command; its output goes to ours as it comes, and through `tally`.
    fn execute(&self, mut command: Command, tally: &mut Tally) -> Result<()> {
        let (reader, writer) = std::io::pipe()?;
        command
            .env(skipped::LOG_VARIABLE, &self.skip_log)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        if self.watched && std::env::var_os("CARGO_TERM_COLOR").is_none() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        if !self.watched {
            // A group of its own can be ended whole; on a terminal it would not see Ctrl-C.
            command.process_group(0);
        }
        let mut child = command.spawn().context("it cannot be started")?;
        // The command holds the pipe's writing end: without it the reader never sees the end.
        drop(command);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let copier =
                scope.spawn(|| copy_lines(BufReader::new(reader), std::io::stdout(), tally));
            let mut ended = self.watched;
            while !ended && !copier.is_finished() {
                std::thread::sleep(Duration::from_millis(20));
                if begin.elapsed() > TIME_LIMIT {
                    end_group(&child);
                    ended = true;
                }
            }
            copier.join().unwrap_or_else(|_| Err(std::io::Error::other("the copier panicked")))
        })?;
        let status = child.wait()?;
        let overdue = !self.watched && begin.elapsed() > TIME_LIMIT;
        anyhow::ensure!(!overdue, "ended after {} minutes", TIME_LIMIT.as_secs() / 60);
        anyhow::ensure!(status.success(), "{status}");
        Ok(())
    }

    fn log_length(&self) -> usize {
        fs::read(&self.skip_log).map_or(0, |log| log.len())
    }

    fn skips_since(&self, start: usize) -> Vec<Skip> {
        let log = fs::read_to_string(&self.skip_log).unwrap_or_default();
        log.get(start..).unwrap_or_default().lines().filter_map(Skip::parse).collect()
    }
}

/// Copies lines as they come, and counts what they say.
fn copy_lines(
    mut from: impl BufRead,
    mut to: impl Write,
    tally: &mut Tally,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        to.write_all(&line)?;
        to.flush()?;
        tally.line(String::from_utf8_lossy(&line).trim_end());
    }
}

/// Ends the child and all it started. Safe Rust has no killpg: the shell's builtin does it.
fn end_group(child: &Child) {
    let kill = format!("kill -KILL -{}", child.id());
    if let Err(error) = Command::new("sh").args(["-c", &kill]).status() {
        eprintln!("{kill}: {error}");
    }
}

/// The command as one would type it.
fn shell_words(command: &Command) -> String {
    let shown = command.get_envs().filter(|(name, _)| *name != "PATH");
    let variables = shown.filter_map(|(name, value)| {
        Some(format!("{}={:?}", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    variables.chain([program]).chain(arguments).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_it_would_be_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        command
            .args(["test", "--lib"])
            .env("RUSTFLAGS", "--cfg loom")
            .env("PATH", "/x")
            .env_remove("HOME");
        assert_eq!(shell_words(&command), "RUSTFLAGS=\"--cfg loom\" cargo test --lib");
    }

    #[test]
    fn output_that_is_not_utf8_is_still_counted() {
        let mut tally = Tally::default();
        let output = b"\xff\xfe\ntest result: ok. 2 passed; 0 failed\nno newline";
        let mut copy = Vec::new();
        copy_lines(&output[..], &mut copy, &mut tally).unwrap();
        assert_eq!(copy, output);
        assert_eq!(tally.passed, 2);
    }
}
