// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The committed corpora: the seeds are those that the code writes, and every file runs through
//! its target without a panic, on stable Rust and without libFuzzer.
//!
//! `UPDATE_SEEDS=1 cargo test -p fuzz-common` writes the seeds anew.

use std::fs;
use std::path::{Path, PathBuf};

use fuzz_common::seed::Seed;
use fuzz_common::{
    adaptive_policy, halt_driver, halt_trace, kernel_policy, trace_replay, vcpu_table,
};

/// A target: what it does with its bytes, and its seeds.
struct Target {
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Seed>,
}

const TARGETS: [Target; 6] = [
    Target { name: "adaptive_policy", run: adaptive_policy::run, seeds: adaptive_policy::seeds },
    Target { name: "halt_driver", run: halt_driver::run, seeds: halt_driver::seeds },
    Target { name: "halt_trace", run: halt_trace::run, seeds: halt_trace::seeds },
    Target { name: "kernel_policy", run: kernel_policy::run, seeds: kernel_policy::seeds },
    Target { name: "trace_replay", run: trace_replay::run, seeds: trace_replay::seeds },
    Target { name: "vcpu_table", run: vcpu_table::run, seeds: vcpu_table::seeds },
];

fn fuzz_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn corpus(target: &Target) -> PathBuf {
    fuzz_folder().join("corpus").join(target.name)
}

#[test]
fn committed_seeds_are_those_the_code_writes() {
    for target in &TARGETS {
        let folder = corpus(target);
        for seed in (target.seeds)() {
            let path = folder.join(seed.name);
            if std::env::var_os("UPDATE_SEEDS").is_some() {
                fs::create_dir_all(&folder).unwrap();
                fs::write(&path, &seed.bytes).unwrap();
            }
            let committed = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(committed, seed.bytes, "{}", path.display());
        }
    }
}

#[test]
fn every_file_of_the_corpora_passes() {
    for target in &TARGETS {
        let mut files: Vec<_> =
            fs::read_dir(corpus(target)).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= (target.seeds)().len(), "{}: files are missing", target.name);
        for file in files {
            let bytes = fs::read(&file).unwrap();
            // A panic shows the target's message; this says for which file.
            let outcome = std::panic::catch_unwind(|| (target.run)(&bytes));
            assert!(outcome.is_ok(), "{} fails", file.display());
        }
    }
}

/// Truncated and bit-flipped seeds: a small fuzzer that runs everywhere, the same at each run.
#[test]
fn mutated_seeds_pass() {
    for target in &TARGETS {
        for seed in (target.seeds)() {
            for length in 0..seed.bytes.len() {
                (target.run)(&seed.bytes[..length]);
            }
            for position in 0..seed.bytes.len() {
                for bit in 0..8 {
                    let mut bytes = seed.bytes.clone();
                    bytes[position] ^= 1 << bit;
                    (target.run)(&bytes);
                }
            }
        }
    }
}

/// Each target is replayed here and fuzzed there.
#[test]
fn every_fuzz_target_has_its_corpus_replayed() {
    let mut files: Vec<_> = fs::read_dir(fuzz_folder().join("fuzz_targets"))
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    files.sort();
    let mut names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
}
