// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The README's table of system calls is the truth: everything runs under a seccomp filter of it.
//!
//! A call that is not allowed ends the process by SIGSYS, so that none is hidden by code that copes
//! with its failure. `strace -f` tells which it was.
#![cfg(all(feature = "std", not(loom), any(target_arch = "x86_64", target_arch = "aarch64")))]
#![allow(clippy::unwrap_used, reason = "a test, not only its functions")]

use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use halt_poll::{
    Adaptive, AdaptiveParams, EventFdWait, Fixed, FutexWait, Gated, HaltEnd, HaltPoller,
    KernelParams, KernelPolicy, Never, Policy, wake,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use vcpu_state::{Kick, WakeSource, WakeWord};

/// A row of the README's table.
struct Call {
    /// The row's first two cells, without backticks.
    readme: (&'static str, &'static str),
    number: i64,
    /// The argument that is checked, counted from 0, and its value.
    argument: Option<(u8, u64)>,
}

const FUTEX_WAIT: u64 = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
const FUTEX_WAKE: u64 = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64;

/// The table, but for what is called before a filter is installed.
const TABLE: &[Call] = &[
    Call {
        readme: ("futex (FUTEX_WAIT, private)", "vCPU"),
        number: libc::SYS_futex,
        argument: Some((1, FUTEX_WAIT)),
    },
    Call {
        readme: ("futex (FUTEX_WAKE, private)", "waker"),
        number: libc::SYS_futex,
        argument: Some((1, FUTEX_WAKE)),
    },
    Call { readme: ("ppoll", "vCPU"), number: libc::SYS_ppoll, argument: None },
    Call { readme: ("read", "vCPU"), number: libc::SYS_read, argument: None },
    Call {
        readme: ("preadv2 (RWF_NOWAIT)", "vCPU"),
        number: libc::SYS_preadv2,
        argument: Some((5, libc::RWF_NOWAIT as u64)),
    },
    Call {
        readme: ("fcntl (F_GETFL)", "any"),
        number: libc::SYS_fcntl,
        argument: Some((1, libc::F_GETFL as u64)),
    },
    Call {
        readme: ("clock_gettime (CLOCK_MONOTONIC)", "vCPU"),
        number: libc::SYS_clock_gettime,
        argument: Some((0, libc::CLOCK_MONOTONIC as u64)),
    },
    Call { readme: ("restart_syscall", "vCPU"), number: libc::SYS_restart_syscall, argument: None },
];

/// What the threads of this test do besides: they end, without the clean-up of Rust and libc.
const BASELINE: &[i64] = &[libc::SYS_exit];

/// Set in a process whose filters lack the row of this name.
const WITHOUT: &str = "HALT_POLL_SECCOMP_WITHOUT";

/// A filter of the table's rows for one kind of thread.
fn filter(thread: &str) -> BpfProgram {
    let without = std::env::var(WITHOUT).unwrap_or_default();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        BASELINE.iter().map(|number| (*number, Vec::new())).collect();
    for call in TABLE {
        if (call.readme.1 != thread && call.readme.1 != "any") || call.readme.0 == without {
            continue;
        }
        // No rule: whatever the arguments are.
        let rules = rules.entry(call.number).or_default();
        if let Some((index, value)) = call.argument {
            let equal = SeccompCmpOp::Eq;
            let condition =
                SeccompCondition::new(index, SeccompCmpArgLen::Dword, equal, value).unwrap();
            rules.push(SeccompRule::new(vec![condition]).unwrap());
        }
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)
        .and_then(BpfProgram::try_from)
        .unwrap()
}

/// What a thread under a filter came to; set when it is done.
type Outcome<T> = Arc<OnceLock<Result<T, String>>>;

/// Begins `work` on a thread under the filter. The thread never returns from it to Rust's and libc's
/// end of a thread, which lock and free: it drops nothing, and just ends.
fn begin<T: Send + Sync + 'static>(
    thread: &str,
    mut work: impl FnMut() -> T + Send + 'static,
) -> Outcome<T> {
    let outcome = Outcome::default();
    let (filter, result) = (filter(thread), outcome.clone());
    std::thread::spawn(move || {
        let value = apply_filter(&filter).map_err(|error| error.to_string()).map(|()| work());
        let _ = result.set(value);
        loop {
            #[expect(unsafe_code, reason = "exit(2)")]
            // SAFETY: the thread is nobody's to join, and what it owns is leaked.
            unsafe {
                libc::syscall(libc::SYS_exit, 0)
            };
        }
    });
    outcome
}

/// Waits until the thread is done. The error: there is no seccomp here.
fn end<T>(outcome: &Outcome<T>, mut meanwhile: impl FnMut()) -> Result<&T, &str> {
    let begin = Instant::now();
    loop {
        if let Some(result) = outcome.get() {
            return result.as_ref().map_err(String::as_str);
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "a halt does not end");
        meanwhile();
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn policies() -> Vec<Box<dyn Policy + Send>> {
    vec![
        Box::new(Never),
        Box::new(Fixed::new(50_000)),
        Box::new(KernelPolicy::new(KernelParams::X86)),
        Box::new(Adaptive::new(AdaptiveParams::default())),
        Box::new(Gated::new(Adaptive::new(AdaptiveParams::default()))),
    ]
}

/// What the halts of a vCPU came to.
#[derive(Clone, Copy, Debug, Default)]
struct Halts {
    woken: u32,
    timed_out: u32,
    slept: u32,
    /// Errors and ends that should not be.
    other: u32,
}

/// Halts until wake-ups come for `source`, and on `quiet`, for which none come.
fn halts(
    policies: &mut [Box<dyn Policy + Send>],
    source: &impl WakeSource,
    quiet: &impl WakeSource,
) -> Halts {
    let mut halts = Halts::default();
    for policy in policies {
        let mut poller = HaltPoller::new(policy);
        let mut note = |halted| {
            let Ok(halted) = halted else {
                halts.other += 1;
                return;
            };
            let halted: halt_poll::Halted = halted;
            halts.slept += u32::from(halted.halt.slept);
            match halted.end {
                HaltEnd::Woken => halts.woken += 1,
                HaltEnd::TimedOut => halts.timed_out += 1,
                _ => halts.other += 1,
            }
        };
        for _ in 0..20 {
            note(poller.halt(source).map_err(drop));
        }
        note(poller.halt_for(quiet, 300_000).map_err(drop));
    }
    halts
}

fn check(halts: Halts) {
    let Halts { woken, timed_out, slept, other } = halts;
    assert_eq!((woken, timed_out, other), (100, 5, 0), "{halts:?}");
    assert!(slept > 5, "some halts slept until they were woken: {halts:?}");
}

#[test]
fn halts_on_a_futex_and_their_wakers_keep_to_the_table() {
    let words = Arc::new((WakeWord::new(), WakeWord::new()));
    let done = Arc::new(AtomicBool::new(false));
    let (word, stop) = (words.clone(), done.clone());
    let waker = begin("waker", move || {
        let mut woke_sleepers = 0_u32;
        while !stop.load(Ordering::Relaxed) {
            woke_sleepers += u32::from(wake(&word.0) == Kick::WakeSleeper);
            for _ in 0..2_000 {
                spin_loop();
            }
        }
        woke_sleepers
    });
    let mut policies = policies();
    let vcpu = begin("vCPU", move || {
        halts(&mut policies, &FutexWait::new(&words.0), &FutexWait::new(&words.1))
    });
    let halts = end(&vcpu, || {}).copied();
    done.store(true, Ordering::Relaxed);
    match (halts, end(&waker, || {})) {
        (Ok(halts), Ok(woke_sleepers)) => {
            check(halts);
            assert!(*woke_sleepers > 0, "{halts:?}");
        }
        (Err(reason), _) | (_, Err(reason)) => {
            skipped::skip("halts_on_a_futex_and_their_wakers_keep_to_the_table", reason);
        }
    }
}

#[expect(unsafe_code, reason = "eventfd(2)")]
fn eventfd(flags: libc::c_int) -> OwnedFd {
    // SAFETY: no pointers.
    let fd = unsafe { libc::eventfd(0, flags | libc::EFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: a new descriptor that nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Who writes to an eventfd is no part of the crate, and so under no filter.
fn halts_on_an_eventfd(test: &str, flags: libc::c_int) {
    use std::io::Write;

    let (fd, quiet) = (eventfd(flags), eventfd(flags));
    let mut writer = std::fs::File::from(fd.try_clone().unwrap());
    let mut policies = policies();
    let vcpu = begin("vCPU", move || {
        let source = EventFdWait::new(fd.as_fd());
        halts(&mut policies, &source, &EventFdWait::new(quiet.as_fd()))
    });
    match end(&vcpu, || writer.write_all(&1_u64.to_ne_bytes()).unwrap()) {
        Ok(halts) => check(*halts),
        Err(reason) => skipped::skip(test, reason),
    }
}

#[test]
fn halts_on_a_blocking_eventfd_keep_to_the_table() {
    halts_on_an_eventfd("halts_on_a_blocking_eventfd_keep_to_the_table", 0);
}

#[test]
fn halts_on_a_nonblocking_eventfd_keep_to_the_table() {
    let test = "halts_on_a_nonblocking_eventfd_keep_to_the_table";
    halts_on_an_eventfd(test, libc::EFD_NONBLOCK);
}

/// The tests above fail when a call is missing in the table: without any one of its rows, they do.
#[test]
fn no_row_of_the_table_can_be_spared() {
    if std::env::var_os(WITHOUT).is_some() {
        return;
    }
    if let Err(reason) = end(&begin("vCPU", || ()), || {}) {
        return skipped::skip("no_row_of_the_table_can_be_spared", reason);
    }
    // Not made on hosts with a vDSO, and only when the process is stopped.
    let rare = [libc::SYS_clock_gettime, libc::SYS_restart_syscall];
    for call in TABLE.iter().filter(|call| !rare.contains(&call.number)) {
        let run = Command::new(std::env::current_exe().unwrap())
            .env(WITHOUT, call.readme.0)
            .output()
            .unwrap();
        assert_eq!(run.status.signal(), Some(libc::SIGSYS), "{}: {run:?}", call.readme.0);
    }
}

#[test]
fn the_filters_are_the_readmes_table() {
    let readme = include_str!("../README.md");
    let (_, section) = readme.split_once("\n## System calls\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let in_readme: Vec<(String, String)> = rows
        .filter(|row| !row.contains("before the filter is installed"))
        .map(|row| {
            let mut cells = row.split('|').skip(1).map(|cell| cell.trim().replace('`', ""));
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    let here: Vec<(String, String)> = TABLE
        .iter()
        .map(|Call { readme: (call, thread), .. }| ((*call).to_owned(), (*thread).to_owned()))
        .collect();
    assert_eq!(in_readme, here);
}
