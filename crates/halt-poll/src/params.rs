// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The kernel's four halt-polling parameters, and where they come from.

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Where a policy reads its parameters, afresh for every decision.
///
/// A decision takes one snapshot, so it never compares against two values of the same parameter.
/// A parameter set itself is a source (it never changes); [`SharedKernelParams`] and
/// [`SharedAdaptiveParams`](crate::SharedAdaptiveParams) may be changed by any thread at any time;
/// [`VmOverride`] puts a VM's own ceiling on top. `&S` and `Arc<S>` are sources, too.
pub trait Source {
    /// The set of parameters.
    type Params: Copy;

    /// The values now. Must be cheap: it is called twice for each halt.
    fn load(&self) -> Self::Params;
}

impl<S: Source + ?Sized> Source for &S {
    type Params = S::Params;

    fn load(&self) -> Self::Params {
        (**self).load()
    }
}

#[cfg(feature = "std")]
impl<S: Source + ?Sized> Source for std::sync::Arc<S> {
    type Params = S::Params;

    fn load(&self) -> Self::Params {
        (**self).load()
    }
}

/// The parameters of KVM's halt polling, named as the module's (Documentation/virt/kvm/halt-polling.rst).
///
/// Every value is allowed, as in the kernel. The default is x86's since Linux 6.11. The four are the
/// kernel's, and no field will be added.
///
/// ```
/// use halt_poll::KernelParams;
///
/// let params = KernelParams { halt_poll_ns: 50_000, ..KernelParams::default() };
/// assert_eq!((params.grow, params.grow_start, params.shrink), (2, 10_000, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelParams {
    /// The ceiling in nanoseconds; 0 stops polling at the next halt.
    pub halt_poll_ns: u32,
    /// Factor of a growing window; 0: it never grows.
    pub grow: u32,
    /// First step from 0, in nanoseconds, and the floor: a shrink below it gives 0.
    pub grow_start: u32,
    /// Divisor of a shrinking window; 0: back to 0 at once (the default before Linux 6.11).
    pub shrink: u32,
}

impl KernelParams {
    /// Linux on x86, since 6.11.
    pub const X86: Self = Self { halt_poll_ns: 200_000, grow: 2, grow_start: 10_000, shrink: 2 };
    /// Linux on arm64 and riscv, since 6.11.
    pub const ARM64: Self = Self { halt_poll_ns: 500_000, ..Self::X86 };
    /// Linux on s390, since 6.11.
    pub const S390: Self = Self { halt_poll_ns: 80_000, ..Self::X86 };
}

impl Default for KernelParams {
    fn default() -> Self {
        Self::X86
    }
}

impl Source for KernelParams {
    type Params = Self;

    fn load(&self) -> Self {
        *self
    }
}

/// Kernel parameters that every VM shares and any thread may change: the module's parameters.
///
/// The four are independent, as the kernel's are: a reader may see one new and one old.
///
/// ```
/// use halt_poll::{KernelParams, KernelPolicy, Policy, SharedKernelParams};
///
/// static HOST: SharedKernelParams = SharedKernelParams::new(KernelParams::X86);
/// let mut policy = KernelPolicy::new(&HOST);
/// HOST.set_halt_poll_ns(0);
/// assert_eq!(policy.window(0), 0);
/// ```
#[derive(Debug)]
pub struct SharedKernelParams {
    halt_poll_ns: AtomicU32,
    grow: AtomicU32,
    grow_start: AtomicU32,
    shrink: AtomicU32,
}

impl SharedKernelParams {
    /// Starts with `params`.
    pub const fn new(params: KernelParams) -> Self {
        Self {
            halt_poll_ns: AtomicU32::new(params.halt_poll_ns),
            grow: AtomicU32::new(params.grow),
            grow_start: AtomicU32::new(params.grow_start),
            shrink: AtomicU32::new(params.shrink),
        }
    }

    /// Changes the ceiling, in nanoseconds, of every VM that has no [`VmOverride`].
    pub fn set_halt_poll_ns(&self, ns: u32) {
        self.halt_poll_ns.store(ns, Ordering::Relaxed);
    }

    /// Changes the growth factor.
    pub fn set_grow(&self, factor: u32) {
        self.grow.store(factor, Ordering::Relaxed);
    }

    /// Changes the first step and floor, in nanoseconds.
    pub fn set_grow_start(&self, ns: u32) {
        self.grow_start.store(ns, Ordering::Relaxed);
    }

    /// Changes the shrink divisor.
    pub fn set_shrink(&self, divisor: u32) {
        self.shrink.store(divisor, Ordering::Relaxed);
    }
}

impl Default for SharedKernelParams {
    fn default() -> Self {
        Self::new(KernelParams::default())
    }
}

impl Source for SharedKernelParams {
    type Params = KernelParams;

    fn load(&self) -> KernelParams {
        KernelParams {
            halt_poll_ns: self.halt_poll_ns.load(Ordering::Relaxed),
            grow: self.grow.load(Ordering::Relaxed),
            grow_start: self.grow_start.load(Ordering::Relaxed),
            shrink: self.shrink.load(Ordering::Relaxed),
        }
    }
}

/// A VM's own ceiling over the host's parameters: `KVM_CAP_HALT_POLL`.
///
/// Until [`set`](Self::set) the VM follows the host's ceiling from halt to halt; from then on it
/// has its own, at once and for good (it may be set again, never taken back). The other parameters
/// stay the host's.
///
/// ```
/// use halt_poll::{KernelParams, SharedKernelParams, Source, VmOverride};
///
/// let host = SharedKernelParams::new(KernelParams::X86);
/// let vm = VmOverride::new(&host);
/// host.set_halt_poll_ns(100_000);
/// assert_eq!(vm.load().halt_poll_ns, 100_000);
/// vm.set(50_000);
/// host.set_halt_poll_ns(0);
/// assert_eq!(vm.load().halt_poll_ns, 50_000);
/// ```
#[derive(Debug)]
pub struct VmOverride<S> {
    host: S,
    /// The ceiling with [`OVERRIDDEN`] above it: one word, so that no reader sees half of it.
    ceiling: AtomicU64,
}

const OVERRIDDEN: u64 = 1 << 32;

impl<S> VmOverride<S> {
    /// A VM that follows `host`.
    pub const fn new(host: S) -> Self {
        Self { host, ceiling: AtomicU64::new(0) }
    }

    /// Gives the VM its own ceiling of `ns` nanoseconds; 0 turns polling off for this VM.
    pub fn set(&self, ns: u32) {
        self.ceiling.store(OVERRIDDEN | u64::from(ns), Ordering::Relaxed);
    }

    /// The VM's own ceiling, if it has one.
    pub fn get(&self) -> Option<u32> {
        let word = self.ceiling.load(Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "the low half is the ceiling")]
        (word & OVERRIDDEN != 0).then_some(word as u32)
    }
}

impl<S: Source<Params = KernelParams>> Source for VmOverride<S> {
    type Params = KernelParams;

    fn load(&self) -> KernelParams {
        let host = self.host.load();
        match self.get() {
            Some(halt_poll_ns) => KernelParams { halt_poll_ns, ..host },
            None => host,
        }
    }
}
