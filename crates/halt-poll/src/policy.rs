// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! How long to poll: the question every policy answers.

use crate::Halt;

/// Decides how long a halted vCPU polls before it blocks. One value serves one vCPU.
pub trait Policy {
    /// How long to poll in the halt that begins at `now_ns`, in nanoseconds; 0: block at once.
    /// Never above the policy's ceiling, whatever it learned.
    fn window(&mut self, now_ns: u64) -> u32;

    /// Learns from a halt that is over. A driver calls it once for each call of
    /// [`window`](Self::window); a policy inside a [`Gated`](crate::Gated) is not told of halts that
    /// were vetoed.
    fn record(&mut self, halt: &Halt);
}

impl<P: Policy + ?Sized> Policy for &mut P {
    fn window(&mut self, now_ns: u64) -> u32 {
        (**self).window(now_ns)
    }

    fn record(&mut self, halt: &Halt) {
        (**self).record(halt);
    }
}

/// So that the policy can be chosen at run time.
///
/// ```
/// use halt_poll::{Fixed, HaltPoller, Never, Policy};
///
/// let polls = true;
/// let policy: Box<dyn Policy + Send> =
///     if polls { Box::new(Fixed::new(20_000)) } else { Box::new(Never) };
/// let poller = HaltPoller::new(policy);
/// # let _ = poller;
/// ```
#[cfg(feature = "std")]
impl<P: Policy + ?Sized> Policy for Box<P> {
    fn window(&mut self, now_ns: u64) -> u32 {
        (**self).window(now_ns)
    }

    fn record(&mut self, halt: &Halt) {
        (**self).record(halt);
    }
}
