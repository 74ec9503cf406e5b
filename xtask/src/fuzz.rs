// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `cargo xtask fuzz`: the targets of fuzz/, with cargo-fuzz and libFuzzer.
//!
//! The code under test is safe Rust, so the targets run without a sanitizer, and so they need no
//! nightly toolchain. What is found goes to fuzz/generated (not committed); fuzz/corpus is read.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::session::Session;
use crate::workspace::{Workspace, answers};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only this target.
    target: Option<String>,
    /// How long each target runs.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

pub(crate) fn run(session: &mut Session, arguments: &Arguments) -> Result<()> {
    let mut targets = targets(&session.workspace)?;
    if let Some(only) = &arguments.target {
        ensure!(targets.contains(only), "no target {only}; there are: {}", targets.join(", "));
        targets.retain(|target| target == only);
    }
    steps(session, &targets, arguments.seconds);
    Ok(())
}

/// A short run of every target: it builds, and the corpus and what is near it do no harm.
pub(crate) fn smoke(session: &mut Session, seconds: u32) {
    match targets(&session.workspace) {
        Ok(targets) => steps(session, &targets, seconds),
        Err(error) => session.check("fuzz targets", |_| Err(error)),
    }
}

/// The committed corpora as ordinary tests: these need neither cargo-fuzz nor a C++ compiler.
pub(crate) fn replay_corpora(session: &mut Session) {
    let mut command = session.workspace.cargo(["test", "--package", "fuzz-common"]);
    command.args(["--manifest-path", "fuzz/Cargo.toml", "--target-dir"]);
    command.arg(session.workspace.target.join("fuzz-replay"));
    session.run_tests("fuzz corpora", command);
}

fn steps(session: &mut Session, targets: &[String], seconds: u32) {
    if !answers(&mut session.workspace.command("c++")) {
        session.skip("fuzz", "libFuzzer needs a C++ compiler (c++)");
        return;
    }
    let tools = session.workspace.target.join("tools");
    let path = path_with(&tools.join("bin"));
    if !answers(session.workspace.cargo(["fuzz"]).env("PATH", &path)) {
        let mut install = session.workspace.cargo(["install", "--locked", "cargo-fuzz", "--root"]);
        install.arg(&tools);
        session.run("install cargo-fuzz", install);
    }
    for target in targets {
        match fuzz(&session.workspace, target, seconds) {
            Ok(mut command) => {
                command.env("PATH", &path);
                session.run_as_test(&format!("fuzz {target}, {seconds} s"), command);
            }
            Err(error) => session.check(&format!("fuzz {target}"), |_| Err(error)),
        }
    }
}

fn fuzz(workspace: &Workspace, target: &str, seconds: u32) -> Result<Command> {
    let generated = workspace.root.join("fuzz/generated").join(target);
    fs::create_dir_all(&generated).with_context(|| format!("{}", generated.display()))?;
    let mut command = workspace.cargo(["fuzz", "run", "--sanitizer", "none", target]);
    // The first folder is where new inputs go.
    command.arg(generated).arg(workspace.root.join("fuzz/corpus").join(target));
    command.arg("--").arg(format!("-max_total_time={seconds}"));
    command.args(["-timeout=10", "-rss_limit_mb=1024", "-verbosity=0", "-print_final_stats=1"]);
    let dictionary = workspace.root.join("fuzz/dictionaries").join(target);
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    Ok(command)
}

/// The names of the targets: the files of fuzz/fuzz_targets.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let mut targets = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem().and_then(|name| name.to_str())
        {
            targets.push(name.into());
        }
    }
    targets.sort();
    Ok(targets)
}

fn path_with(folder: &std::path::Path) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [PathBuf::from(folder)].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).unwrap_or(path)
}
