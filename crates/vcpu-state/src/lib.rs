// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the vCPU loops of a VMM know about themselves, and the traits the scheduling crates meet in.
//!
//! * [`VcpuTable`]: one slot per vCPU. Its thread attaches ([`VcpuOwner`]) and says what it does;
//!   anyone kicks it, asks it out of the guest, or asks what it does.
//! * [`WakeWord`]: the sticky, coalescing kick in each slot, also for use without a table.
//! * [`RunState`]: the union of what the loop says ([`LoopState`]) and what an observer of the
//!   host's scheduler says ([`OffCpu`], through [`OffCpuView`]).
//! * [`WakeSource`] and [`Booster`]: what a halt driver waits for, and how a thread gets a CPU.
//!
//! A kick is never lost, and several are one:
//!
//! ```
//! use vcpu_state::{Kick, VcpuTable};
//!
//! let table = VcpuTable::new(8)?;
//! let index = table.index(5)?;
//! let mut vcpu = table.attach(index)?;
//!
//! let _ = vcpu.enter(); // KVM_RUN would follow
//! assert_eq!(table.kick(index)?, Kick::InGuest);
//! assert_eq!(table.kick(index)?, Kick::Coalesced);
//! vcpu.leave();
//!
//! vcpu.begin_halt();
//! assert!(!vcpu.wake_word().begin_sleep(), "does not sleep");
//! assert!(vcpu.wake_word().take());
//! vcpu.end_halt();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The README has a whole vCPU loop, the costs, the threat model, and when not to use the crate.
//! The crate needs `alloc` (for the table), makes no system call, and needs no operating system;
//! its one feature, `std`, is passed on to `thiserror`.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![doc(test(attr(deny(warnings))))]

extern crate alloc;

mod cache_padded;
mod index;
mod state;
mod sync;
mod table;
mod traits;
mod wake_word;

pub use index::{IndexError, MAX_VCPUS, VcpuIndex};
pub use state::{LoopState, OffCpu, PreemptedIn, RunState};
pub use table::{AttachError, CountError, VcpuOwner, VcpuSnapshot, VcpuTable};
pub use traits::{BlockEnd, Boost, Booster, NoObserver, OffCpuView, WakeSource};
pub use wake_word::{Kick, Pending, WakeWord};

/// The README's code runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
