// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The states of a vCPU, and who may say them.

/// What a vCPU loop says of itself. Written by the vCPU's own thread alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
    /// [`OffCpu::Blocked`] while the loop did not say that it halts: it sleeps in the VMM.
    Blocked,
}
