// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Parameters that change while VMs run.

use std::sync::Arc;

use halt_poll::{
    Adaptive, AdaptiveParams, KernelParams, KernelPolicy, Never, Policy, Share,
    SharedAdaptiveParams, SharedKernelParams, Source, VmOverride, Weight,
};

use crate::{halt_of, play};

/// A policy that polls already.
fn polling<S: Source<Params = KernelParams>>(source: S) -> KernelPolicy<S> {
    let mut policy = KernelPolicy::new(source);
    play(&mut policy, [30_000; 4]);
    assert_ne!(policy.window(0), 0);
    policy
}

#[test]
fn f01_a_host_ceiling_of_0_stops_running_vms_at_the_next_halt() {
    let host = SharedKernelParams::default();
    let follows = VmOverride::new(&host);
    let own = VmOverride::new(&host);
    own.set(100_000);
    let (mut follower, mut owner) = (polling(&follows), polling(&own));
    host.set_halt_poll_ns(0);
    assert_eq!(follower.window(0), 0);
    assert_ne!(owner.window(0), 0, "an override is for good");
    follower.record(&halt_of(0, 0, 30_000));
    assert_eq!(follower.window_ns(), 0);
    // And the other way round: it follows a raised ceiling, too.
    host.set_halt_poll_ns(40_000);
    assert_ne!(play(&mut follower, [30_000; 2])[1], 0);
}

#[test]
fn f01_a_host_ceiling_of_0_at_the_end_of_a_halt_starts_the_window_anew() {
    let host = SharedKernelParams::default();
    let mut policy = polling(&host);
    let window = policy.window(0);
    host.set_halt_poll_ns(0);
    policy.record(&halt_of(0, window, 30_000));
    host.set_halt_poll_ns(200_000);
    assert_eq!(policy.window(0), 0);
}

#[test]
fn f01_adaptive_stops_at_the_next_halt() {
    let host = Arc::new(SharedAdaptiveParams::default());
    let mut policy = Adaptive::new(Arc::clone(&host));
    assert_ne!(play(&mut policy, [1_000; 4])[3], 0);
    host.set_ceiling_ns(0);
    assert_eq!(policy.window(0), 0);
    host.set_ceiling_ns(100_000);
    assert_ne!(policy.window(0), 0, "and goes on where it was");
}

#[test]
fn f15_one_vm_can_be_switched_off() {
    let host = SharedKernelParams::default();
    let vm = VmOverride::new(&host);
    let mut policy = polling(&vm);
    assert_eq!(vm.get(), None);
    vm.set(0);
    assert_eq!(vm.get(), Some(0));
    assert_eq!(play(&mut policy, [30_000; 8]), [0; 8]);
    assert_eq!(play(&mut Never, [30_000; 8]), [0; 8]);
}

#[test]
fn each_kernel_parameter_can_be_changed() {
    let shared = SharedKernelParams::new(KernelParams::S390);
    assert_eq!(shared.load(), KernelParams::S390);
    shared.set_halt_poll_ns(1);
    shared.set_grow(2);
    shared.set_grow_start(3);
    shared.set_shrink(4);
    let changed = KernelParams { halt_poll_ns: 1, grow: 2, grow_start: 3, shrink: 4 };
    assert_eq!(shared.load(), changed);
    let own = VmOverride::new(&shared);
    own.set(u32::MAX);
    assert_eq!(own.load(), KernelParams { halt_poll_ns: u32::MAX, ..changed });
}

#[test]
fn each_adaptive_parameter_can_be_changed() {
    let shared = SharedAdaptiveParams::default();
    assert_eq!(shared.load(), AdaptiveParams::default());
    shared.set_block_cost_ns(1);
    shared.set_latency_ns(2);
    shared.set_latency_weight(Weight::percent(u16::MAX));
    shared.set_ceiling_ns(4);
    shared.set_max_polled_share(Share::NONE);
    let changed = AdaptiveParams {
        block_cost_ns: 1,
        latency_ns: 2,
        latency_weight: Weight::percent(u16::MAX),
        ceiling_ns: 4,
        max_polled_share: Share::NONE,
    };
    assert_eq!(shared.load(), changed);
}
