// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Replay: silent on what a kernel does, loud on what it does not.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fmt::Write;

use halt_trace::replay::{Difference, Replay, ReplayError, replay};
use halt_trace::{Kind, ParamUpdate, Trace};
use proptest::prelude::*;

const RECORDED: &[u8] = include_bytes!("data/kvm-6.18-halt-poll-200us.trace");

fn replayed(text: &[u8]) -> Replay {
    replay(&Trace::parse(text).unwrap(), ParamUpdate::default()).unwrap()
}

/// The kernel's rules once more, written naively and on their own, with the lines it prints.
struct Kernel {
    max: u64,
    grow: u64,
    grow_start: u64,
    shrink: u64,
    window: u64,
}

impl Kernel {
    fn halt(
        &mut self,
        prefix: &str,
        vcpu: u32,
        halt_ns: u64,
        valid: bool,
        lines: &mut Vec<String>,
    ) {
        if self.window > self.max {
            self.window = self.max;
        }
        let old = self.window;
        let waited = halt_ns > old;
        let mut line = |word: &str, new: u64| {
            lines.push(format!(
                "{prefix}kvm_halt_poll_ns: vcpu {vcpu}: halt_poll_ns {new} ({word} {old})"
            ));
            new
        };
        let shrunk = |shrink: u64, start: u64| {
            let new = old.checked_div(shrink).unwrap_or(0);
            if new < start { 0 } else { new }
        };
        if !valid {
            self.window = line("shrink", shrunk(self.shrink, self.grow_start));
        } else if self.max == 0 {
            self.window = 0;
        } else if halt_ns > old {
            if old > 0 && halt_ns > self.max {
                self.window = line("shrink", shrunk(self.shrink, self.grow_start));
            } else if old < self.max && halt_ns < self.max {
                let grown = old * self.grow % (1 << 32);
                let grown = if self.grow == 0 { old } else { grown.max(self.grow_start) };
                self.window = line("grow", grown);
            }
        }
        let (what, valid) = (if waited { "wait" } else { "poll" }, if valid { "" } else { "in" });
        lines.push(format!(
            "{prefix}kvm_vcpu_wakeup: {what} time {halt_ns} ns, polling {valid}valid"
        ));
    }
}

/// A few halts of a thread: its number, their lengths, whether the wake-up was valid.
fn halts() -> impl Strategy<Value = Vec<(u32, u64, bool)>> {
    let length = prop_oneof![
        0_u64..20_000,
        0_u64..400_000,
        Just(200_000),
        Just(50_000),
        any::<u32>().prop_map(u64::from)
    ];
    proptest::collection::vec((0_u32..3, length, proptest::bool::weighted(0.95)), 0..120)
}

fn parameters() -> impl Strategy<Value = [u32; 4]> {
    let max = prop_oneof![
        Just(200_000),
        Just(50_000),
        Just(11_000),
        Just(5_000),
        Just(0),
        0_u32..1_000_000
    ];
    let grow = prop_oneof![Just(2), 0_u32..5, any::<u32>()];
    let start = prop_oneof![Just(10_000), Just(0), 0_u32..30_000];
    (max, grow, start, 0_u32..5).prop_map(|(max, grow, start, shrink)| [max, grow, start, shrink])
}

/// What a kernel with three vCPUs prints; the threads start with the windows given.
fn printed(
    [max, grow, start, shrink]: [u32; 4],
    windows: [u32; 3],
    halts: &[(u32, u64, bool)],
) -> Vec<String> {
    let mut kernels = windows.map(|window| Kernel {
        max: max.into(),
        grow: grow.into(),
        grow_start: start.into(),
        shrink: shrink.into(),
        window: window.into(),
    });
    let mut lines = Vec::new();
    for (index, &(thread, halt_ns, valid)) in halts.iter().enumerate() {
        let prefix = format!("CPU {thread}/KVM-{} [001] d..1. {index}.5: ", 100 + thread);
        kernels[thread as usize].halt(&prefix, thread, halt_ns, valid, &mut lines);
    }
    lines
}

fn text([max, grow, start, shrink]: [u32; 4], lines: &[String]) -> String {
    let mut text = format!("# halt_poll_ns={max} grow={grow} grow_start={start} shrink={shrink}\n");
    for line in lines {
        writeln!(text, "{line}").unwrap();
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Whatever window the threads start with, and wherever the trace begins and ends, the
    /// kernel's own lines are no mismatch.
    #[test]
    fn a_kernels_lines_are_no_mismatch(
        params in parameters(),
        windows in any::<[u32; 3]>(),
        halts in halts(),
        cut in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let lines = printed(params, windows, &halts);
        let (from, to) = (cut.0.index(lines.len() + 1), cut.1.index(lines.len() + 1));
        let replay = replayed(text(params, &lines[from.min(to)..from.max(to)]).as_bytes());
        prop_assert_eq!(replay.mismatches, vec![]);
    }

    /// The same when events are lost anywhere, and the recorder says where.
    #[test]
    fn lost_events_are_no_mismatch(
        params in parameters(),
        windows in any::<[u32; 3]>(),
        halts in halts(),
        losses in proptest::collection::vec((any::<prop::sample::Index>(), 1_usize..9), 0..4),
    ) {
        let mut lines = printed(params, windows, &halts);
        for (at, count) in losses {
            let from = at.index(lines.len() + 1);
            let to = (from + count).min(lines.len());
            lines.splice(from..to, ["CPU:1 [LOST 3 EVENTS]".to_owned()]);
        }
        prop_assert_eq!(replayed(text(params, &lines).as_bytes()).mismatches, vec![]);
    }

    /// The same when a ceiling changes between two halts and the trace says so.
    #[test]
    fn changed_parameters_are_no_mismatch(
        before in parameters(),
        after in parameters(),
        windows in any::<[u32; 3]>(),
        halts in halts(),
        more in halts(),
    ) {
        let mut kernels = windows.map(|window| Kernel { max: 0, grow: 0, grow_start: 0, shrink: 0, window: window.into() });
        let mut whole = String::new();
        for (params, halts) in [(before, halts), (after, more)] {
            let mut lines = Vec::new();
            for (thread, halt_ns, valid) in halts {
                let kernel = &mut kernels[thread as usize];
                [kernel.max, kernel.grow, kernel.grow_start, kernel.shrink] = params.map(u64::from);
                kernel.halt(&format!("v-{thread} [0] 1.0: "), thread, halt_ns, valid, &mut lines);
            }
            whole += &text(params, &lines);
        }
        prop_assert_eq!(replayed(whole.as_bytes()).mismatches, vec![]);
    }

    /// A wrong number in any change line that a thread's window was known at is found, and so is a
    /// change line too few or too many.
    #[test]
    fn a_wrong_line_is_a_mismatch(
        halts in halts(),
        which in any::<prop::sample::Index>(),
        damage in 0..3,
        delta in 1_u32..9_000,
    ) {
        let params = [200_000, 2, 10_000, 2];
        let mut lines = printed(params, [0; 3], &halts);
        // From the second change line of each thread on, everything is known.
        let mut seen = [0; 3];
        let known: Vec<usize> = lines.iter().enumerate().filter_map(|(index, line)| {
            let thread = line.split("vcpu ").nth(1)?[..1].parse::<usize>().ok()?;
            seen[thread] += 1;
            (seen[thread] > 1).then_some(index)
        }).collect();
        prop_assume!(!known.is_empty());
        let victim = known[which.index(known.len())];
        match damage {
            0 => { lines.remove(victim); }
            1 => {
                let old = lines[victim].split(['(', ')']).nth(1).unwrap().to_owned();
                let (word, number) = old.split_once(' ').unwrap();
                let wrong = number.parse::<u32>().unwrap() + delta;
                lines[victim] = lines[victim].replace(&old, &format!("{word} {wrong}"));
            }
            _ => { lines.insert(victim, lines[victim].clone()); }
        }
        prop_assert!(!replayed(text(params, &lines).as_bytes()).mismatches.is_empty());
    }

    /// No bytes make the parser or the replay panic.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(trace) = Trace::parse(&bytes) {
            let _ = replay(&trace, ParamUpdate::default());
        }
    }

    /// Nor do damaged lines, and the error names the damaged line.
    #[test]
    fn a_damaged_line_is_named(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = RECORDED[..4_000].to_vec();
        let at = at.index(bytes.len());
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        bytes[at] = byte;
        match Trace::parse(&bytes) {
            Ok(trace) => { let _ = replay(&trace, ParamUpdate::default()); }
            // The last line is cut off in the first place.
            Err(error) => prop_assert!(
                error.line == line || error.line == line + 1
                    || error.line == 1 + RECORDED[..4_000].iter().filter(|byte| **byte == b'\n').count()
            ),
        }
    }
}

#[test]
fn the_recorded_trace_replays_without_a_mismatch() {
    let replay = replayed(RECORDED);
    assert_eq!((replay.halts, replay.threads), (1565, 1));
    assert_eq!((replay.unsynchronised, replay.losses, replay.unfinished), (0, 0, 0));
    assert_eq!(replay.mismatches, []);
}

#[test]
fn the_recorded_trace_fits_no_other_parameters() {
    let trace = Trace::parse(RECORDED).unwrap();
    for fixed in [
        ParamUpdate { halt_poll_ns: Some(190_000), ..ParamUpdate::default() },
        ParamUpdate { grow: Some(3), ..ParamUpdate::default() },
        ParamUpdate { grow_start: Some(9_000), ..ParamUpdate::default() },
        ParamUpdate { shrink: Some(0), ..ParamUpdate::default() },
    ] {
        assert!(!replay(&trace, fixed).unwrap().mismatches.is_empty(), "{fixed:?}");
    }
}

/// A vCPU that never polls writes no line: fine if a window of 0 explains it, a mismatch if a
/// growth was due whatever the window was.
#[test]
fn silence_is_checked_too() {
    let halt = |ns| format!("kvm_vcpu_wakeup: wait time {ns} ns, polling valid\n");
    let all_long = replayed((halt(300_000) + &halt(400_000)).as_bytes());
    assert_eq!((all_long.unsynchronised, all_long.mismatches.len()), (2, 0));
    let mixed = replayed((halt(1) + &halt(400_000) + &halt(1_000)).as_bytes());
    let differences: Vec<_> = mixed.mismatches.iter().map(|m| (m.line, m.difference)).collect();
    assert_eq!(differences, [(3, Difference::NoWindowExplains)]);
}

#[test]
fn two_changes_in_one_halt_are_a_mismatch() {
    let change = "kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n";
    let text = format!("{change}{change}kvm_vcpu_wakeup: wait time 30000 ns, polling valid\n");
    let mismatches = replayed(text.as_bytes()).mismatches;
    assert_eq!((mismatches[0].line, mismatches[0].difference), (1, Difference::TwoChanges));
}

#[test]
fn bare_lines_of_two_vcpus_are_refused() {
    let text = b"kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n\
        kvm_vcpu_wakeup: wait time 30000 ns, polling valid\n\
        kvm_halt_poll_ns: vcpu 2: halt_poll_ns 10000 (grow 0)\n";
    let error = replay(&Trace::parse(text).unwrap(), ParamUpdate::default()).unwrap_err();
    assert_eq!(error, ReplayError::SeveralVcpus { line: 3, first: 0, second: 2 });
}

#[test]
fn a_change_at_the_end_without_its_wakeup_is_unfinished() {
    let replay = replayed(b"kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n");
    assert_eq!((replay.halts, replay.unfinished, replay.threads), (0, 1, 0));
}

#[test]
fn fixed_parameters_win_over_the_traces() {
    let trace = Trace::parse(
        b"# halt_poll_ns=5\nkvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n\
        kvm_vcpu_wakeup: wait time 30000 ns, polling valid\n",
    )
    .unwrap();
    assert!(matches!(trace.events[0].kind, Kind::Params(_)));
    let fixed = ParamUpdate { halt_poll_ns: Some(200_000), ..ParamUpdate::default() };
    assert_eq!(replay(&trace, fixed).unwrap().mismatches, []);
    assert_eq!(replay(&trace, ParamUpdate::default()).unwrap().mismatches.len(), 1);
}
