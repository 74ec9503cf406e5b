// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The testbed's command line: 0 when all went well, 1 for a failure, 2 for a wrong command line.

use std::process::ExitCode;

use testbed::cli;

fn main() -> ExitCode {
    cli::main(std::env::args_os())
}
