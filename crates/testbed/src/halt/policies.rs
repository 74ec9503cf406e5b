// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The policies of the user-space rows, made for this host.

use halt_poll::{
    Adaptive, AdaptiveParams, BlockCost, ClockGap, Contention, Fixed, Halt, HaltPoller,
    KernelParams, KernelPolicy, Never, Policy, Weight,
};

use super::rows::{ALWAYS_NS, RowPolicy};

/// What latency is worth in the rows that weigh it against CPU time: a microsecond that a client
/// waits less is worth 4 us of the host's CPU time. A VMM that serves requests wants about this (the
/// kernel's ceiling of 200 us stands for far more); halt-poll's own default is 1.
pub const LATENCY_WEIGHT: Weight = Weight::percent(400);

/// What policies need to know of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostParams {
    /// The kvm module's parameters, or the default ones without it.
    pub kernel: KernelParams,
    /// What the adaptive policy is told. Its effective blocking cost is the fixed row's window.
    pub adaptive: AdaptiveParams,
}

impl HostParams {
    /// With the blocking cost as calibrated, latency worth `LATENCY_WEIGHT`, and no bound on the
    /// polled share. The ceiling is the library's default, but at least twice the effective
    /// blocking cost.
    pub fn new(cost: BlockCost, kernel: KernelParams) -> Self {
        let adaptive = AdaptiveParams {
            block_cost_ns: cost.cpu_ns,
            latency_ns: cost.latency_ns,
            latency_weight: LATENCY_WEIGHT,
            ..AdaptiveParams::default()
        };
        let twice = adaptive.effective_block_cost_ns().saturating_mul(2);
        let ceiling_ns = adaptive.ceiling_ns.max(twice);
        Self { kernel, adaptive: AdaptiveParams { ceiling_ns, ..adaptive } }
    }
}

/// One of the policies of the table.
#[derive(Clone, Debug)]
pub enum TablePolicy {
    /// [`RowPolicy::Never`].
    Never(Never),
    /// [`RowPolicy::Always`] and [`RowPolicy::Fixed`].
    Fixed(Fixed),
    /// [`RowPolicy::Kernel`].
    Kernel(KernelPolicy<KernelParams>),
    /// [`RowPolicy::Adaptive`].
    Adaptive(Box<Adaptive<AdaptiveParams>>),
}

impl TablePolicy {
    /// The policy of a row, for one vCPU.
    pub fn new(policy: RowPolicy, host: &HostParams) -> Self {
        match policy {
            RowPolicy::Never => Self::Never(Never),
            RowPolicy::Always => Self::Fixed(Fixed::new(ALWAYS_NS)),
            RowPolicy::Fixed => Self::Fixed(Fixed::new(host.adaptive.effective_block_cost_ns())),
            RowPolicy::Kernel => Self::Kernel(KernelPolicy::new(host.kernel)),
            RowPolicy::Adaptive => Self::Adaptive(Box::new(Adaptive::new(host.adaptive))),
        }
    }
}

impl Policy for TablePolicy {
    fn window(&mut self, now_ns: u64) -> u32 {
        match self {
            Self::Never(policy) => policy.window(now_ns),
            Self::Fixed(policy) => policy.window(now_ns),
            Self::Kernel(policy) => policy.window(now_ns),
            Self::Adaptive(policy) => policy.window(now_ns),
        }
    }

    fn record(&mut self, halt: &Halt) {
        match self {
            Self::Never(policy) => policy.record(halt),
            Self::Fixed(policy) => policy.record(halt),
            Self::Kernel(policy) => policy.record(halt),
            Self::Adaptive(policy) => policy.record(halt),
        }
    }
}

/// When a row stops polling early: as the driver does by default, but always polls on whatever
/// happens, or it would not be always.
#[derive(Clone, Copy, Debug)]
pub struct TableContention(Option<ClockGap>);

impl Contention for TableContention {
    #[inline]
    fn begin(&mut self, now_ns: u64, longest_step_ns: u32) {
        if let Some(gap) = &mut self.0 {
            gap.begin(now_ns, longest_step_ns);
        }
    }

    #[inline]
    fn wants_cpu(&mut self, now_ns: u64) -> bool {
        self.0.as_mut().is_some_and(|gap| gap.wants_cpu(now_ns))
    }
}

/// The driver of a row.
pub type Poller = HaltPoller<TablePolicy, TableContention>;

/// The driver of a row, for one vCPU.
pub fn poller(policy: RowPolicy, host: &HostParams) -> Poller {
    let contention = TableContention((policy != RowPolicy::Always).then(ClockGap::default));
    HaltPoller::new(TablePolicy::new(policy, host)).with_contention(contention)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HostParams {
        /// A host where blocking costs 9 us.
        pub(crate) fn sample() -> Self {
            let adaptive =
                AdaptiveParams { block_cost_ns: 9_000, latency_ns: 0, ..AdaptiveParams::default() };
            Self { kernel: KernelParams::default(), adaptive }
        }
    }

    fn host() -> HostParams {
        HostParams::sample()
    }

    #[test]
    fn only_always_polls_on_when_somebody_wants_the_cpu() {
        for policy in [RowPolicy::Always, RowPolicy::Fixed, RowPolicy::Adaptive] {
            let mut contention =
                TableContention((policy != RowPolicy::Always).then(ClockGap::default));
            contention.begin(0, 0);
            assert_eq!(contention.wants_cpu(1_000_000_000), policy != RowPolicy::Always);
        }
    }

    #[test]
    fn windows_are_those_of_the_row() {
        let window = |policy| TablePolicy::new(policy, &host()).window(0);
        assert_eq!(window(RowPolicy::Never), 0);
        assert_eq!(window(RowPolicy::Always), ALWAYS_NS);
        assert_eq!(window(RowPolicy::Fixed), 9_000);
        assert_eq!(window(RowPolicy::Kernel), 0);
        assert!(window(RowPolicy::Adaptive) <= host().adaptive.ceiling_ns);
    }

    #[test]
    fn kernel_and_adaptive_learn_from_halts() {
        let mut kernel = TablePolicy::new(RowPolicy::Kernel, &host());
        kernel.record(&Halt::slept(0, 0, 0, 20_000));
        assert_eq!(kernel.window(0), KernelParams::default().grow_start);
    }
}
