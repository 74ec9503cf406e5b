// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `cargo xtask ci`: what has to pass before a change lands, quick checks first.

use std::process::ExitCode;

use anyhow::Result;

use crate::accepted::AcceptedSkips;
use crate::features::Warnings;
use crate::session::Session;
use crate::workspace::{Package, answers};
use crate::{commits, fuzz, headers, package, test};

/// How long each fuzz target runs.
const FUZZ_SECONDS: u32 = 20;

pub(crate) fn run(mut session: Session) -> Result<ExitCode> {
    let accepted = AcceptedSkips::load(&session.workspace.root)?;

    session.check("licence headers", headers::check);
    session.check("commit subjects", commits::check);
    format_and_lint(&mut session);
    session.check("packages", package::check);
    minimum_rust(&mut session);
    test::steps(&mut session, Warnings::Deny);
    fuzz::smoke(&mut session, FUZZ_SECONDS);

    session.finish(Some(&accepted))
}

fn format_and_lint(session: &mut Session) {
    let workspace = &session.workspace;
    let clippy = ["clippy", "--all-targets", "--all-features", "--workspace"];
    let fuzz = ["--manifest-path", "fuzz/Cargo.toml", "--package", "fuzz-common", "--target-dir"];
    let deny = ["--", "-D", "warnings"];

    let format = workspace.cargo(["fmt", "--all", "--check"]);
    let format_fuzz =
        workspace.cargo(["fmt", "--all", "--check", "--manifest-path", "fuzz/Cargo.toml"]);
    let mut lint = workspace.cargo(clippy);
    lint.args(deny);
    let mut lint_fuzz = workspace.cargo(["clippy", "--all-targets"]);
    lint_fuzz.args(fuzz).arg(workspace.target.join("fuzz-replay")).args(deny);
    let mut docs = workspace.cargo(["doc", "--workspace", "--all-features", "--no-deps"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");

    session.run("format", format);
    session.run("format, fuzz", format_fuzz);
    session.run("clippy", lint);
    session.run("clippy, fuzz", lint_fuzz);
    session.run("docs", docs);
}

/// The library crates build with the oldest Rust that they promise, where rustup has it.
fn minimum_rust(session: &mut Session) {
    let promises = |package: &Package| package.published && package.rust_version.is_some();
    let packages: Vec<_> =
        session.workspace.packages.iter().filter(|package| promises(package)).cloned().collect();
    let Some(version) = packages.first().and_then(|package| package.rust_version.clone()) else {
        return;
    };
    let name = "minimum Rust version";
    if !answers(session.workspace.command("rustup").args(["run", &version, "cargo"])) {
        session.skip(name, &format!("rustup has no toolchain {version}"));
        return;
    }
    let mut command = session.workspace.command("rustup");
    command.args(["run", &version, "cargo", "check", "--all-features", "--target-dir"]);
    command.arg(session.workspace.target.join("minimum-rust"));
    for package in packages {
        command.args(["--package", &package.name]);
    }
    session.run(name, command);
}
