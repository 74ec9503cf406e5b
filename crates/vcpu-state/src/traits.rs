// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The small traits the scheduling crates meet in: none of them knows another's types.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::sync::AtomicU32;
use crate::{OffCpu, VcpuIndex};

/// What a halted vCPU, or an idle device thread, waits for.
///
/// The waiter calls all four methods from one thread at a time; whoever wakes it uses the source's
/// own means (a kick, an eventfd write).
///
/// ```
/// use std::convert::Infallible;
/// use std::thread;
/// use std::time::{Duration, Instant};
/// use vcpu_state::{BlockEnd, Kick, WakeSource, WakeWord};
///
/// /// Waits for a wake word by yielding; a kicker has nothing to do for it.
/// struct YieldWait<'a>(&'a WakeWord);
///
/// impl WakeSource for YieldWait<'_> {
///     type Error = Infallible;
///
///     fn is_pending(&self) -> bool {
///         self.0.is_kicked()
///     }
///
///     fn take(&self) -> bool {
///         self.0.take()
///     }
///
///     fn block(&self, timeout_ns: Option<u64>) -> Result<BlockEnd, Infallible> {
///         if self.is_pending() {
///             return Ok(BlockEnd::NotSlept);
///         }
///         let start = Instant::now();
///         while !self.is_pending() {
///             if timeout_ns.is_some_and(|ns| start.elapsed() >= Duration::from_nanos(ns)) {
///                 return Ok(BlockEnd::TimedOut);
///             }
///             thread::yield_now();
///         }
///         Ok(BlockEnd::Woken)
///     }
/// }
///
/// let word = WakeWord::new();
/// let source = YieldWait(&word);
/// assert_eq!(source.block(Some(1000)), Ok(BlockEnd::TimedOut));
/// thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(word.kick(), Kick::Stored));
///     while !source.take() {
///         source.block(None).unwrap();
///     }
/// });
/// assert!(!source.is_pending());
/// ```
pub trait WakeSource {
    /// Why blocking failed.
    type Error;

    /// Whether a wake-up is pending. Called in a tight loop; changes nothing. Whatever the waker
    /// wrote before it woke us is visible once this returned true.
    fn is_pending(&self) -> bool;

    /// Consumes the pending wake-up; says whether there was one. A source may have wake-ups that it
    /// leaves pending for somebody else to consume ([`WakeWord::request_exit`](crate::WakeWord)):
    /// then it is true each time until they did.
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
///
/// ```
/// use vcpu_state::{OffCpu, OffCpuView, PreemptedIn, VcpuIndex};
///
/// /// Knows of one vCPU that was preempted.
/// struct One(VcpuIndex);
///
/// impl OffCpuView for One {
///     fn state(&self, vcpu: VcpuIndex) -> OffCpu {
///         match vcpu == self.0 {
///             true => OffCpu::Preempted(PreemptedIn::Unknown),
///             false => OffCpu::Unknown,
///         }
///     }
/// }
///
/// let index = VcpuIndex::new(67)?;
/// let view = One(index);
/// assert_eq!(view.off_cpu_mask(1), index.bit());
/// assert!(VcpuIndex::in_word(1, view.off_cpu_mask(1)).eq([index]));
/// # Ok::<(), vcpu_state::IndexError>(())
/// ```
pub trait OffCpuView {
    /// The state of one vCPU's thread; [`OffCpu::Unknown`] for one it does not know.
    fn state(&self, vcpu: VcpuIndex) -> OffCpu;

    /// 64 vCPUs at once: bit `b` of word `w` is set when vCPU `64 * w + b` is known to be runnable
    /// but off its CPU (preempted, or woken and waiting). Words out of range are 0. By default asks
    /// for the [`state`](Self::state) of each.
    fn off_cpu_mask(&self, word: usize) -> u64 {
        VcpuIndex::in_word(word, !0)
            .filter(|&vcpu| matches!(self.state(vcpu), OffCpu::Preempted(_) | OffCpu::WokenWaiting))
            .fold(0, |mask, vcpu| mask | vcpu.bit())
    }
}

/// Knows of nobody: for hosts without an observer, and for tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NoObserver;

impl OffCpuView for NoObserver {
    #[inline]
    fn state(&self, _vcpu: VcpuIndex) -> OffCpu {
        OffCpu::Unknown
    }

    #[inline]
    fn off_cpu_mask(&self, _word: usize) -> u64 {
        0
    }
}

/// The means to get a vCPU's thread a CPU sooner.
///
/// ```
/// use std::io;
/// use vcpu_state::{Boost, Booster, VcpuIndex};
///
/// /// Gives the CPU to whomever the host's scheduler likes.
/// struct Yield;
///
/// impl Booster for Yield {
///     type Error = io::Error;
///
///     fn boost(&self, spinner: VcpuIndex, target: VcpuIndex) -> io::Result<Boost> {
///         if spinner == target {
///             return Ok(Boost::NotEligible);
///         }
///         std::thread::yield_now();
///         Ok(Boost::Boosted)
///     }
/// }
///
/// let index = VcpuIndex::new(0)?;
/// assert_eq!(Yield.boost(index, index)?, Boost::NotEligible);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

/// A reference or an owner of an implementation is one too.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<T: WakeSource + ?Sized> WakeSource for $pointer {
            type Error = T::Error;

            #[inline]
            fn is_pending(&self) -> bool {
                (**self).is_pending()
            }

            #[inline]
            fn take(&self) -> bool {
                (**self).take()
            }

            #[inline]
            fn block(&self, timeout_ns: Option<u64>) -> Result<BlockEnd, Self::Error> {
                (**self).block(timeout_ns)
            }

            #[inline]
            fn watched_word(&self) -> Option<&AtomicU32> {
                (**self).watched_word()
            }
        }

        impl<T: OffCpuView + ?Sized> OffCpuView for $pointer {
            #[inline]
            fn state(&self, vcpu: VcpuIndex) -> OffCpu {
                (**self).state(vcpu)
            }

            #[inline]
            fn off_cpu_mask(&self, word: usize) -> u64 {
                (**self).off_cpu_mask(word)
            }
        }

        impl<T: Booster + ?Sized> Booster for $pointer {
            type Error = T::Error;

            #[inline]
            fn boost(&self, spinner: VcpuIndex, target: VcpuIndex) -> Result<Boost, Self::Error> {
                (**self).boost(spinner, target)
            }
        }
    )*};
}

forward!(&T, Box<T>, Arc<T>);
