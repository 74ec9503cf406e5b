// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The trace parser, the replay and the evaluation on whatever a file may hold.
//!
//! What was parsed, written again in the plainest form, must parse to the same; both ways of
//! parsing must agree on the first malformed line; counts must add up; no policy pays less than
//! the clairvoyant, and no fixed threshold less than the best one.

use std::fmt::Write;

use halt_poll::{Fixed, KernelParams};
use halt_trace::evaluate::{CONTESTANTS, Recorded, Setup, best_fixed, run as live};
use halt_trace::replay::replay;
use halt_trace::{Event, Kind, Line, ParamUpdate, Trace, lines};

use crate::seed::Seed;

const BLOCK_COST_NS: u32 = 20_000;

/// Runs the parser on a file of these bytes and what follows on what it holds.
///
/// # Panics
///
/// Where one of the promises is broken.
pub fn run(data: &[u8]) {
    let newlines = data.split(|byte| *byte == b'\n').count();
    let mut trace = Trace::default();
    let mut first_error = None;
    for (index, line) in lines(data).enumerate() {
        match line {
            Ok(line) => {
                if let Line::Event(event) = line {
                    assert_eq!(event.line, index + 1);
                }
                trace.push(line);
            }
            Err(error) => {
                assert_eq!(error.line, index + 1);
                assert!(error.line <= newlines);
                let _ = first_error.get_or_insert(error);
            }
        }
    }
    match Trace::parse(data) {
        Ok(whole) => assert_eq!((&whole, first_error), (&trace, None)),
        Err(error) => assert_eq!(Some(error), first_error),
    }
    again(&trace);
    replayed(&trace);
    evaluated(&trace);
}

/// Written plainly and parsed again, nothing changes but the numbers of the lines.
fn again(trace: &Trace) {
    let mut text = String::new();
    for event in &trace.events {
        write(&mut text, event);
    }
    let parsed = Trace::parse(text.as_bytes()).expect("our own writing is well formed");
    let what = |event: &Event| (event.thread, event.kind);
    assert!(parsed.events.iter().map(what).eq(trace.events.iter().map(what)), "{text}");
}

/// Adds a line that says what the event does.
pub(crate) fn write(text: &mut String, event: &Event) {
    if let Some(thread) = event.thread {
        write!(text, "x-{thread} [0] 1.0: ").unwrap();
    }
    match event.kind {
        Kind::Wakeup(wakeup) => {
            let what = if wakeup.waited { "wait" } else { "poll" };
            let valid = if wakeup.valid { "valid" } else { "invalid" };
            let halt_ns = wakeup.halt_ns;
            write!(text, "kvm_vcpu_wakeup: {what} time {halt_ns} ns, polling {valid}").unwrap();
        }
        Kind::Change(change) => write!(
            text,
            "kvm_halt_poll_ns: vcpu {}: halt_poll_ns {} ({} {})",
            change.vcpu, change.new_ns, change.direction, change.old_ns
        )
        .unwrap(),
        Kind::Params(update) => {
            text.push('#');
            for (name, value) in [
                ("halt_poll_ns", update.halt_poll_ns),
                ("grow", update.grow),
                ("grow_start", update.grow_start),
                ("shrink", update.shrink),
            ] {
                if let Some(value) = value {
                    write!(text, " {name}={value}").unwrap();
                }
            }
        }
        Kind::Lost(Some(count)) => write!(text, "CPU:0 [LOST {count} EVENTS]").unwrap(),
        Kind::Lost(None) => text.push_str("CPU:0 [LOST EVENTS]"),
        other => unreachable!("{other:?} is new here"),
    }
    text.push('\n');
}

fn replayed(trace: &Trace) {
    let Ok(replay) = replay(trace, ParamUpdate::default()) else {
        assert!(trace.events.iter().any(|event| event.thread.is_none()));
        return;
    };
    assert_eq!(replay.halts, trace.halts().count());
    assert!(replay.unsynchronised <= replay.halts);
    assert!(replay.threads <= replay.halts);
    assert!(replay.mismatches.len() <= trace.events.len());
    for mismatch in &replay.mismatches {
        assert!(trace.events.iter().any(|event| event.line == mismatch.line), "{mismatch}");
    }
}

fn evaluated(trace: &Trace) {
    let halts: Vec<u64> = trace.halts().map(|(_, wakeup)| wakeup.halt_ns).collect();
    let best = best_fixed(&mut halts.clone(), BLOCK_COST_NS);
    let setup = Setup::new(BLOCK_COST_NS, trace.first_params());
    for contestant in CONTESTANTS {
        let mut policy = (contestant.build)(&setup);
        let cost = live(&mut *policy, &mut Recorded::new(&halts), BLOCK_COST_NS, &mut Vec::new());
        assert!(cost.cost_ns >= cost.clairvoyant_ns, "{}", contestant.name);
        assert_eq!(cost.halts, halts.len());
    }
    for window in [0, 5_000, BLOCK_COST_NS, KernelParams::X86.halt_poll_ns, u32::MAX] {
        let mut fixed = Fixed::new(window);
        let cost = live(&mut fixed, &mut Recorded::new(&halts), BLOCK_COST_NS, &mut Vec::new());
        assert!(cost.cost_ns >= best.cost_ns, "{window} beats {best:?}");
    }
}

/// Files written by hand.
pub fn seeds() -> Vec<Seed> {
    let seed = |name, text: &str| Seed { name, bytes: text.as_bytes().to_vec() };
    vec![
        seed("empty", ""),
        seed(
            "bare_lines",
            "# halt_poll_ns=200000 grow=2 grow_start=10000 shrink=2\n\
             kvm_vcpu_wakeup: wait time 19086112 ns, polling valid\n\
             kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n\
             kvm_vcpu_wakeup: wait time 192992 ns, polling valid\n\
             kvm_vcpu_wakeup: poll time 4398 ns, polling invalid\n",
        ),
        seed(
            "ftrace_with_losses",
            " CPU 0/KVM-7 [001] d..1. 1.5: kvm_halt_poll_ns: vcpu 0: halt_poll_ns 0 (shrink 9)\r\n\
             CPU:1 [LOST 5 EVENTS]\n##### CPU 1 buffer started ####\n\
             x (a) [2]-8 (  7) [000] 2: kvm_vcpu_wakeup: poll time 0 ns, polling valid\n",
        ),
        seed(
            "perf_script",
            "cpus=2\nvcpu 7/8 [001] 1.5:  kvm:kvm_vcpu_wakeup: wait time 5 ns, polling valid\n\
             vcpu 7 [001] 1.5: kvm:kvm_exit: reason HLT\n",
        ),
        seed(
            "off_and_on",
            "#halt_poll_ns=0\nkvm_vcpu_wakeup: wait time 9223372036854775807 ns, polling valid\n\
             # grow=0 shrink=0 halt_poll_ns=4294967295\n\
             kvm_halt_poll_ns: vcpu 0: halt_poll_ns 0 (grow 0)\n\
             kvm_vcpu_wakeup: wait time 1 ns, polling valid\n",
        ),
        seed("malformed", "kvm_vcpu_wakeup: wait time 9223372036854775808 ns\n# grow=2 x\n\n\u{1}"),
    ]
}
