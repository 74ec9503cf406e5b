// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `cargo xtask test`: every test that this host can run.

use crate::features::{self, Warnings};
use crate::session::Session;
use crate::{fuzz, loom, no_std};

pub(crate) fn steps(session: &mut Session, warnings: Warnings) {
    let workspace = &session.workspace;
    let tests = workspace.cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    // Optimised, since these are many rounds of something; LTO would only cost build time.
    let long = workspace.cargo([
        "test",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
        "--profile",
        "long-tests",
        "--lib",
        "--bins",
        "--tests",
        "--",
        "--ignored",
    ]);
    let benches = workspace.cargo(["test", "--package", "benches", "--benches"]);

    session.run_tests("tests", tests);
    session.run("long tests", long);
    features::steps(session, warnings);
    no_std::steps(session);
    loom::steps(session);
    fuzz::replay_corpora(session);
    session.run("benchmarks, each once", benches);
}
