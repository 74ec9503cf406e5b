// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Poll, then block: the part that knows clocks, threads and system calls.

mod calibrate;
mod clock;
mod contention;
#[cfg(not(loom))]
mod event_fd;
mod futex;
mod poller;
mod relax;
mod sync;

pub use calibrate::{BlockCost, CalibrateError, calibrate};
pub use clock::{Clock, Monotonic};
pub use contention::{ClockGap, Contention, Unwatched};
#[cfg(not(loom))]
pub use event_fd::{EventFdWait, NotAnEventFd};
pub use futex::{FutexWait, wake, wake_sleeper};
pub use poller::{HaltEnd, HaltPoller, Halted};
pub use relax::{Relax, RelaxStep, Unsupported};
