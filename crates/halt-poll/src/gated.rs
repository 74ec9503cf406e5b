// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Vetoes against polling, around any policy.

#![forbid(unsafe_code)]

use crate::{Halt, Policy};

/// The MSR by which an x86 guest that polls by itself asks its host not to (`MSR_KVM_POLL_CONTROL`).
pub const MSR_KVM_POLL_CONTROL: u32 = 0x4b56_4d05;

/// `KVM_FEATURE_POLL_CONTROL`: the bit of CPUID leaf 0x40000001 EAX that offers the MSR.
pub const KVM_FEATURE_POLL_CONTROL: u32 = 12;

/// A value of `MSR_KVM_POLL_CONTROL` with reserved bits set. The guest gets #GP; nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("reserved bits in MSR_KVM_POLL_CONTROL: {value:#x}")]
#[non_exhaustive]
pub struct ReservedPollControl {
    /// What the guest wrote.
    pub value: u64,
}

/// No polling while the guest or the steal time forbids it, else as the policy inside says.
///
/// The question is answered once for each halt, at its begin: a vetoed halt has a window of 0 and
/// teaches the policy nothing, as in the kernel. Parameters still apply to a vetoed halt: the
/// policy's window is asked for and dropped, which clamps it to the ceiling.
///
/// * **Guest**: bit 0 of `MSR_KVM_POLL_CONTROL`, 1 after reset. A guest that polls before it halts
///   (Linux's haltpoll cpuidle governor) clears it, so that no idle time is polled twice.
/// * **Steal**: polling takes CPU time from whoever waits for it. Off unless
///   [`set_max_steal`](Self::set_max_steal) names a limit (s390's is 10 %); then a steal time at or
///   above it vetoes. The VMM tells the steal time by [`set_steal`](Self::set_steal).
///
/// ```
/// use halt_poll::{Fixed, Gated, Policy};
///
/// let mut policy = Gated::new(Fixed::new(50_000));
/// policy.set_poll_control(0)?;
/// assert_eq!(policy.window(0), 0);
/// assert!(policy.set_poll_control(2).is_err());
/// # Ok::<(), halt_poll::ReservedPollControl>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gated<P> {
    policy: P,
    guest_allows: bool,
    max_steal_percent: Option<u32>,
    steal_percent: u32,
    /// The answer for the halt that began last.
    allowed: bool,
    vetoed_by_guest: u64,
    vetoed_by_steal: u64,
}

impl<P> Gated<P> {
    /// Lets `policy` through until somebody objects.
    pub const fn new(policy: P) -> Self {
        Self {
            policy,
            guest_allows: true,
            max_steal_percent: None,
            steal_percent: 0,
            allowed: true,
            vetoed_by_guest: 0,
            vetoed_by_steal: 0,
        }
    }

    /// The policy inside.
    pub const fn policy(&self) -> &P {
        &self.policy
    }

    /// The policy inside.
    pub const fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// The value of `MSR_KVM_POLL_CONTROL`, for the guest and to save: 0 or 1.
    pub const fn poll_control(&self) -> u64 {
        self.guest_allows as u64
    }

    /// Takes a value of `MSR_KVM_POLL_CONTROL`, from the guest or from a saved state. A reset of
    /// the vCPU writes 1. It counts from the next halt on.
    ///
    /// # Errors
    /// [`ReservedPollControl`] when a bit other than bit 0 is set; nothing changes.
    pub const fn set_poll_control(&mut self, value: u64) -> Result<(), ReservedPollControl> {
        if value > 1 {
            return Err(ReservedPollControl { value });
        }
        self.guest_allows = value == 1;
        Ok(())
    }

    /// The steal time at and above which there is no polling, in percent of wall time; `None`: no
    /// limit. 0 forbids all polling.
    pub const fn set_max_steal(&mut self, percent: Option<u32>) {
        self.max_steal_percent = percent;
    }

    /// The steal time of late, in percent of wall time: the share in which the vCPU's thread, or
    /// the whole host where that is known, wanted a CPU and had none.
    pub const fn set_steal(&mut self, percent: u32) {
        self.steal_percent = percent;
    }

    /// Halts in which the guest vetoed polling.
    pub const fn vetoed_by_guest(&self) -> u64 {
        self.vetoed_by_guest
    }

    /// Halts in which the steal time vetoed polling.
    pub const fn vetoed_by_steal(&self) -> u64 {
        self.vetoed_by_steal
    }
}

impl<P: Policy> Policy for Gated<P> {
    fn window(&mut self, now_ns: u64) -> u32 {
        let window = self.policy.window(now_ns);
        let stolen = self.max_steal_percent.is_some_and(|max| self.steal_percent >= max);
        self.allowed = self.guest_allows && !stolen;
        if self.allowed {
            return window;
        }
        if self.guest_allows {
            self.vetoed_by_steal = self.vetoed_by_steal.wrapping_add(1);
        } else {
            self.vetoed_by_guest = self.vetoed_by_guest.wrapping_add(1);
        }
        0
    }

    fn record(&mut self, halt: &Halt) {
        if self.allowed {
            self.policy.record(halt);
        }
    }
}
