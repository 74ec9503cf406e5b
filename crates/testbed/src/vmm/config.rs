// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a VM is asked to be.

use super::abi;

/// Who has the local interrupt controllers, and with them the halts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Irqchip {
    /// The kernel has all of it (on x86 `KVM_CREATE_IRQCHIP`).
    InKernel,
    /// The kernel has the local part only (on x86 `KVM_CAP_SPLIT_IRQCHIP`).
    Split,
    /// The VMM: it injects vectors itself.
    UserSpace,
}

/// Who handles a halt of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HaltMechanism {
    /// KVM: the vCPU sleeps inside `KVM_RUN`; the lever is `KVM_CAP_HALT_POLL`.
    InKernel,
    /// The VMM: a halt leaves `KVM_RUN`, and the VM's halt handler waits for the wake-up.
    UserSpace,
}

impl Irqchip {
    /// The mechanism follows from the irqchip alone. A VMM with the local APIC in the kernel must
    /// not wait for halt exits: there are none.
    pub const fn halt_mechanism(self) -> HaltMechanism {
        match self {
            Self::InKernel | Self::Split => HaltMechanism::InKernel,
            Self::UserSpace => HaltMechanism::UserSpace,
        }
    }
}

/// What the guest does. All vCPUs of a VM do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[non_exhaustive]
pub enum Program {
    /// Halts for ever; answers requests and counts ticks in its interrupt handlers.
    Idle = abi::PROGRAM_IDLE,
    /// Prints a line and ends with status 0.
    Hello = abi::PROGRAM_HELLO,
    /// Counts in its mailbox, two instructions a round and never an exit; with interrupts on in
    /// kernel mode.
    Count = abi::PROGRAM_COUNT,
    /// Leaves the guest by port I/O, again and again.
    Doorbell = abi::PROGRAM_DOORBELL,
    /// Makes one hypercall and ends with status 0.
    Hypercall = abi::PROGRAM_HYPERCALL,
    /// Executes an undefined instruction.
    Undefined = abi::PROGRAM_UNDEFINED,
    /// Faults with no handler left.
    TripleFault = abi::PROGRAM_TRIPLE_FAULT,
    /// Writes to a port where no device is.
    UnknownPort = abi::PROGRAM_UNKNOWN_PORT,
    /// Halts with interrupts off.
    HaltForEver = abi::PROGRAM_HALT_FOR_EVER,
    /// Panics.
    Panic = abi::PROGRAM_PANIC,
    /// Reads where no memory is.
    UnknownMemory = abi::PROGRAM_UNKNOWN_MEMORY,
    /// Executes a 16-byte compare-and-exchange and ends with status 0.
    CompareExchange16 = abi::PROGRAM_CMPXCHG16B,
}

/// The privilege level that the guest runs at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// The kernel's: needed for halts and interrupts.
    Kernel,
    /// User space's, port I/O allowed: [`Program::Count`] and [`Program::Doorbell`] only. Starts
    /// right in the program.
    User,
}

/// What a VM is asked to be.
#[derive(Clone, Debug)]
pub struct VmConfig {
    pub(super) program: Program,
    pub(super) irqchip: Irqchip,
    pub(super) vcpus: usize,
    pub(super) tick_hz: u32,
    pub(super) privilege: Privilege,
    pub(super) cpus: Vec<usize>,
}

impl VmConfig {
    /// One tickless vCPU.
    pub const fn new(program: Program, irqchip: Irqchip) -> Self {
        Self {
            program,
            irqchip,
            vcpus: 1,
            tick_hz: 0,
            privilege: Privilege::Kernel,
            cpus: Vec::new(),
        }
    }

    /// With this many vCPUs.
    #[must_use]
    pub fn with_vcpus(self, vcpus: usize) -> Self {
        Self { vcpus, ..self }
    }

    /// With a periodic tick on each vCPU from the start ([`Vm::set_tick_hz`](super::Vm::set_tick_hz)
    /// changes it); 0: none. The guest's own timer where the kernel has the
    /// local interrupt controller, else injected by the event loop.
    #[must_use]
    pub fn with_tick_hz(self, tick_hz: u32) -> Self {
        Self { tick_hz, ..self }
    }

    /// At this privilege level.
    #[must_use]
    pub fn with_privilege(self, privilege: Privilege) -> Self {
        Self { privilege, ..self }
    }

    /// With vCPU `i`'s thread on host CPU `cpus[i % cpus.len()]`; empty: wherever the host wants.
    #[must_use]
    pub fn with_cpus(self, cpus: Vec<usize>) -> Self {
        Self { cpus, ..self }
    }

    /// Who handles this VM's halts.
    pub const fn halt_mechanism(&self) -> HaltMechanism {
        self.irqchip.halt_mechanism()
    }
}
