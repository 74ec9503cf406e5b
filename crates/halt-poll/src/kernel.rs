// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The kernel's policy, bit for bit.

#![forbid(unsafe_code)]

use crate::{Halt, KernelParams, Policy, Source};

/// What a halt did to the window of a [`KernelPolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adjustment {
    /// The window stayed as it was; the kernel says nothing.
    Keep,
    /// The window grew. With `grow` = 0 the kernel reports this with both windows equal.
    Grow {
        /// Before, in nanoseconds.
        from: u32,
        /// After, in nanoseconds. Not capped: the cap comes before the next poll.
        to: u32,
    },
    /// The window shrank (from 0 to 0 at an invalid wake-up).
    Shrink {
        /// Before, in nanoseconds.
        from: u32,
        /// After, in nanoseconds.
        to: u32,
    },
    /// The ceiling is 0, so the window is; the kernel says nothing.
    Off {
        /// Before, in nanoseconds.
        from: u32,
    },
}

impl Adjustment {
    /// Whether the kernel's `kvm_halt_poll_ns` tracepoint fires: for [`Grow`](Self::Grow) and
    /// [`Shrink`](Self::Shrink), whether or not the window changed.
    pub const fn is_traced(&self) -> bool {
        matches!(self, Self::Grow { .. } | Self::Shrink { .. })
    }
}

/// Linux's halt-polling policy with the same windows, halt for halt.
///
/// Semantics of `kvm_vcpu_halt` in Linux 6.11 and later (6.1 has another default for `shrink`).
/// The window doubles when a halt was longer than it and shorter than the ceiling, shrinks after a
/// halt longer than the ceiling or an invalid wake-up, and is clamped to the ceiling before each
/// poll. Parameters are read afresh at each halt, the ceiling once before the poll and once after.
/// The arithmetic is the kernel's: a product that overflows 32 bits wraps.
///
/// ```
/// use halt_poll::{Adjustment, Halt, KernelParams, KernelPolicy, Policy};
///
/// let mut policy = KernelPolicy::new(KernelParams::X86);
/// assert_eq!(policy.window(0), 0);
/// let halt = Halt::slept(0, 0, 0, 30_000);
/// assert_eq!(policy.adjust(&halt), Adjustment::Grow { from: 0, to: 10_000 });
/// assert_eq!(policy.window(40_000), 10_000);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct KernelPolicy<S> {
    source: S,
    window: u32,
}

impl<S: Source<Params = KernelParams>> KernelPolicy<S> {
    /// Starts with a window of 0, as a new vCPU does.
    pub const fn new(source: S) -> Self {
        Self { source, window: 0 }
    }

    /// Continues with `window_ns`, for example of a restored vCPU or in the middle of a trace.
    pub const fn with_window(source: S, window_ns: u32) -> Self {
        Self { source, window: window_ns }
    }

    /// The window as it stands, in nanoseconds, before the clamp of the next halt.
    pub const fn window_ns(&self) -> u32 {
        self.window
    }

    /// Where the parameters come from.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// [`record`](Policy::record) that says what it did.
    pub fn adjust(&mut self, halt: &Halt) -> Adjustment {
        let params = self.source.load();
        let max = params.halt_poll_ns;
        let from = self.window;
        let adjustment = if !halt.valid {
            Adjustment::Shrink { from, to: shrunk(from, &params) }
        } else if max == 0 {
            Adjustment::Off { from }
        } else if halt.halt_ns <= u64::from(from) {
            Adjustment::Keep
        } else if from > 0 && halt.halt_ns > u64::from(max) {
            Adjustment::Shrink { from, to: shrunk(from, &params) }
        } else if from < max && halt.halt_ns < u64::from(max) {
            Adjustment::Grow { from, to: grown(from, &params) }
        } else {
            Adjustment::Keep
        };
        self.window = match adjustment {
            Adjustment::Keep => from,
            Adjustment::Grow { to, .. } | Adjustment::Shrink { to, .. } => to,
            Adjustment::Off { .. } => 0,
        };
        adjustment
    }
}

impl<S: Source<Params = KernelParams>> Policy for KernelPolicy<S> {
    fn window(&mut self, _now_ns: u64) -> u32 {
        self.window = self.window.min(self.source.load().halt_poll_ns);
        self.window
    }

    fn record(&mut self, halt: &Halt) {
        self.adjust(halt);
    }
}

/// The next larger window. It may pass the ceiling, and wraps in 32 bits.
const fn grown(window: u32, params: &KernelParams) -> u32 {
    if params.grow == 0 {
        return window;
    }
    let product = window.wrapping_mul(params.grow);
    if product < params.grow_start { params.grow_start } else { product }
}

/// The next smaller window: 0 rather than below the floor.
const fn shrunk(window: u32, params: &KernelParams) -> u32 {
    let quotient = match window.checked_div(params.shrink) {
        Some(quotient) => quotient,
        None => 0,
    };
    if quotient < params.grow_start { 0 } else { quotient }
}
