// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Policies and mechanisms side by side in one run.

use crate::cli::HaltArgs;

/// Runs the benchmark and reports one row per mechanism and policy.
///
/// # Errors
///
/// Always, for now: the benchmark is not built yet.
pub fn run(_args: &HaltArgs) -> anyhow::Result<()> {
    anyhow::bail!("the benchmark of `testbed halt` is not built yet")
}
