// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `testbed probe`, as its users run it.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use testbed::probe::{Finding, Trial};

const TESTBED: &str = env!("CARGO_BIN_EXE_testbed");

fn findings(output: &Output) -> Vec<Finding> {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn named<'a>(findings: &'a [Finding], name: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.name == name).unwrap()
}

/// What can be told of any host.
fn check_in_general(findings: &[Finding]) {
    let names: BTreeSet<_> = findings.iter().map(|finding| &finding.name).collect();
    assert_eq!(names.len(), findings.len(), "each name once");
    for finding in findings {
        assert!(!finding.reason.is_empty(), "{finding:?}");
        assert!(!finding.reason.contains('\n'), "{finding:?}");
    }
    for name in ["kvm", "kvm_kind", "relax_spin_hint", "cpus", "tick_hz", "tracefs", "btf"] {
        named(findings, name);
    }
    for trial in Trial::ALL {
        named(findings, trial.name());
    }
    assert!(named(findings, "relax_spin_hint").available);
    assert!(named(findings, "cpus").available);
}

#[test]
fn the_probe_answers_everything_in_bounded_time() {
    let begin = Instant::now();
    let output = Command::new(TESTBED).args(["probe", "--json", "-"]).output().unwrap();
    assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
    let findings = findings(&output);
    check_in_general(&findings);
    if !named(&findings, "kvm").available {
        skipped::skip("the_probe_answers_everything_in_bounded_time", "no KVM: its part only");
        return;
    }
    for name in ["kvm_create_vm", "halt_user_space_us", "exit_ns", "user_mode_mips"] {
        let finding = named(&findings, name);
        assert!(finding.available, "{finding:?}");
    }
}

#[test]
fn json_to_a_file_leaves_the_table_on_standard_output() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = Command::new(TESTBED).args(["probe", "--json"]).arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let rows: Vec<Finding> = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table.lines().count(), rows.len());
    for (line, row) in table.lines().zip(&rows) {
        assert!(line.starts_with(&*row.name), "{line} {row:?}");
    }
}

/// Runs the probe where `/dev/kvm` is what `shell` makes it, in a mount namespace of its own.
fn without_kvm(test: &str, shell: &str) -> Option<Output> {
    let script = format!("set -e; {shell}; exec \"$0\" probe --json -");
    let run = |program: &str| {
        Command::new("unshare").args(["-rm", "sh", "-c", program, TESTBED]).output()
    };
    // Whether it can be done at all.
    match run(&format!("set -e; {shell}")) {
        Ok(output) if output.status.success() => Some(run(&script).unwrap()),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            skipped::skip(test, &format!("no mount namespace: {}", why.trim()));
            None
        }
        Err(error) => {
            skipped::skip(test, &format!("unshare cannot be run: {error}"));
            None
        }
    }
}

#[test]
fn without_a_kvm_device_the_rest_is_answered() {
    let hide = "d=$(mktemp -d); mount -t tmpfs none $d; touch $d/null; \
                mount --bind /dev/null $d/null; mount --rbind $d /dev";
    let Some(output) = without_kvm("without_a_kvm_device_the_rest_is_answered", hide) else {
        return;
    };
    let findings = findings(&output);
    check_in_general(&findings);
    for name in ["kvm", "halt_in_kernel_us", "halt_user_space_us", "hypercall_returns", "exit_ns"] {
        let finding = named(&findings, name);
        assert!(!finding.available && finding.reason.contains("/dev/kvm"), "{finding:?}");
    }
}

#[test]
fn a_device_that_is_no_kvm_is_told_apart() {
    if !std::path::Path::new("/dev/kvm").exists() {
        skipped::skip("a_device_that_is_no_kvm_is_told_apart", "there is no /dev/kvm to replace");
        return;
    }
    let replace = "mount --bind /dev/null /dev/kvm";
    let Some(output) = without_kvm("a_device_that_is_no_kvm_is_told_apart", replace) else {
        return;
    };
    let findings = findings(&output);
    check_in_general(&findings);
    assert!(named(&findings, "kvm").reason.contains("API version -1"), "{findings:?}");
    assert!(!named(&findings, "halt_in_kernel_us").available);
}
