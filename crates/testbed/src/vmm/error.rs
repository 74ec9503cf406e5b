// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What can go wrong in the VMM, and in one vCPU's loop.

use std::io;
use std::time::Duration;

use super::arch::Registers;

/// Why the VMM could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call to KVM failed.
    #[error("{call} failed")]
    Kvm {
        /// Which.
        call: &'static str,
        /// What the kernel says.
        #[source]
        source: kvm_ioctls::Error,
    },
    /// A system call failed.
    #[error("{call} failed")]
    System {
        /// Which.
        call: &'static str,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// Guest memory could not be had.
    #[error("Cannot map guest memory")]
    MapMemory(#[source] vm_memory::mmap::FromRangesError),
    /// Guest memory could not be accessed where the layout says.
    #[error("Cannot access guest memory")]
    AccessMemory(#[source] vm_memory::GuestMemoryError),
    /// The guest's image could not be loaded.
    #[error("Cannot load the guest")]
    Load(#[source] linux_loader::loader::Error),
    /// There are too few or too many vCPUs.
    #[error("{count} vCPUs: 1 to {limit} are possible")]
    VcpuCount {
        /// How many were asked for.
        count: usize,
        /// The most there can be.
        limit: usize,
    },
    /// There is no such vCPU.
    #[error("There is no vCPU {index}, only {count}")]
    NoSuchVcpu {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The event loop failed.
    #[error("Event loop")]
    EventLoop(#[source] event_manager::Error),
    /// The event loop's thread panicked.
    #[error("The event loop panicked")]
    EventLoopPanicked,
    /// The seccomp filter could not be made.
    #[error("Cannot make the seccomp filter")]
    SeccompFilter(#[source] seccompiler::BackendError),
    /// This kernel or CPU lacks something.
    #[error("Not possible on this host: {0}")]
    Unsupported(&'static str),
    /// The VM is not running.
    #[error("The VM is not running")]
    NotRunning,
    /// It took too long.
    #[error("Still waiting for {what} after {after:?}")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// How long.
        after: Duration,
    },
    /// A vCPU ended while something else was waited for.
    #[error("vCPU {index} ended early: {end}")]
    EndedEarly {
        /// Which vCPU.
        index: usize,
        /// How it ended.
        end: String,
    },
    /// A vCPU's thread panicked.
    #[error("The thread of vCPU {0} panicked")]
    Panicked(usize),
}

impl Error {
    /// For `map_err` of a call to KVM.
    pub(super) fn kvm(call: &'static str) -> impl Fn(kvm_ioctls::Error) -> Self {
        move |source| Self::Kvm { call, source }
    }

    /// For `map_err` of a system call.
    pub(super) fn system(call: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { call, source }
    }
}

/// Why a vCPU's loop could not go on. Boxed registers: the guest's state at that time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VcpuError {
    /// The guest used a port that no device is at.
    #[error("The guest {} port {port:#x}, {size} bytes: nobody is there ({registers})", verb(*.write))]
    UnknownPort {
        /// The port.
        port: u16,
        /// Bytes transferred.
        size: usize,
        /// A write, or a read.
        write: bool,
        /// The guest's state.
        registers: Box<Registers>,
    },
    /// The guest used an address that neither memory nor a device is at.
    #[error("The guest {} address {address:#x}, {size} bytes: nobody is there ({registers})", verb(*.write))]
    UnknownAddress {
        /// Guest-physical.
        address: u64,
        /// Bytes transferred.
        size: usize,
        /// A write, or a read.
        write: bool,
        /// The guest's state.
        registers: Box<Registers>,
    },
    /// `KVM_EXIT_INTERNAL_ERROR`: KVM cannot run this guest code.
    #[error("KVM internal error {suberror} ({registers})")]
    Internal {
        /// KVM's number: 1 emulation, 2 simultaneous exceptions, 3 event delivery...
        suberror: u32,
        /// The guest's state.
        registers: Box<Registers>,
    },
    /// `KVM_EXIT_FAIL_ENTRY`: the hardware refuses the guest's state.
    #[error(
        "The hardware refuses to enter the guest: reason {reason:#x} on CPU {cpu} ({registers})"
    )]
    FailEntry {
        /// The hardware's reason.
        reason: u64,
        /// The host CPU.
        cpu: u32,
        /// The guest's state.
        registers: Box<Registers>,
    },
    /// `KVM_EXIT_SHUTDOWN`: a triple fault, say.
    #[error("The guest shut down ({registers})")]
    Shutdown {
        /// The guest's state.
        registers: Box<Registers>,
    },
    /// A halt exit although the kernel handles this VM's halts.
    #[error("A halt left KVM_RUN although the irqchip is in the kernel ({registers})")]
    UnexpectedHalt {
        /// The guest's state.
        registers: Box<Registers>,
    },
    /// An exit that this VMM does not handle.
    #[error("Exit {exit} is not handled ({registers})")]
    Unhandled {
        /// KVM's name of it.
        exit: String,
        /// The guest's state.
        registers: Box<Registers>,
    },
    /// `KVM_RUN` failed.
    #[error("KVM_RUN failed")]
    Run(#[source] kvm_ioctls::Error),
    /// An interrupt could not be injected.
    #[error("KVM_INTERRUPT failed")]
    Inject(#[source] io::Error),
    /// Sleeping in a pause failed.
    #[error("Cannot sleep on a futex")]
    Pause(#[source] io::Error),
    /// The halt handler failed.
    #[error("The halt handler failed")]
    Halt(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The serial device failed.
    #[error("The serial device failed: {0}")]
    Serial(String),
    /// The vCPU has another thread already.
    #[error("Cannot claim the vCPU's slot")]
    Attach(#[from] vcpu_state::AttachError),
    /// The seccomp filter could not be installed.
    #[error("Cannot install the seccomp filter")]
    SeccompInstall(#[source] seccompiler::Error),
    /// The thread panicked: its halt handler did.
    #[error("The thread panicked")]
    Panicked,
    /// The thread made a system call that its filter forbids.
    #[error("System call {syscall} is not in the vCPU thread's seccomp filter")]
    SystemCallForbidden {
        /// Its number.
        syscall: i32,
    },
}

fn verb(write: bool) -> &'static str {
    if write { "wrote to" } else { "read from" }
}
