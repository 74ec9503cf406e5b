// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `cargo xtask bench`: the criterion benchmarks.

use clap::Args;

use crate::session::Session;

#[derive(Args)]
pub(crate) struct Arguments {
    /// A second per benchmark instead of eight: rough figures.
    #[arg(long)]
    quick: bool,
    /// Only benchmarks with this in their name.
    filter: Option<String>,
}

pub(crate) fn step(session: &mut Session, arguments: &Arguments) {
    let mut command = session.workspace.cargo(["bench", "--package", "benches", "--bench", "main"]);
    command.arg("--");
    if arguments.quick {
        command.args(["--warm-up-time", "0.2", "--measurement-time", "0.8"]);
    }
    command.args(arguments.filter.as_deref());
    session.run("benchmarks", command);
}
