// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halt polling for VMMs: how long a halted vCPU polls before it blocks, and a driver that does it.
//!
//! A [`Policy`] chooses the window of each halt and learns from how it went: [`KernelPolicy`] as
//! Linux does, [`Adaptive`] by what pays, [`Fixed`] and [`Never`]. [`Gated`] adds vetoes,
//! [`Counters`] count. They are `no_std`, know no clock and do no I/O. With the feature `std` there
//! is also the driver, `HaltPoller`: poll, then block.
//!
//! ```
//! use halt_poll::{Counters, Halt, KernelParams, KernelPolicy, Policy};
//!
//! let mut policy = KernelPolicy::new(KernelParams::X86);
//! let mut counters = Counters::default();
//! // A halt of 30 us, then one of 4 us.
//! let window = policy.window(0);
//! let halt = Halt::slept(0, window, window.into(), 30_000);
//! policy.record(&halt);
//! counters.record(&halt);
//! let window = policy.window(50_000);
//! assert_eq!(window, 10_000);
//! let halt = Halt::polled(50_000, window, 4_000);
//! policy.record(&halt);
//! counters.record(&halt);
//! assert_eq!((counters.attempted, counters.successful, counters.wakeup), (1, 1, 1));
//! ```

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
#[cfg(feature = "std")]
pub use driver::{
    BlockCost, CalibrateError, Clock, ClockGap, Contention, FutexWait, HaltEnd, HaltPoller, Halted,
    Monotonic, Relax, RelaxStep, Unsupported, Unwatched, calibrate, wake, wake_sleeper,
};
#[cfg(all(feature = "std", not(loom)))]
pub use driver::{EventFdWait, NotAnEventFd};
pub use fixed::{Fixed, Never};
pub use gated::{Gated, KVM_FEATURE_POLL_CONTROL, MSR_KVM_POLL_CONTROL, ReservedPollControl};
pub use halt::Halt;
pub use kernel::{Adjustment, KernelPolicy};
pub use params::{KernelParams, SharedKernelParams, Source, VmOverride};
pub use policy::Policy;

/// The README's examples, tested.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
