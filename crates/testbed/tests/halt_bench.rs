// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The halt benchmark from the command line, as a user runs it.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::halt::kvm;

fn testbed(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_testbed")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Checks what holds for every row, whatever was measured.
fn check_rows(json: &str, backend: &str, rows: usize) -> Vec<Value> {
    let Value::Array(all) = serde_json::from_str(json).unwrap() else { panic!("{json}") };
    assert_eq!(all.len(), rows);
    for row in &all {
        assert_eq!(row["backend"], backend);
        assert!(["in-kernel", "user-space"].contains(&row["mechanism"].as_str().unwrap()));
        assert!(["steady", "bursty"].contains(&row["think"].as_str().unwrap()));
        let figure = |name: &str| row[name].as_f64().unwrap_or_else(|| panic!("{name}: {row}"));
        for name in ["idle_cpu_pct", "idle_250hz_cpu_pct"] {
            // A little more than a CPU: the clocks are read one after the other.
            assert!((0.0..130.0).contains(&figure(name)), "{row}");
        }
        assert!(figure("rr_p50_us") > 0.0 && figure("rr_p99_us") >= figure("rr_p50_us"), "{row}");
        assert!(figure("cpu_per_rr_us") > 0.0 && figure("wakeups_per_s") >= 0.0, "{row}");
    }
    all
}

fn figure(rows: &[Value], mechanism: &str, policy: &str, name: &str) -> f64 {
    let row = rows.iter().find(|row| row["mechanism"] == mechanism && row["policy"] == policy);
    row.unwrap()[name].as_f64().unwrap()
}

#[test]
fn threads_give_rows_on_standard_output_and_words_elsewhere() {
    let run = testbed(&["halt", "--backend", "threads", "--seconds", "2", "--json", "-"]);
    let (out, err) = (text(&run.stdout), text(&run.stderr));
    assert!(run.status.success(), "{err}");
    let rows = check_rows(&out, "threads", 10);
    assert!(rows.iter().all(|row| row["mechanism"] == "user-space"));
    // One line says that this is not KVM; no progress where nobody watches.
    let said = |words: &str| err.lines().filter(|line| line.contains(words)).count();
    assert_eq!(said("note: threads play the vCPUs"), 1, "{err}");
    assert_eq!(said("repeat 1 of"), 0, "{err}");
    assert_eq!(said("Idle at 250 Hz: adaptive"), 1, "{err}");
    // Sleeping and polling are what they say: never sleeps once for each request.
    let sleeps = |policy| figure(&rows, "user-space", policy, "wakeups_per_s");
    assert!(sleeps("never") > 10.0 * sleeps("always"), "{out}");
}

#[test]
fn kvm_rows_come_with_a_page() {
    if let Some(reason) = kvm::missing() {
        skipped::skip("kvm_rows_come_with_a_page", &reason);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, html) = (path("halt.json"), path("halt.html"));
    let arguments =
        ["halt", "--backend", "kvm", "--seconds", "2", "--json", &json, "--html", &html];
    let run = testbed(&arguments);
    let (out, err) = (text(&run.stdout), text(&run.stderr));
    assert!(run.status.success(), "{err}");
    assert!(out.starts_with("halts, policy"), "{out}");
    assert_eq!(out.lines().filter(|line| line.starts_with("Latency, ")).count(), 2, "{out}");
    assert!(err.contains("medians over 1 only"), "{err}");
    let read = |path: &str| std::fs::read_to_string(Path::new(path)).unwrap();
    let rows = check_rows(&read(&json), "kvm", 16);
    let page = read(&html);
    assert!(page.starts_with("<!doctype html>") && page.contains("user-space adaptive"));
    // Always polls through idleness, never uses next to nothing.
    let idle = |policy| figure(&rows, "user-space", policy, "idle_cpu_pct");
    assert!(idle("always") > 10.0 * idle("never").max(0.1), "{rows:?}");
}

#[test]
fn too_short_a_run_fails_at_once_and_says_what_it_takes() {
    let began = Instant::now();
    let run = testbed(&["halt", "--backend", "threads", "--seconds", "0.5"]);
    assert_eq!(run.status.code(), Some(1));
    let err = text(&run.stderr);
    assert!(err.contains("0.5 s is too short: 5 rows need 1 s"), "{err}");
    assert!(run.stdout.is_empty());
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_report_that_cannot_be_written_fails_before_the_run() {
    let began = Instant::now();
    let run = testbed(&["halt", "--seconds", "60", "--html", "/nonexistent/halt.html"]);
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("/nonexistent/halt.html"));
    assert!(began.elapsed() < Duration::from_secs(30));
}
