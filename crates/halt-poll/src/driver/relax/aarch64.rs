// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! WFE and WFET on the exclusive monitor.
//!
//! Semantics: Arm ARM (DDI 0487), "Wait for Event": clearing a PE's global exclusive monitor is an
//! event for it, so a load-exclusive of the word followed by WFE waits for a write to it. Linux lets
//! user space execute both, and WFET; the exclusive load comes first and its value decides, so that a
//! kick before it is seen and one after it is an event.
// UNSAFE: the instructions have no intrinsics in stable Rust; getauxval is a C function.
#![allow(unsafe_code)]

use core::arch::asm;

use super::RelaxStep;
use crate::driver::sync::{AtomicU32, spin_loop};

/// Period of the event stream that Linux programs, in nanoseconds (10 kHz).
const EVENT_STREAM_NS: u64 = 100_000;
/// The longest WFET, in nanoseconds: short enough to look at the clock for contention.
const MAX_WFET_NS: u64 = 2_000;
/// `HWCAP_EVTSTRM`: the kernel runs the event stream.
const HWCAP_EVTSTRM: libc::c_ulong = 1 << 2;
/// `HWCAP2_WFXT`: the CPU has WFET.
const HWCAP2_WFXT: libc::c_ulong = 1 << 31;

/// What this host lacks for `step`, if anything.
pub(super) fn missing(step: RelaxStep) -> Option<&'static str> {
    // SAFETY: reads the auxiliary vector; 0 for what it does not know.
    let has = |vector, bit| unsafe { libc::getauxval(vector) } & bit != 0;
    match step {
        RelaxStep::SpinHint => None,
        RelaxStep::Wfe if has(libc::AT_HWCAP, HWCAP_EVTSTRM) => None,
        RelaxStep::Wfe => Some("the event stream (HWCAP_EVTSTRM)"),
        RelaxStep::Wfet if has(libc::AT_HWCAP2, HWCAP2_WFXT) => None,
        RelaxStep::Wfet => Some("FEAT_WFxT (HWCAP2_WFXT)"),
        RelaxStep::Umwait | RelaxStep::Mwaitx => Some("an x86-64 CPU"),
    }
}

/// Waits for a change of `word` from 0, for about `left_ns`.
#[inline]
pub(super) fn watch(step: RelaxStep, word: &AtomicU32, left_ns: u64) {
    match step {
        // Nothing but the event stream bounds it.
        RelaxStep::Wfe if left_ns >= EVENT_STREAM_NS => wfe(word),
        RelaxStep::Wfet => wfet(word, left_ns.min(MAX_WFET_NS)),
        _ => spin_loop(),
    }
}

#[inline]
fn wfe(word: &AtomicU32) {
    // SAFETY: an exclusive load of a valid, aligned word, and a wait that the event stream ends at
    // the latest (`Relax::new` made sure that it runs).
    unsafe {
        asm!(
            "ldaxr {value:w}, [{word}]",
            "cbnz {value:w}, 2f",
            "wfe",
            "2:",
            word = in(reg) word.as_ptr(),
            value = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
}

#[inline]
fn wfet(word: &AtomicU32, ns: u64) {
    let (now, frequency): (u64, u64);
    // SAFETY: Linux lets user space read the virtual counter and its frequency.
    unsafe {
        asm!(
            "isb",
            "mrs {now}, cntvct_el0",
            "mrs {frequency}, cntfrq_el0",
            now = out(reg) now,
            frequency = out(reg) frequency,
            options(nostack, preserves_flags),
        );
    }
    // At most 2000 ns times at most 1 GHz (Armv8.6): far from overflow; a nonsensical
    // frequency makes for a wait that is over at once.
    let deadline = now.wrapping_add(ns.saturating_mul(frequency) / 1_000_000_000);
    // SAFETY: an exclusive load of a valid, aligned word, and a wait until the deadline at most. The
    // CPU has WFET: a `Relax` with this step is made by `Relax::new` alone, which looks.
    unsafe {
        asm!(
            "ldaxr {value:w}, [{word}]",
            "cbnz {value:w}, 2f",
            // wfet x9, for assemblers that do not know Armv8.7.
            ".inst 0xd5031009",
            "2:",
            word = in(reg) word.as_ptr(),
            value = out(reg) _,
            in("x9") deadline,
            options(nostack, preserves_flags),
        );
    }
}
