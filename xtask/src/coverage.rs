// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `cargo xtask coverage`: line coverage of the library crates by their own unit and integration
//! tests, compared with coverage_config_ARCH.json as rust-vmm's CI does: a drift of more than half
//! a point either way fails.
//!
//! As there, the tests' own lines count when they are in the same file. Not part of CI: everything
//! is built anew.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};

use crate::llvm::Llvm;
use crate::session::Session;
use crate::workspace::Workspace;

/// How far the score may drift, in points.
const DRIFT: f64 = 0.5;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Writes the score to coverage_config_ARCH.json.
    #[arg(long)]
    update: bool,
}

pub(crate) fn step(session: &mut Session, arguments: &Arguments) {
    let update = arguments.update;
    session.check("coverage", |workspace| {
        let config_file =
            workspace.root.join(format!("coverage_config_{}.json", std::env::consts::ARCH));
        let config: Value = serde_json::from_slice(
            &fs::read(&config_file).with_context(|| format!("{}", config_file.display()))?,
        )?;
        let lines = measure(workspace, config["exclude_path"].as_str().unwrap_or_default())?;
        let score = print(&lines);
        if update {
            write(&config_file, config, score)?;
            return Ok(Vec::new());
        }
        Ok(drift(&config, score).into_iter().collect())
    });
}

/// Lines that can be covered, and that were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lines {
    count: u64,
    covered: u64,
}

impl Lines {
    fn percent(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let (count, covered) = (self.count.max(1) as f64, self.covered as f64);
        100.0 * covered / count
    }
}

/// Per file, as crate and path below it.
type Files = BTreeMap<(String, String), Lines>;

/// Builds and runs the tests with instrumentation and reads what they covered.
fn measure(workspace: &Workspace, exclude: &str) -> Result<Files> {
    let llvm = Llvm::find(workspace)?;
    let folder = workspace.target.join("coverage");
    let profiles = folder.join("profiles");
    if profiles.exists() {
        fs::remove_dir_all(&profiles)?;
    }
    let test = |arguments: &[&str]| {
        let mut command = workspace.cargo(["test", "--all-features", "--lib", "--tests"]);
        for package in workspace.published() {
            command.args(["--package", &package.name]);
        }
        command.args(arguments).arg("--target-dir").arg(&folder);
        command.env("RUSTFLAGS", "-C instrument-coverage");
        // Build scripts are instrumented too: not into the source tree.
        command.env("LLVM_PROFILE_FILE", profiles.join("%p-%m.profraw"));
        command.stdin(Stdio::null());
        command
    };
    let binaries = executables(test(&["--no-run", "--message-format=json"]))?;
    ensure!(!binaries.is_empty(), "no test binaries");
    let status = test(&[]).status().context("cargo test")?;
    ensure!(status.success(), "the tests fail: {status}");

    let profile = folder.join("all.profdata");
    let raw: Vec<PathBuf> = fs::read_dir(&profiles)
        .context("no profiles")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    let mut merge = llvm.tool("llvm-profdata");
    merge.args(["merge", "--sparse", "--output"]).arg(&profile).args(raw);
    run(&mut merge)?;

    let mut export = llvm.tool("llvm-cov");
    export.args(["export", "--summary-only", "--instr-profile"]).arg(&profile);
    let mut binaries = binaries.iter();
    export.args(binaries.next());
    binaries.for_each(|binary| {
        export.arg("--object").arg(binary);
    });
    let exported: Value = serde_json::from_slice(&run(&mut export)?)?;
    let files = files(&exported, &workspace.root.join("crates"), exclude);
    ensure!(!files.is_empty(), "llvm-cov knows no file of the library crates");
    let published: Vec<_> = workspace.published().map(|package| &package.name).collect();
    Ok(files.into_iter().filter(|((name, _), _)| published.contains(&name)).collect())
}

/// The test binaries that cargo built.
fn executables(mut cargo: Command) -> Result<Vec<PathBuf>> {
    let output = cargo.stderr(Stdio::inherit()).output().context("cargo test --no-run")?;
    ensure!(output.status.success(), "the tests do not build: {}", output.status);
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let mut executables = Vec::new();
    for message in messages {
        let message = message?;
        if message["profile"]["test"] == true
            && let Some(path) = message["executable"].as_str()
        {
            executables.push(path.into());
        }
    }
    Ok(executables)
}

/// The files below `crates` in what llvm-cov exports, but those with one of the
/// `exclude` (separated by |) in their path.
fn files(exported: &Value, crates: &Path, exclude: &str) -> Files {
    let excluded = |path: &str| {
        exclude.split('|').map(str::trim).any(|part| !part.is_empty() && path.contains(part))
    };
    let mut files = Files::new();
    for file in exported["data"][0]["files"].as_array().into_iter().flatten() {
        let Some(path) = file["filename"].as_str() else { continue };
        let Ok(path) = Path::new(path).strip_prefix(crates) else { continue };
        let path = path.to_string_lossy();
        let Some((name, below)) = path.split_once('/') else { continue };
        // The tests of tests/ are not what is to be covered.
        if !below.starts_with("src/") || excluded(&path) {
            continue;
        }
        let number = |key: &str| file["summary"]["lines"][key].as_u64().unwrap_or(0);
        let lines = Lines { count: number("count"), covered: number("covered") };
        files.insert((name.into(), below.into()), lines);
    }
    files
}

/// Prints files and crates; the score of all.
fn print(files: &Files) -> f64 {
    let mut crates = BTreeMap::<&str, Lines>::new();
    let mut all = Lines::default();
    for ((name, path), lines) in files {
        println!("{:6.2} %  {name}/{path} ({} of {})", lines.percent(), lines.covered, lines.count);
        for sum in [crates.entry(name).or_default(), &mut all] {
            sum.count += lines.count;
            sum.covered += lines.covered;
        }
    }
    println!();
    for (name, lines) in crates {
        println!("{:6.2} %  {name} ({} of {} lines)", lines.percent(), lines.covered, lines.count);
    }
    println!("{:6.2} %  all library crates", all.percent());
    all.percent()
}

/// What is wrong with the score.
fn drift(config: &Value, score: f64) -> Option<String> {
    let Some(expected) = config["coverage_score"].as_f64() else {
        return Some("the configuration has no coverage_score".into());
    };
    if config["measured"] == false {
        println!("the configuration of this architecture was never measured: --update it");
        return None;
    }
    let drifted = (score - expected).abs() > DRIFT;
    drifted.then(|| {
        format!("{score:.2} % is more than {DRIFT} points from {expected} %: add tests or --update")
    })
}

fn write(file: &Path, mut config: Value, score: f64) -> Result<()> {
    let Some(fields) = config.as_object_mut() else { bail!("{} is no object", file.display()) };
    fields.insert("coverage_score".into(), json!((score * 100.0).round() / 100.0));
    fields.remove("measured");
    let text = serde_json::to_string_pretty(&config)?;
    fs::write(file, format!("{text}\n")).with_context(|| format!("{}", file.display()))
}

fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.stderr(Stdio::inherit()).output().context("LLVM's tool")?;
    ensure!(output.status.success(), "LLVM's tool: {}", output.status);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_crates_count_and_those_excluded_do_not() {
        let file = |name: &str, count: u64, covered: u64| json!({"filename": name, "summary": {"lines": {"count": count, "covered": covered}}});
        let exported = json!({"data": [{"files": [
            file("/w/crates/a/src/lib.rs", 10, 9),
            file("/w/crates/a/src/relax/aarch64.rs", 50, 0),
            file("/w/crates/a/tests/all.rs", 5, 5),
            file("/registry/x/src/lib.rs", 7, 7),
        ]}]});
        let files = files(&exported, Path::new("/w/crates"), "aarch64.rs|other.rs");
        let lines = Lines { count: 10, covered: 9 };
        assert_eq!(files, Files::from([(("a".into(), "src/lib.rs".into()), lines)]));
        assert!((lines.percent() - 90.0).abs() < 1e-9);
    }

    #[test]
    fn a_drift_either_way_is_a_finding() {
        let config = json!({"coverage_score": 90.0});
        assert!(drift(&config, 89.4).is_some());
        assert!(drift(&config, 90.6).is_some());
        assert_eq!(drift(&config, 90.5), None);
        assert_eq!(drift(&json!({"coverage_score": 0.0, "measured": false}), 50.0), None);
        assert!(drift(&json!({}), 50.0).is_some());
    }
}
