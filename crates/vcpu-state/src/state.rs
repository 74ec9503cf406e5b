// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The states of a vCPU, and who may say them.

/// What a vCPU loop says of itself. Written by the vCPU's own thread alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum LoopState {
    /// No thread runs this vCPU: not yet plugged, unplugged, or its loop ended.
    #[default]
    Offline,
    /// The thread is in, or about to enter, the guest.
    InGuest,
    /// The thread is outside the guest, in the VMM: it handles an exit.
    InVmm,
    /// The thread gives its CPU away on purpose.
    Yielding,
    /// The guest halted: the thread polls or sleeps until a wake-up.
    Halted,
    /// The VMM paused the vCPU.
    Paused,
}

impl LoopState {
    /// As a table stores it.
    #[inline]
    pub(crate) const fn to_raw(self) -> u32 {
        self as u32
    }

    /// Total: a table stores nothing but what [`to_raw`](Self::to_raw) gives.
    #[inline]
    pub(crate) const fn from_raw(raw: u32) -> Self {
        const IN_GUEST: u32 = LoopState::InGuest.to_raw();
        const IN_VMM: u32 = LoopState::InVmm.to_raw();
        const YIELDING: u32 = LoopState::Yielding.to_raw();
        const HALTED: u32 = LoopState::Halted.to_raw();
        const PAUSED: u32 = LoopState::Paused.to_raw();
        match raw {
            IN_GUEST => Self::InGuest,
            IN_VMM => Self::InVmm,
            YIELDING => Self::Yielding,
            HALTED => Self::Halted,
            PAUSED => Self::Paused,
            _ => Self::Offline,
        }
    }
}

/// Where the guest was when the host took the CPU away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PreemptedIn {
    /// The observer cannot tell.
    #[default]
    Unknown,
    /// In the guest's kernel: it may hold a lock others spin on.
    Kernel,
    /// In the guest's user space.
    User,
}

/// What an observer of the host's scheduler says of a vCPU's thread. Never written by the loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OffCpu {
    /// The observer does not know this vCPU.
    #[default]
    Unknown,
    /// The thread has a CPU.
    Running,
    /// The thread is runnable and its CPU was taken away.
    Preempted(PreemptedIn),
    /// The thread was woken and waits for a CPU.
    WokenWaiting,
    /// The thread sleeps.
    Blocked,
}

/// The state of a vCPU as it is answered to whoever asks: the union of what its loop says and what
/// the host's scheduler does with its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// [`LoopState::Offline`].
    Offline,
    /// [`LoopState::InGuest`], and not known to be off its CPU.
    InGuest,
    /// [`LoopState::InVmm`], and not known to be off its CPU.
    InVmm,
    /// [`LoopState::Yielding`].
    Yielding,
    /// [`LoopState::Halted`].
    Halted,
    /// [`LoopState::Paused`].
    Paused,
    /// [`OffCpu::Preempted`] while the loop was in the guest or in the VMM.
    Preempted(PreemptedIn),
    /// [`OffCpu::WokenWaiting`].
    WokenWaiting,
    /// [`OffCpu::Blocked`] while the loop did not say that it halts: it sleeps in the VMM, or in
    /// KVM (a halt with an in-kernel interrupt controller, a page that has to be fetched).
    Blocked,
}

impl RunState {
    /// Unites the two halves.
    ///
    /// | loop \\ observer | `Unknown`, `Running` | `Preempted(m)` | `WokenWaiting` | `Blocked` |
    /// |---|---|---|---|---|
    /// | `Offline` | `Offline` | `Offline` | `Offline` | `Offline` |
    /// | `InGuest` | `InGuest` | `Preempted(m)` | `WokenWaiting` | `Blocked` |
    /// | `InVmm` | `InVmm` | `Preempted(m)` | `WokenWaiting` | `Blocked` |
    /// | `Yielding` | `Yielding` | `Yielding` | `Yielding` | `Yielding` |
    /// | `Halted` | `Halted` | `Halted` | `WokenWaiting` | `Halted` |
    /// | `Paused` | `Paused` | `Paused` | `Paused` | `Paused` |
    ///
    /// In words: nobody waits for a vCPU that is offline or paused, wherever its thread is. One
    /// that yields gave its CPU away by itself. One that halts has nothing to run, even if it is
    /// preempted while it polls, until it is woken and waits for a CPU.
    ///
    /// ```
    /// use vcpu_state::{LoopState, OffCpu, PreemptedIn, RunState};
    ///
    /// let preempted = OffCpu::Preempted(PreemptedIn::Kernel);
    /// assert_eq!(
    ///     RunState::new(LoopState::InGuest, preempted),
    ///     RunState::Preempted(PreemptedIn::Kernel)
    /// );
    /// assert_eq!(RunState::new(LoopState::Halted, preempted), RunState::Halted);
    /// ```
    #[inline]
    pub const fn new(state: LoopState, off_cpu: OffCpu) -> Self {
        match (state, off_cpu) {
            (LoopState::Offline, _) => Self::Offline,
            (LoopState::Paused, _) => Self::Paused,
            (LoopState::Yielding, _) => Self::Yielding,
            (_, OffCpu::WokenWaiting) => Self::WokenWaiting,
            (LoopState::Halted, _) => Self::Halted,
            (_, OffCpu::Preempted(within)) => Self::Preempted(within),
            (_, OffCpu::Blocked) => Self::Blocked,
            (LoopState::InGuest, OffCpu::Unknown | OffCpu::Running) => Self::InGuest,
            (LoopState::InVmm, OffCpu::Unknown | OffCpu::Running) => Self::InVmm,
        }
    }
}
