// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What this host offers and what not.

use crate::cli::ProbeArgs;

/// Probes the host and reports each finding with its reason.
///
/// # Errors
///
/// Always, for now: the probe is not built yet.
pub fn run(_args: &ProbeArgs) -> anyhow::Result<()> {
    anyhow::bail!("`testbed probe` is not built yet")
}
