// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What this host offers and what not, each with a reason.
//!
//! Whatever runs a guest, and may hang on an odd host, runs in a child process with a time-out.

mod child;
mod finding;
mod host;
mod kvm;
mod pv_features;
mod trial;
mod waiting;

pub use finding::{Finding, Value};
pub use trial::Trial;

use crate::cli::ProbeArgs;
use crate::report::destination::{Destination, print};
use crate::report::json;

/// Probes the host and reports each finding with its reason. A host without KVM is no failure.
///
/// # Errors
///
/// The report cannot be written.
pub fn run(args: &ProbeArgs) -> anyhow::Result<()> {
    if let Some(trial) = args.trial {
        return print(child::to_line(&trial.run())?.as_bytes());
    }
    if let Some(json) = &args.json {
        json.check()?;
    }
    let findings = all();
    json::write(args.json.as_ref(), &findings)?;
    if args.json != Some(Destination::Stdout) {
        print(finding::table(&findings).as_bytes())?;
    }
    Ok(())
}

/// Everything that is probed, in the order of the report.
pub fn all() -> Vec<Finding> {
    let mut findings = kvm::findings();
    findings.extend(Trial::ALL.map(child::run));
    findings.extend(waiting::findings());
    findings.extend(host::findings());
    findings
}
