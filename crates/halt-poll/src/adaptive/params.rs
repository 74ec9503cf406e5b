// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What an adaptive policy is told: the host's costs and the user's wishes.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::Source;

/// What a nanosecond of latency is worth in nanoseconds of CPU time, in percent.
///
/// 0: only CPU time counts. 100 (the default): both alike. 1000: ten times the CPU time is a fair
/// price.
///
/// ```
/// use halt_poll::Weight;
///
/// assert_eq!(Weight::percent(150).apply(1_000), 1_500);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u16);

impl Weight {
    /// A weight of `percent` / 100.
    pub const fn percent(percent: u16) -> Self {
        Self(percent)
    }

    /// The weight in percent.
    pub const fn as_percent(self) -> u16 {
        self.0
    }

    /// The CPU time that `latency_ns` is worth, in nanoseconds, rounded down.
    pub const fn apply(self, latency_ns: u32) -> u64 {
        latency_ns as u64 * self.0 as u64 / 100
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(100)
    }
}

/// A share of wall time, in millionths.
///
/// ```
/// use halt_poll::Share;
///
/// assert_eq!(Share::percent(10)?, Share::from_ppm(100_000)?);
/// assert!(Share::percent(101).is_err());
/// # Ok::<(), halt_poll::ShareAboveOne>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

/// A share of more than the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("share of {ppm} millionths is more than one")]
#[non_exhaustive]
pub struct ShareAboveOne {
    /// What was asked for, in millionths.
    pub ppm: u64,
}

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Everything: no bound.
    pub const ALL: Self = Self(Self::ONE);

    pub(crate) const ONE: u32 = 1_000_000;

    /// A share of `ppm` millionths.
    ///
    /// # Errors
    /// [`ShareAboveOne`] for more than a million.
    pub const fn from_ppm(ppm: u32) -> Result<Self, ShareAboveOne> {
        if ppm > Self::ONE { Err(ShareAboveOne { ppm: ppm as u64 }) } else { Ok(Self(ppm)) }
    }

    /// A share of `percent` hundredths.
    ///
    /// # Errors
    /// [`ShareAboveOne`] for more than a hundred.
    pub const fn percent(percent: u32) -> Result<Self, ShareAboveOne> {
        let ppm = percent as u64 * 10_000;
        if ppm > Self::ONE as u64 { Err(ShareAboveOne { ppm }) } else { Ok(Self(percent * 10_000)) }
    }

    /// The share in millionths.
    pub const fn as_ppm(self) -> u32 {
        self.0
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::ALL
    }
}

/// The host's costs and the user's wishes. Every value is allowed; what follows from extreme ones
/// is said at the field.
///
/// The costs are the host's own: measure them (the driver's calibration does). The default is a
/// guess for a bare-metal x86 server.
///
/// End a literal by `..AdaptiveParams::default()`, as below: a new field may come with a minor
/// version, and breaks only literals that name all fields.
///
/// ```
/// use halt_poll::{AdaptiveParams, Weight};
///
/// let params = AdaptiveParams {
///     block_cost_ns: 4_000,
///     latency_ns: 6_000,
///     latency_weight: Weight::percent(50),
///     ..AdaptiveParams::default()
/// };
/// assert_eq!(params.effective_block_cost_ns(), 7_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdaptiveParams {
    /// CPU time that one sleep and wake-up costs, on the sleeper's and the waker's side, in
    /// nanoseconds. 0 (with a latency worth 0): blocking is free, so there is no polling.
    pub block_cost_ns: u32,
    /// How much later than a poller a sleeper goes on after the same wake-up, in nanoseconds. It
    /// is taken off the measured length of halts that slept.
    pub latency_ns: u32,
    /// What latency is worth against CPU time.
    pub latency_weight: Weight,
    /// No window is longer, in nanoseconds; 0 stops polling at the next halt.
    pub ceiling_ns: u32,
    /// Bound on the polled share of wall time.
    pub max_polled_share: Share,
}

impl AdaptiveParams {
    /// The largest effective cost of blocking: 2^27 ns, 0.13 s. Larger ones count as this.
    pub const MAX_EFFECTIVE_BLOCK_COST_NS: u32 = 1 << 27;

    /// What blocking costs in all, in nanoseconds of CPU time: `block_cost_ns` and the weighed
    /// latency, at most [`MAX_EFFECTIVE_BLOCK_COST_NS`](Self::MAX_EFFECTIVE_BLOCK_COST_NS). The B
    /// of this crate's documentation.
    #[expect(clippy::cast_possible_truncation, reason = "compared with a u32 before")]
    pub const fn effective_block_cost_ns(&self) -> u32 {
        let cost = self.block_cost_ns as u64 + self.latency_weight.apply(self.latency_ns);
        if cost < Self::MAX_EFFECTIVE_BLOCK_COST_NS as u64 {
            cost as u32
        } else {
            Self::MAX_EFFECTIVE_BLOCK_COST_NS
        }
    }

    /// `!=`, in one branch: it is asked at every halt.
    #[inline]
    pub(super) const fn differs(&self, other: &Self) -> bool {
        let weights = self.latency_weight.0 ^ other.latency_weight.0;
        let differences = (self.block_cost_ns ^ other.block_cost_ns)
            | (self.latency_ns ^ other.latency_ns)
            | (self.ceiling_ns ^ other.ceiling_ns)
            | (self.max_polled_share.0 ^ other.max_polled_share.0)
            | weights as u32;
        differences != 0
    }
}

impl Default for AdaptiveParams {
    fn default() -> Self {
        Self {
            block_cost_ns: 5_000,
            latency_ns: 5_000,
            latency_weight: Weight::default(),
            ceiling_ns: 200_000,
            max_polled_share: Share::ALL,
        }
    }
}

impl Source for AdaptiveParams {
    type Params = Self;

    fn load(&self) -> Self {
        *self
    }
}

/// Adaptive parameters that several vCPUs share and any thread may change.
///
/// A change counts from the next halt on. The five are independent: a reader may see one new and
/// one old.
///
/// ```
/// use halt_poll::{Adaptive, AdaptiveParams, Policy, SharedAdaptiveParams};
///
/// static HOST: SharedAdaptiveParams = SharedAdaptiveParams::new(AdaptiveParams {
///     block_cost_ns: 10_000,
///     latency_ns: 0,
///     latency_weight: halt_poll::Weight::percent(100),
///     ceiling_ns: 200_000,
///     max_polled_share: halt_poll::Share::ALL,
/// });
/// let mut policy = Adaptive::new(&HOST);
/// assert_eq!(policy.window(0), 10_000);
/// HOST.set_ceiling_ns(0);
/// assert_eq!(policy.window(0), 0);
/// ```
#[derive(Debug)]
pub struct SharedAdaptiveParams {
    block_cost_ns: AtomicU32,
    latency_ns: AtomicU32,
    latency_weight_percent: AtomicU32,
    ceiling_ns: AtomicU32,
    max_polled_ppm: AtomicU32,
}

impl SharedAdaptiveParams {
    /// Starts with `params`.
    pub const fn new(params: AdaptiveParams) -> Self {
        Self {
            block_cost_ns: AtomicU32::new(params.block_cost_ns),
            latency_ns: AtomicU32::new(params.latency_ns),
            latency_weight_percent: AtomicU32::new(params.latency_weight.0 as u32),
            ceiling_ns: AtomicU32::new(params.ceiling_ns),
            max_polled_ppm: AtomicU32::new(params.max_polled_share.0),
        }
    }

    /// Changes the CPU time of a sleep and wake-up, in nanoseconds.
    pub fn set_block_cost_ns(&self, ns: u32) {
        self.block_cost_ns.store(ns, Ordering::Relaxed);
    }

    /// Changes the latency of a wake-up, in nanoseconds.
    pub fn set_latency_ns(&self, ns: u32) {
        self.latency_ns.store(ns, Ordering::Relaxed);
    }

    /// Changes what latency is worth.
    pub fn set_latency_weight(&self, weight: Weight) {
        self.latency_weight_percent.store(u32::from(weight.0), Ordering::Relaxed);
    }

    /// Changes the ceiling, in nanoseconds; 0 stops polling at the next halt.
    pub fn set_ceiling_ns(&self, ns: u32) {
        self.ceiling_ns.store(ns, Ordering::Relaxed);
    }

    /// Changes the bound on the polled share of wall time.
    pub fn set_max_polled_share(&self, share: Share) {
        self.max_polled_ppm.store(share.0, Ordering::Relaxed);
    }
}

impl Default for SharedAdaptiveParams {
    fn default() -> Self {
        Self::new(AdaptiveParams::default())
    }
}

impl Source for SharedAdaptiveParams {
    type Params = AdaptiveParams;

    fn load(&self) -> AdaptiveParams {
        #[expect(clippy::cast_possible_truncation, reason = "only a Weight's u16 is ever stored")]
        let weight = self.latency_weight_percent.load(Ordering::Relaxed) as u16;
        AdaptiveParams {
            block_cost_ns: self.block_cost_ns.load(Ordering::Relaxed),
            latency_ns: self.latency_ns.load(Ordering::Relaxed),
            latency_weight: Weight(weight),
            ceiling_ns: self.ceiling_ns.load(Ordering::Relaxed),
            max_polled_share: Share(self.max_polled_ppm.load(Ordering::Relaxed)),
        }
    }
}
