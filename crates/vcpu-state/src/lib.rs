// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the vCPU loops of a VMM know about themselves, and the traits the scheduling crates meet in.

#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test, loom))]
extern crate std;

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
