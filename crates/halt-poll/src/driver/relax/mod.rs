// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a poll iteration does between two looks at its source.

#[cfg(all(target_arch = "aarch64", not(loom)))]
#[path = "aarch64.rs"]
mod arch;
#[cfg(all(target_arch = "x86_64", not(loom)))]
#[path = "x86_64.rs"]
mod arch;
#[cfg(any(loom, not(any(target_arch = "aarch64", target_arch = "x86_64"))))]
#[path = "other.rs"]
mod arch;

use super::sync::{AtomicU32, spin_loop};

/// How to wait between two looks at a wake source.
///
/// All but [`SpinHint`](Self::SpinHint) watch the cache line of the source's word
/// ([`WakeSource::watched_word`](vcpu_state::WakeSource::watched_word)), and stand for the spin-wait
/// hint where there is none. They save power and leave more of a core to its sibling; they do not
/// return the CPU to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RelaxStep {
    /// The CPU's spin-wait hint: PAUSE on x86-64, ISB or YIELD on AArch64.
    #[default]
    SpinHint,
    /// x86-64: UMONITOR and UMWAIT (CPUID leaf 7, ECX bit 5), in C0.1, for at most
    /// 8192 ticks of the TSC. Assembled and reviewed, but never run by this project: its hosts lack
    /// it.
    Umwait,
    /// x86-64: MONITORX and MWAITX with its timer (CPUID leaf 0x8000_0001, ECX bit 29), for at most
    /// 8192 ticks of the TSC. Assembled and reviewed, but never run by this project: its hosts lack
    /// it.
    Mwaitx,
    /// AArch64: WFE with the word in the exclusive monitor. Its only bound is the kernel's event
    /// stream (HWCAP_EVTSTRM: an event each 100 us), so the spin-wait hint takes its place in the last
    /// 100 us of a window. Never run on hardware by this project.
    Wfe,
    /// AArch64: WFET (HWCAP2_WFXT), for at most 2 us. Never run on hardware by this project.
    Wfet,
}

/// This CPU, or this kernel, does not offer the instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{step:?} needs {needs}")]
#[non_exhaustive]
pub struct Unsupported {
    /// What was asked for.
    pub step: RelaxStep,
    /// What is missing.
    pub needs: &'static str,
}

/// A [`RelaxStep`] this host offers. The default is [`RelaxStep::SpinHint`].
///
/// ```
/// use halt_poll::{Relax, RelaxStep};
///
/// let best = Relax::detect();
/// assert_eq!(Relax::new(best.step_kind()), Ok(best));
/// assert_eq!(Relax::default().step_kind(), RelaxStep::SpinHint);
/// assert!(Relax::new(RelaxStep::Umwait).is_err() || Relax::new(RelaxStep::Wfe).is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Relax {
    step: RelaxStep,
}

impl Relax {
    /// The step that is asked for. Executes CPUID on x86-64, which exits where this is itself a
    /// guest: keep the value.
    ///
    /// # Errors
    ///
    /// [`Unsupported`] when this CPU or kernel lacks what the step needs.
    pub fn new(step: RelaxStep) -> Result<Self, Unsupported> {
        match arch::missing(step) {
            None => Ok(Self { step }),
            Some(needs) => Err(Unsupported { step, needs }),
        }
    }

    /// The best step of this host: the one that watches the line with a deadline, else the spin-wait
    /// hint. Looks at the CPU each time: keep the value.
    ///
    /// **None of UMWAIT, MWAITX, WFE and WFET, which it may pick, has run on hardware yet**: they were
    /// assembled, reviewed and tested against a fake monitor. Try them on your host before you ship
    /// them; the default, the spin-wait hint, is what was measured.
    pub fn detect() -> Self {
        [RelaxStep::Umwait, RelaxStep::Mwaitx, RelaxStep::Wfet, RelaxStep::Wfe]
            .into_iter()
            .find_map(|step| Self::new(step).ok())
            .unwrap_or_default()
    }

    /// Which step this is.
    pub const fn step_kind(self) -> RelaxStep {
        self.step
    }

    /// The longest that one step takes on a CPU that nobody takes away, in nanoseconds, rounded up.
    pub const fn longest_step_ns(self) -> u32 {
        match self.step {
            RelaxStep::SpinHint => 0,
            // 8192 ticks of a TSC of 1 GHz.
            RelaxStep::Umwait | RelaxStep::Mwaitx => 8_192,
            RelaxStep::Wfe => 100_000,
            RelaxStep::Wfet => 2_000,
        }
    }

    /// One step: until `word` is likely to have changed from 0, for at most `left_ns` nanoseconds or
    /// the [`longest_step_ns`](Self::longest_step_ns). May return at once.
    #[inline]
    pub(crate) fn step(self, word: Option<&AtomicU32>, left_ns: u64) {
        match (self.step, word) {
            (RelaxStep::SpinHint, _) | (_, None) => spin_loop(),
            (step, Some(word)) => arch::watch(step, word, left_ns),
        }
    }
}
