// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! UMONITOR/UMWAIT and MONITORX/MWAITX.
//!
//! Semantics: Intel SDM volume 2 (UMONITOR, UMWAIT), AMD APM volume 3 (MONITORX, MWAITX). Both pairs
//! are unprivileged. The system may cut a wait short (IA32_UMWAIT_CONTROL), never prolong it.
// UNSAFE: the instructions have no intrinsics in stable Rust.
#![allow(unsafe_code)]

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count, _rdtsc};

use super::RelaxStep;
use crate::driver::sync::{AtomicU32, Ordering, spin_loop};

/// The longest wait, in ticks of the TSC: short enough to look at the clock for contention, long
/// enough to be worth entering.
const MAX_TICKS: u64 = 8_192;

/// What this host lacks for `step`, if anything.
pub(super) fn missing(step: RelaxStep) -> Option<&'static str> {
    match step {
        RelaxStep::SpinHint => None,
        RelaxStep::Umwait if has_waitpkg() => None,
        RelaxStep::Umwait => Some("WAITPKG (CPUID leaf 7, ECX bit 5)"),
        RelaxStep::Mwaitx if has_monitorx() => None,
        RelaxStep::Mwaitx => Some("MONITORX (CPUID leaf 0x80000001, ECX bit 29)"),
        RelaxStep::Wfe | RelaxStep::Wfet => Some("an AArch64 CPU"),
    }
}

/// Waits for a change of `word` from 0, for `left_ns` or [`MAX_TICKS`].
#[inline]
pub(super) fn watch(step: RelaxStep, word: &AtomicU32, left_ns: u64) {
    // A tick is at most about a nanosecond: the wait is not longer than `left_ns`, to within a step.
    let ticks = left_ns.min(MAX_TICKS);
    match step {
        RelaxStep::Umwait => watch_by(&Umwait, word, ticks),
        RelaxStep::Mwaitx => watch_by(&Mwaitx, word, ticks),
        _ => spin_loop(),
    }
}

/// A pair of instructions that arm a monitor and wait for it.
trait Monitor {
    /// Arms the monitor: from here on, a write to the word's line ends the wait.
    fn arm(&self, word: &AtomicU32);

    /// Waits for a write to the line, for at most `ticks` of the TSC. Returns at once when there was
    /// a write since the arming.
    fn wait(&self, ticks: u64);
}

#[inline]
fn watch_by<M: Monitor>(monitor: &M, word: &AtomicU32, ticks: u64) {
    monitor.arm(word);
    // A kick that came before the arming triggers nothing: look once more.
    if word.load(Ordering::Relaxed) == 0 {
        monitor.wait(ticks);
    }
}

/// Intel's pair. Made only after [`has_waitpkg`] (by `Relax::new`).
struct Umwait;

impl Monitor for Umwait {
    #[inline]
    fn arm(&self, word: &AtomicU32) {
        // SAFETY: UMONITOR is a load of an address that is valid to read. The CPU has it: a
        // `Relax` with this step is made by `Relax::new` alone, which looks.
        unsafe {
            asm!("umonitor {}", in(reg) word.as_ptr(), options(nostack, preserves_flags));
        }
    }

    #[inline]
    fn wait(&self, ticks: u64) {
        // SAFETY: RDTSC exists on every x86-64 CPU, and reads a counter.
        let now = unsafe { _rdtsc() };
        let deadline = now.wrapping_add(ticks);
        // Bit 0: C0.1, the state that is quicker to leave.
        // SAFETY: waits until the deadline at most; writes nothing but the flags. The CPU has it:
        // see `arm`.
        unsafe {
            asm!(
                "umwait {state:e}",
                state = in(reg) 1_u32,
                in("eax") deadline & 0xffff_ffff,
                in("edx") deadline >> 32,
                options(nostack),
            );
        }
    }
}

/// AMD's pair. Made only after [`has_monitorx`] (by `Relax::new`).
struct Mwaitx;

impl Monitor for Mwaitx {
    #[inline]
    fn arm(&self, word: &AtomicU32) {
        // SAFETY: MONITORX is a load of an address that is valid to read; ECX (extensions) and EDX
        // (hints) are 0 as they must be. The CPU has it: a `Relax` with this step is made by
        // `Relax::new` alone, which looks.
        unsafe {
            asm!(
                "monitorx",
                in("rax") word.as_ptr(),
                in("ecx") 0_u32,
                in("edx") 0_u32,
                options(nostack, preserves_flags),
            );
        }
    }

    #[inline]
    fn wait(&self, ticks: u64) {
        // EAX 0xf0: no power state below C0. ECX bit 1: EBX is the timer, in ticks. LLVM keeps RBX
        // for itself: it is put back.
        // SAFETY: waits for the timer at most; writes no register and no memory. The CPU has it:
        // see `arm`.
        unsafe {
            asm!(
                "xchg {timer:r}, rbx",
                "mwaitx",
                "xchg {timer:r}, rbx",
                timer = inout(reg) ticks => _,
                in("eax") 0xf0_u32,
                in("ecx") 2_u32,
                options(nostack, preserves_flags),
            );
        }
    }
}

fn has_waitpkg() -> bool {
    // SAFETY: every x86-64 CPU has CPUID.
    #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
    let highest = unsafe { __cpuid(0) }.eax;
    // SAFETY: as above.
    #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
    let features = || unsafe { __cpuid_count(7, 0) };
    highest >= 7 && features().ecx & 1 << 5 != 0
}

fn has_monitorx() -> bool {
    // SAFETY: every x86-64 CPU has CPUID.
    #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
    let highest = unsafe { __cpuid(0x8000_0000) }.eax;
    // SAFETY: as above.
    #[allow(unused_unsafe, reason = "safe in newer versions of Rust")]
    let features = || unsafe { __cpuid(0x8000_0001) };
    highest >= 0x8000_0001 && features().ecx & 1 << 29 != 0
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    /// A CPU on which a kick arrives at the worst moment: just before the monitor is armed.
    struct KickWhileArming<'a> {
        word: &'a AtomicU32,
        slept_through: Cell<bool>,
    }

    impl Monitor for KickWhileArming<'_> {
        fn arm(&self, word: &AtomicU32) {
            assert!(core::ptr::eq(word, self.word));
            self.word.store(1, Ordering::Release);
        }

        fn wait(&self, _ticks: u64) {
            self.slept_through.set(true);
        }
    }

    #[test]
    fn f68_a_kick_before_the_monitor_is_armed_is_seen() {
        let word = AtomicU32::new(0);
        let cpu = KickWhileArming { word: &word, slept_through: Cell::new(false) };
        watch_by(&cpu, &word, 100);
        assert!(!cpu.slept_through.get());
    }

    /// A CPU that notes how long it was told to wait.
    struct Noting(Cell<Option<u64>>);

    impl Monitor for Noting {
        fn arm(&self, _word: &AtomicU32) {}

        fn wait(&self, ticks: u64) {
            self.0.set(Some(ticks));
        }
    }

    #[test]
    fn a_quiet_word_is_waited_for_with_the_deadline() {
        let cpu = Noting(Cell::new(None));
        watch_by(&cpu, &AtomicU32::new(0), 77);
        assert_eq!(cpu.0.get(), Some(77));
    }
}
