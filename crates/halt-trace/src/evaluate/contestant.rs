// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The policies that are compared.

use halt_poll::{
    Adaptive, AdaptiveParams, Fixed, KernelParams, KernelPolicy, Never, Policy, Share,
};

/// What a policy is told before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setup {
    /// B: the cost of blocking, in nanoseconds.
    pub block_cost_ns: u32,
    /// What [`KernelPolicy`] runs with: the trace's parameters.
    pub kernel: KernelParams,
    /// The ceiling of policies that learn, in nanoseconds.
    pub ceiling_ns: u32,
}

impl Setup {
    /// With a ceiling that is no limit, [`ample_ceiling_ns`](Self::ample_ceiling_ns).
    pub fn new(block_cost_ns: u32, kernel: KernelParams) -> Self {
        Self { block_cost_ns, kernel, ceiling_ns: Self::ample_ceiling_ns(block_cost_ns) }
    }

    /// A ceiling that is no limit for a policy that learns: no threshold that can be best is above
    /// it. 1 ms, or 32 B if that is more.
    pub fn ample_ceiling_ns(block_cost_ns: u32) -> u32 {
        block_cost_ns.saturating_mul(32).max(1_000_000)
    }
}

/// A policy that can be compared, and how to make one.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    /// Its name in tables and rows.
    pub name: &'static str,
    /// Makes a new one, for one vCPU.
    pub build: fn(&Setup) -> Box<dyn Policy>,
}

/// All of them. A new policy is one more line here.
pub const CONTESTANTS: &[Contestant] = &[
    Contestant { name: "never", build: |_| Box::new(Never) },
    Contestant { name: "always", build: |_| Box::new(Fixed::new(u32::MAX)) },
    Contestant { name: "fixed", build: |setup| Box::new(Fixed::new(setup.block_cost_ns)) },
    Contestant { name: "kernel", build: |setup| Box::new(KernelPolicy::new(setup.kernel)) },
    Contestant {
        name: "adaptive",
        // The cost model knows CPU time only, so latency counts nothing; the share has no bound.
        build: |setup| {
            Box::new(Adaptive::new(AdaptiveParams {
                block_cost_ns: setup.block_cost_ns,
                latency_ns: 0,
                ceiling_ns: setup.ceiling_ns,
                max_polled_share: Share::ALL,
                ..AdaptiveParams::default()
            }))
        },
    },
];
