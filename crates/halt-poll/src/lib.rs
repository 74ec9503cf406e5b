// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halt polling for VMMs.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(missing_docs)]

mod adaptive;
mod counters;
#[cfg(feature = "std")]
mod driver;
mod fixed;
mod gated;
mod halt;
mod kernel;
mod params;
mod policy;

pub use adaptive::{Adaptive, AdaptiveParams, Share, ShareAboveOne, SharedAdaptiveParams, Weight};
pub use counters::{Counters, Log2Histogram};
#[cfg(all(feature = "std", not(loom)))]
pub use driver::EventFdWait;
#[cfg(feature = "std")]
pub use driver::{
    BlockCost, CalibrateError, Clock, ClockGap, Contention, FutexWait, HaltEnd, HaltPoller, Halted,
    Monotonic, Relax, RelaxStep, Unsupported, Unwatched, calibrate, wake, wake_sleeper,
};
pub use fixed::{Fixed, Never};
pub use gated::{Gated, KVM_FEATURE_POLL_CONTROL, MSR_KVM_POLL_CONTROL, ReservedPollControl};
pub use halt::Halt;
pub use kernel::{Adjustment, KernelPolicy};
pub use params::{KernelParams, SharedKernelParams, Source, VmOverride};
pub use policy::Policy;
