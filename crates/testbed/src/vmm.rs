// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A small VMM for the testbed's own guest.
//!
//! One thread per vCPU, each under a seccomp filter, and one event loop for the console, the
//! injected tick and the end of the VM. What depends on the architecture is in [`arch`].
//!
//! ```no_run
//! use std::time::Duration;
//! use testbed::vmm::{BlockHalts, Irqchip, Program, Vector, Vm, VmConfig};
//!
//! let mut vm = Vm::new(VmConfig::new(Program::Idle, Irqchip::UserSpace))?;
//! let (interrupts, mailbox) = (vm.interrupts(), vm.mailbox(0)?);
//! vm.start(|_index| Box::new(BlockHalts))?;
//! vm.wait_ready(Duration::from_secs(5))?;
//! mailbox.post(1);
//! interrupts.raise(0, Vector::Request)?;
//! while mailbox.answered() != 1 {}
//! vm.stop()?;
//! # Ok::<(), testbed::vmm::Error>(())
//! ```

#[path = "../guest/abi.rs"]
pub mod abi;
pub mod arch;
mod config;
mod console;
mod devices;
mod error;
mod event_loop;
mod exit;
mod halt;
mod interrupts;
mod kick;
mod kvm_run;
mod loader;
mod mailbox;
mod memory;
mod seccomp;
mod stats;
pub mod thread;
mod vcpu;
mod vm;

pub use config::{HaltMechanism, Irqchip, Privilege, Program, VmConfig};
pub use error::{Error, VcpuError};
pub use exit::{Event, IdleReason, classify};
pub use halt::{BlockHalts, HaltHandler};
pub use interrupts::{Interrupts, Vector};
pub use mailbox::SharedMailbox;
pub use vcpu::{VcpuEnd, VcpuReport};
pub use vm::{Vm, VmReport};
