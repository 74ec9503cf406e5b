// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Policies that learn nothing.

#![forbid(unsafe_code)]

use crate::{Halt, Policy};

/// Always the same window: a VM that wants latency at any price, or a baseline.
///
/// With the window equal to the cost of blocking it is the best a policy can promise without
/// learning: at most twice the cost of one that knows the future.
///
/// ```
/// use halt_poll::{Fixed, Policy};
///
/// assert_eq!(Fixed::new(50_000).window(0), 50_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    window_ns: u32,
}

impl Fixed {
    /// A window of `window_ns` nanoseconds; 0 never polls.
    pub const fn new(window_ns: u32) -> Self {
        Self { window_ns }
    }
}

impl Policy for Fixed {
    fn window(&mut self, _now_ns: u64) -> u32 {
        self.window_ns
    }

    fn record(&mut self, _halt: &Halt) {}
}

/// Never polls: the documented off switch of one VM.
///
/// ```
/// use halt_poll::{Never, Policy};
///
/// assert_eq!(Never.window(0), 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Never;

impl Policy for Never {
    fn window(&mut self, _now_ns: u64) -> u32 {
        0
    }

    fn record(&mut self, _halt: &Halt) {}
}
