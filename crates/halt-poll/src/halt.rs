// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! One halt, as it went.

/// A halt that is over: what a policy learns from and counters count.
///
/// Times are nanoseconds; `start_ns` is on any monotonic clock, the same for all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Halt {
    /// When the halt began.
    pub start_ns: u64,
    /// From its begin until the vCPU goes on, polling and sleep included.
    pub halt_ns: u64,
    /// The window the policy gave: 0 when there was no polling.
    pub window_ns: u32,
    /// The part of `halt_ns` that was spent polling.
    pub polled_ns: u64,
    /// Whether the thread really slept. A wake-up that arrives between the last look of the poll
    /// loop and the sleep did not sleep: the poll was successful.
    pub slept: bool,
    /// Whether the wake-up was for this vCPU (only s390 knows others).
    pub valid: bool,
    /// Whether the polling was given up because somebody else wanted the CPU.
    pub contended: bool,
}

impl Halt {
    /// A halt that ended while polling, `halt_ns` after it began.
    pub const fn polled(start_ns: u64, window_ns: u32, halt_ns: u64) -> Self {
        Self {
            start_ns,
            halt_ns,
            window_ns,
            polled_ns: halt_ns,
            slept: false,
            valid: true,
            contended: false,
        }
    }

    /// A halt that polled for `polled_ns` in vain and then slept.
    pub const fn slept(start_ns: u64, window_ns: u32, polled_ns: u64, halt_ns: u64) -> Self {
        Self { start_ns, halt_ns, window_ns, polled_ns, slept: true, valid: true, contended: false }
    }

    /// The same, with a wake-up that was not for this vCPU.
    #[must_use]
    pub const fn invalid(self) -> Self {
        Self { valid: false, ..self }
    }

    /// The same, with polling given up because somebody else wanted the CPU.
    #[must_use]
    pub const fn contended(self) -> Self {
        Self { contended: true, ..self }
    }
}
