// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `cargo xtask test`: every test that this host can run.

use std::fs;
use std::path::Path;

use crate::features::{self, Warnings};
use crate::session::Session;
use crate::{fuzz, loom, no_std};

pub(crate) fn steps(session: &mut Session, warnings: Warnings) {
    let workspace = &session.workspace;
    let tests = workspace.cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    let benches = workspace.cargo(["test", "--package", "benches", "--benches"]);

    session.run_tests("tests", tests);
    long_tests(session);
    features::steps(session, warnings);
    no_std::steps(session);
    loom::steps(session);
    fuzz::replay_corpora(session);
    session.run("benchmarks, each once", benches);
}

/// The tests marked `#[ignore]`: many rounds of something, so optimised (LTO would only cost build
/// time), and only the packages that have some, since the profile rebuilds all dependencies.
fn long_tests(session: &mut Session) {
    let packages: Vec<_> = session
        .workspace
        .packages
        .iter()
        .filter(|package| package.name != "xtask" && has_ignored_tests(&package.folder))
        .map(|package| package.name.clone())
        .collect();
    if packages.is_empty() {
        return;
    }
    let mut command = session.workspace.cargo(["test", "--all-features", "--no-fail-fast"]);
    command.args(["--profile", "long-tests", "--lib", "--bins", "--tests"]);
    packages.iter().for_each(|name| {
        command.args(["--package", name]);
    });
    command.args(["--", "--ignored"]);
    session.run_tests("long tests", command);
}

/// Whether a Rust source below the folder has an ignored test.
fn has_ignored_tests(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return has_ignored_tests(&path);
        }
        path.extension().is_some_and(|extension| extension == "rs")
            && fs::read_to_string(&path).is_ok_and(|text| text.contains("#[ignore"))
    })
}
