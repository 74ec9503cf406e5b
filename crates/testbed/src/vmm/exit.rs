// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What an exit of the guest means to this VMM.

use kvm_ioctls::VcpuExit;

/// An exit, reduced to what the vCPU's loop does about it. Data for the guest is still in the exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The guest has nothing to do until an interrupt: one way or another, it waits.
    Idle(IdleReason),
    /// A device of the VMM is asked.
    Device,
    /// An interrupt can be injected now.
    InterruptWindow,
    /// The guest was interrupted by a signal: look for what there is to do.
    Interrupted,
    /// The guest is at its end: a triple fault, say.
    Shutdown,
    /// KVM cannot go on with this guest code.
    InternalError,
    /// The hardware refused the guest's state: its reason, and the CPU.
    FailEntry(u64, u32),
    /// The guest touched memory that KVM cannot map: its address.
    MemoryFault(u64),
    /// Nothing this VMM asked for.
    Unhandled,
}

/// How the guest said that it is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdleReason {
    /// `KVM_EXIT_HLT`.
    Halt,
    /// `KVM_EXIT_AP_RESET_HOLD`: an encrypted guest's vCPU waits to be started.
    ResetHold,
    /// An exit of the system event kind that is a suspend: idle until an interrupt.
    Suspend,
}

/// `KVM_EXIT_AP_RESET_HOLD`, which kvm-ioctls passes on as a number.
const KVM_EXIT_AP_RESET_HOLD: u32 = 32;
/// `KVM_SYSTEM_EVENT_SUSPEND`: the guest sleeps until an interrupt.
const KVM_SYSTEM_EVENT_SUSPEND: u32 = 5;

/// What to do about `exit`. All idle exits are the same to the loop: the vCPU blocks. An exit it
/// does not know is an error rather than another turn, so that none of them makes the loop spin.
pub fn classify(exit: &VcpuExit<'_>) -> Event {
    match exit {
        VcpuExit::Hlt => Event::Idle(IdleReason::Halt),
        VcpuExit::Unsupported(KVM_EXIT_AP_RESET_HOLD) => Event::Idle(IdleReason::ResetHold),
        VcpuExit::SystemEvent(KVM_SYSTEM_EVENT_SUSPEND, _) => Event::Idle(IdleReason::Suspend),
        VcpuExit::IoIn(..)
        | VcpuExit::IoOut(..)
        | VcpuExit::MmioRead(..)
        | VcpuExit::MmioWrite(..) => Event::Device,
        VcpuExit::IrqWindowOpen => Event::InterruptWindow,
        VcpuExit::Intr => Event::Interrupted,
        VcpuExit::Shutdown => Event::Shutdown,
        VcpuExit::InternalError => Event::InternalError,
        VcpuExit::FailEntry(reason, cpu) => Event::FailEntry(*reason, *cpu),
        VcpuExit::MemoryFault { gpa, .. } => Event::MemoryFault(*gpa),
        _ => Event::Unhandled,
    }
}
