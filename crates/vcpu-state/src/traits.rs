// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The small traits the scheduling crates meet in: none of them knows another's types.

use crate::sync::AtomicU32;
use crate::{OffCpu, VcpuIndex};

/// What a halted vCPU, or an idle device thread, waits for.
///
/// The waiter calls all four methods from one thread at a time; whoever wakes it uses the source's
/// own means (a kick, an eventfd write).
pub trait WakeSource {
    /// Why blocking failed.
    type Error;

    /// Whether a wake-up is pending. Called in a tight loop; changes nothing. Whatever the waker
    /// wrote before it woke us is visible once this returned true.
    fn is_pending(&self) -> bool;

    /// Consumes the pending wake-up; says whether there was one.
    fn take(&self) -> bool;

    /// Sleeps until a wake-up is pending or `timeout_ns` (nanoseconds; `None`: no limit) is over.
    /// Returns at once when one is pending already: none is lost between the last
    /// [`is_pending`](Self::is_pending) and the sleep. May end without reason.
    ///
    /// # Errors
    ///
    /// What the operating system says, other than an interruption by a signal.
    fn block(&self, timeout_ns: Option<u64>) -> Result<BlockEnd, Self::Error>;

    /// The word in memory that changes from 0 when a wake-up becomes pending, if there is one: a
    /// CPU that can watch a cache line may wait for it.
    fn watched_word(&self) -> Option<&AtomicU32> {
        None
    }
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockEnd {
    /// The thread did not sleep: the wake-up was pending already.
    NotSlept,
    /// It slept and was woken, or the sleep ended without reason: look again.
    Woken,
    /// A signal interrupted it.
    Interrupted,
    /// The time was over.
    TimedOut,
}

/// Who is off its CPU, as an observer of the host's scheduler sees it.
pub trait OffCpuView {
    /// The state of one vCPU's thread; [`OffCpu::Unknown`] for one it does not know.
    fn state(&self, vcpu: VcpuIndex) -> OffCpu;

    /// 64 vCPUs at once: bit `b` of word `w` is set when vCPU `64 * w + b` is known to be runnable
    /// but off its CPU (preempted, or woken and waiting). Words out of range are 0.
    fn off_cpu_mask(&self, word: usize) -> u64;
}

/// The means to get a vCPU's thread a CPU sooner.
pub trait Booster {
    /// Why boosting failed.
    type Error;

    /// Has `target` run in place of the calling thread, `spinner`.
    ///
    /// # Errors
    ///
    /// When the means failed, as opposed to there being nothing to gain.
    fn boost(&self, spinner: VcpuIndex, target: VcpuIndex) -> Result<Boost, Self::Error>;
}

/// What came of a boost, as KVM's three-way result of `yield_to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Boost {
    /// The target was given the CPU.
    Boosted,
    /// The target could not be boosted (it runs, sleeps, or is boosted already): try another.
    NotEligible,
    /// Nobody gains (both have a CPU of their own): a few of these end a scan.
    NothingToGain,
}
