// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `testbed halt record|replay|evaluate` as a user runs them.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

const RECORDED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../halt-trace/tests/data/kvm-6.18-halt-poll-200us.trace");

fn testbed() -> Command {
    Command::new(env!("CARGO_BIN_EXE_testbed"))
}

fn halt(args: &[&str]) -> Output {
    testbed().arg("halt").args(args).stdin(Stdio::null()).output().unwrap()
}

fn rows(output: &Output) -> Vec<Value> {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The failure as users meet it: the exit code, and one line that begins with `error: `.
fn failure(output: &Output) -> (i32, String) {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    let errors: Vec<_> = text.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    let message = errors[0].strip_prefix("error: ").unwrap();
    (output.status.code().unwrap(), message.to_owned())
}

fn file(directory: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = directory.path().join("a.trace");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn replay_of_the_recorded_trace_has_no_mismatch() {
    let output = halt(&["replay", RECORDED, "--json", "-"]);
    assert!(output.status.success(), "{output:?}");
    let rows = rows(&output);
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["file"], RECORDED);
    assert_eq!(rows[0]["halts"], 1565);
    assert_eq!(rows[0]["mismatches"], 0);
}

#[test]
fn a_mismatch_is_listed_by_line_and_exits_with_1() {
    let text = fs::read_to_string(RECORDED).unwrap();
    let wrong = text.replacen("halt_poll_ns 10000 (grow 0)", "halt_poll_ns 10001 (grow 0)", 1);
    let directory = tempfile::tempdir().unwrap();
    let output = halt(&["replay", file(&directory, &wrong).to_str().unwrap()]);
    assert_eq!(failure(&output).0, 1);
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.contains("line 4: the policy grows 0 to 10000"), "{listed}");
}

#[test]
fn wrong_parameters_on_the_command_line_are_mismatches() {
    let output = halt(&["replay", RECORDED, "--shrink", "0", "--json", "-"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(rows(&output)[0]["mismatches"].as_u64().unwrap() > 0);
}

#[test]
fn bad_files_are_failures_with_the_line() {
    let directory = tempfile::tempdir().unwrap();
    for (text, told) in [
        ("kvm_vcpu_wakeup: wait time x ns, polling valid\n", "line 1: halt time is not a number"),
        ("# halt_poll_ns=-1\n", "line 1: halt_poll_ns is not a number"),
        ("\n\nrubbish\n", "line 3: neither an event nor a comment"),
        ("", "no kvm_vcpu_wakeup line"),
        ("kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n", "no kvm_vcpu_wakeup line"),
    ] {
        let path = file(&directory, text);
        for command in ["replay", "evaluate"] {
            let (code, message) = failure(&halt(&[command, path.to_str().unwrap()]));
            assert_eq!(code, 1);
            assert!(message.contains(told), "{message}");
        }
    }
    for command in ["replay", "evaluate"] {
        assert_eq!(failure(&halt(&[command, "/nonexistent"])).0, 1);
        assert_eq!(failure(&halt(&[command, "/"])).0, 1);
    }
}

#[test]
fn wrong_command_lines_exit_with_2() {
    for args in [
        &["replay"][..],
        &["evaluate"],
        &["record"],
        &["evaluate", "--suite", "--block-cost-ns", "0"],
        &["evaluate", "--suite", "--block-cost-ns", "5,"],
        &["evaluate", "--suite", "--seed", "-1"],
        &["evaluate", RECORDED, "--halt-poll-ns", "4294967296"],
        &["record", "--out", "x", "--seconds", "0"],
        &["record", "--out", "x", "--pid"],
        &["--json", "-", "--html", "-"],
        &["nope"],
    ] {
        assert_eq!(failure(&halt(args)).0, 2, "{args:?}");
    }
}

/// The figures: Adaptive pays at most 1.10 times the clairvoyant and 0.6 times the kernel.
#[test]
fn evaluate_gives_the_rows_and_adaptive_keeps_its_promise() {
    let output = halt(&["evaluate", RECORDED, "--json", "-"]);
    assert!(output.status.success(), "{output:?}");
    let rows = rows(&output);
    let mean = |policy: &str| {
        let ratios: Vec<f64> = rows
            .iter()
            .filter(|row| row["policy"] == policy)
            .map(|row| row["cost_ratio"].as_f64().unwrap())
            .collect();
        assert_eq!(ratios.len(), 3, "{policy}");
        ratios.iter().product::<f64>().cbrt()
    };
    for policy in ["never", "always", "fixed", "kernel", "adaptive"] {
        assert!(mean(policy) >= 1.0);
    }
    assert!((3.1..3.3).contains(&mean("kernel")), "{}", mean("kernel"));
    assert!(mean("adaptive") <= 1.10, "{}", mean("adaptive"));
    assert!(mean("adaptive") <= 0.6 * mean("kernel"));
    for row in &rows {
        assert_eq!(row["file"], RECORDED);
        assert!(row["regret_ratio"].is_f64());
        assert!(row["polled_ns"].is_u64());
        assert!(row["blocks"].is_u64());
    }
}

#[test]
fn the_suite_depends_on_the_seed_only() {
    let suite = |seed: &str| {
        halt(&["evaluate", "--suite", "--seed", seed, "--halts", "50", "--json", "-"]).stdout
    };
    assert_eq!(suite("7"), suite("7"));
    assert_ne!(suite("7"), suite("8"));
}

#[test]
fn the_default_seed_is_printed() {
    let output = halt(&["evaluate", "--suite", "--halts", "10"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("seed 1\n"));
}

#[test]
fn a_closed_standard_output_is_no_failure() {
    let mut child = testbed()
        .args(["halt", "evaluate", "--suite", "--halts", "10"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

/// Whether this host can record; if not, the test that asks is reported as skipped.
#[test]
fn a_closed_standard_output_hides_no_mismatch() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("rows.json");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = testbed()
        .args(["halt", "replay", RECORDED, "--halt-poll-ns", "50000", "--json"])
        .arg(&json)
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    assert_eq!(failure(&output).0, 1);
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_ne!(rows[0]["mismatches"], 0);
}

fn can_record(test: &str) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("probe.trace");
    let output = halt(&["record", "--seconds", "0.1", "--out", out.to_str().unwrap()]);
    if !output.status.success() {
        skipped::skip(test, &failure(&output).1);
    }
    output.status.success()
}

fn assert_replays(path: &Path) {
    let output = halt(&["replay", path.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
}

/// The oracle: this very kernel's windows are ours, below its first step, at the odd ceiling
/// of F04, and far above.
#[test]
fn live_traces_replay_without_a_mismatch_at_every_ceiling() {
    if !can_record("live_traces_replay_without_a_mismatch_at_every_ceiling") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for ceiling in ["5000", "11000", "50000", "200000", "1000000"] {
        let path = directory.path().join(ceiling);
        let out = path.to_str().unwrap();
        let output = halt(&["record", "--seconds", "0.7", "--ceiling-ns", ceiling, "--out", out]);
        assert!(output.status.success(), "{output:?}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("# halt_poll_ns={ceiling} ")), "{ceiling}");
        // A vCPU that sleeps first is not back in 5 us, so its window may stay 0.
        let both_ways = text.contains("(grow ") && text.contains("(shrink ");
        assert!(both_ways || ceiling.len() < 6, "{ceiling}: one-sided load");
        assert_replays(&path);
    }
}

#[test]
fn an_interrupted_recording_is_whole_and_leaves_nothing_behind() {
    if !can_record("an_interrupted_recording_is_whole_and_leaves_nothing_behind") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.trace");
    let child = testbed()
        .args(["halt", "record", "--seconds", "60", "--out", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(800));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    // A note would say that the instance could not be removed.
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_replays(&path);
}
