// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A vCPU's loop, on its own thread.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kvm_ioctls::{VcpuExit, VcpuFd};
use vcpu_state::{VcpuIndex, VcpuOwner, VcpuTable};

use super::config::HaltMechanism;
use super::devices::{Access, Devices};
use super::error::VcpuError;
use super::exit::{Event, classify};
use super::halt::HaltHandler;
use super::interrupts::Interrupts;
use super::kick::{RunFlag, Vcpus};
use super::memory::Memory;
use super::{arch, kvm_run, seccomp};

/// Why a vCPU's loop ended.
#[derive(Debug)]
pub enum VcpuEnd {
    /// The VMM wanted it.
    Stopped,
    /// The guest wanted it, with this status.
    Guest(u32),
    /// It could not go on.
    Failed(VcpuError),
}

impl fmt::Display for VcpuEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Guest(status) => write!(f, "ended by the guest with status {status:#x}"),
            Self::Failed(error) => {
                write!(f, "{error}")?;
                let mut source = std::error::Error::source(error);
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
        }
    }
}

/// A vCPU whose loop is over.
#[derive(Debug)]
pub struct VcpuReport {
    /// Why.
    pub end: VcpuEnd,
    /// Halts that reached the VMM.
    pub halts: u64,
    /// Times the guest was left, halts included.
    pub exits: u64,
}

impl VcpuReport {
    /// Of a vCPU that did not get to its loop, or out of it.
    pub(super) fn failed(error: VcpuError) -> Self {
        Self { end: VcpuEnd::Failed(error), halts: 0, exits: 0 }
    }
}

/// What a vCPU's loop shares with the rest of the VM.
#[derive(Clone)]
pub(super) struct VcpuContext {
    pub(super) vcpus: Arc<Vcpus>,
    pub(super) interrupts: Interrupts,
    pub(super) devices: Arc<Mutex<Devices>>,
    pub(super) mechanism: HaltMechanism,
    /// Not unmapped before this vCPU's thread has ended, even if the VM no longer waits for it.
    pub(super) _memory: Memory,
}

/// `VcpuOwner` wants something that derefs to the table.
struct Table(Arc<Vcpus>);

impl std::ops::Deref for Table {
    type Target = VcpuTable;

    fn deref(&self) -> &VcpuTable {
        &self.0.table
    }
}

struct VcpuLoop<'a> {
    context: &'a VcpuContext,
    fd: &'a mut VcpuFd,
    owner: VcpuOwner<Table>,
    report: VcpuReport,
}

/// What the loop does next.
enum Next {
    /// Enters the guest again.
    Enter,
    /// Waits for a wake-up first.
    Halt,
    /// Nothing more.
    End(VcpuEnd),
}

/// What a report says of an exit that no device handled.
#[derive(Default)]
struct Other {
    address: u64,
    size: usize,
    write: bool,
    name: String,
}

impl Other {
    fn new(event: Event, exit: &VcpuExit<'_>) -> Self {
        match exit {
            VcpuExit::MmioRead(address, data) => {
                Self { address: *address, size: data.len(), ..Self::default() }
            }
            VcpuExit::MmioWrite(address, data) => {
                Self { address: *address, size: data.len(), write: true, ..Self::default() }
            }
            exit if event == Event::Unhandled => {
                Self { name: format!("{exit:?}"), ..Self::default() }
            }
            _ => Self::default(),
        }
    }
}

/// Runs a vCPU until it ends; the calling thread is its thread, under its seccomp filter.
pub(super) fn run(
    context: &VcpuContext,
    index: VcpuIndex,
    fd: &mut VcpuFd,
    halts: &mut dyn HaltHandler,
) -> VcpuReport {
    let report = VcpuReport { end: VcpuEnd::Stopped, halts: 0, exits: 0 };
    let owner = match VcpuOwner::attach(Table(context.vcpus.clone()), index) {
        Ok(owner) => owner,
        Err(error) => return VcpuReport::failed(error.into()),
    };
    let flag = RunFlag::new(fd);
    let mut vcpu = VcpuLoop { context, fd, owner, report };
    vcpu.report.end = match vcpu.run(&flag, halts) {
        Ok(end) => end,
        Err(error) => VcpuEnd::Failed(error),
    };
    vcpu.report
}

impl VcpuLoop<'_> {
    fn run(&mut self, flag: &RunFlag, halts: &mut dyn HaltHandler) -> Result<VcpuEnd, VcpuError> {
        loop {
            if self.heed_requests()? {
                return Ok(VcpuEnd::Stopped);
            }
            if let Some(syscall) = seccomp::forbidden() {
                return Err(VcpuError::SystemCallForbidden { syscall });
            }
            self.inject()?;
            if self.owner.enter().exit_request() {
                self.owner.leave();
                continue;
            }
            let next = self.enter(flag);
            match next? {
                Next::Enter => {}
                Next::Halt => self.halt(halts)?,
                Next::End(end) => return Ok(end),
            }
        }
    }

    /// Does what the VMM wants of this loop: pauses it; says whether it ends.
    fn heed_requests(&mut self) -> Result<bool, VcpuError> {
        // First forget the request, then look what it was for: one that comes in between is seen
        // at the entry or ends the halt.
        self.owner.take_exit_request();
        if self.context.vcpus.is_pausing() {
            self.owner.pause();
            let slept = self.context.vcpus.sleep_while_pausing();
            self.owner.resume();
            slept.map_err(VcpuError::Pause)?;
        }
        Ok(self.context.vcpus.is_ending())
    }

    /// Injects the next pending vector, or asks for the moment when that is possible.
    fn inject(&mut self) -> Result<(), VcpuError> {
        let Some(pending) = self.context.interrupts.pending(self.owner.index().get()) else {
            return Ok(());
        };
        let mut waiting = pending.next();
        if let Some(vector) = waiting
            && arch::can_inject(self.fd)
        {
            pending.take(vector);
            arch::inject(self.fd, vector.number()).map_err(VcpuError::Inject)?;
            waiting = pending.next();
        }
        arch::request_window(self.fd, waiting.is_some());
        Ok(())
    }

    /// Runs the guest until its next exit, and handles that.
    fn enter(&mut self, flag: &RunFlag) -> Result<Next, VcpuError> {
        let result = self.fd.run();
        self.owner.leave();
        let exit = match result {
            Ok(exit) => exit,
            Err(error) if error.errno() == libc::EINTR => {
                flag.clear();
                return Ok(Next::Enter);
            }
            Err(error) => return Err(VcpuError::Run(error)),
        };
        self.report.exits += 1;
        let event = classify(&exit);
        let mut devices = self.context.devices.lock().unwrap_or_else(PoisonError::into_inner);
        let (access, port, size, write) = match exit {
            VcpuExit::IoOut(port, data) => (devices.write(port, data), port, data.len(), true),
            VcpuExit::IoIn(port, data) => (devices.read(port, data), port, data.len(), false),
            other => {
                drop(devices);
                let other = Other::new(event, &other);
                return self.handle(event, other);
            }
        };
        drop(devices);
        match access {
            Access::Done => Ok(Next::Enter),
            Access::Exit(status) => Ok(Next::End(VcpuEnd::Guest(status))),
            Access::Nobody => Err(VcpuError::UnknownPort {
                port,
                size,
                write,
                registers: Box::new(arch::registers(self.fd)),
            }),
            Access::Failed(why) => Err(VcpuError::Serial(why)),
        }
    }

    fn handle(&mut self, event: Event, other: Other) -> Result<Next, VcpuError> {
        let registers = |fd: &VcpuFd| Box::new(arch::registers(fd));
        Err(match event {
            Event::Idle(_) if self.context.mechanism == HaltMechanism::UserSpace => {
                self.report.halts += 1;
                return Ok(Next::Halt);
            }
            Event::Idle(_) => VcpuError::UnexpectedHalt { registers: registers(self.fd) },
            Event::InterruptWindow | Event::Interrupted => return Ok(Next::Enter),
            Event::Device => VcpuError::UnknownAddress {
                address: other.address,
                size: other.size,
                write: other.write,
                registers: registers(self.fd),
            },
            Event::Shutdown => VcpuError::Shutdown { registers: registers(self.fd) },
            Event::InternalError => VcpuError::Internal {
                suberror: kvm_run::internal_suberror(self.fd),
                registers: registers(self.fd),
            },
            Event::FailEntry(reason, cpu) => {
                VcpuError::FailEntry { reason, cpu, registers: registers(self.fd) }
            }
            Event::MemoryFault(address) => VcpuError::UnknownAddress {
                address,
                size: 0,
                write: false,
                registers: registers(self.fd),
            },
            Event::Unhandled => {
                VcpuError::Unhandled { exit: other.name, registers: registers(self.fd) }
            }
        })
    }

    /// Waits until there is an interrupt for the guest, or the VM ends. The guest's halt is over
    /// with the next entry, so that must not come too early.
    fn halt(&mut self, halts: &mut dyn HaltHandler) -> Result<(), VcpuError> {
        let context = self.context;
        let pending = context.interrupts.pending(self.owner.index().get());
        // With interrupts off, none ends this halt.
        let hears = arch::interrupts_enabled(self.fd);
        loop {
            let ending = self.heed_requests()?;
            if ending || hears && pending.is_some_and(|pending| pending.next().is_some()) {
                return Ok(());
            }
            self.owner.begin_halt();
            let result = halts.halt(self.owner.wake_word());
            self.owner.end_halt();
            // What the handler's failure is due to comes first.
            if let Some(syscall) = seccomp::forbidden() {
                return Err(VcpuError::SystemCallForbidden { syscall });
            }
            result.map_err(VcpuError::Halt)?;
        }
    }
}
