// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts, polls, sleeps and kicks allocate nothing.
#![cfg(all(feature = "std", not(loom)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use halt_poll::{
    Adaptive, AdaptiveParams, Counters, EventFdWait, Fixed, FutexWait, Gated, Halt, HaltPoller,
    KernelParams, KernelPolicy, Policy, SharedAdaptiveParams, SharedKernelParams, VmOverride, wake,
};
use vcpu_state::{WakeSource, WakeWord};

/// Counts what the calling thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[expect(unsafe_code, reason = "an allocator")]
// SAFETY: the system's allocator, counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn allocations_of(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    run();
    ALLOCATIONS.get() - before
}

#[test]
fn the_allocator_counts() {
    assert_eq!(allocations_of(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

/// Woken before, and timed out after polling and sleeping.
fn halts<S: WakeSource<Error = std::io::Error>>(policy: impl Policy, source: &S, wake: &dyn Fn()) {
    let mut poller = HaltPoller::new(policy);
    for _ in 0..100 {
        wake();
        let _ = poller.halt(source).map_err(drop);
        let _ = poller.halt_for(source, 20_000).map_err(drop);
    }
}

#[test]
fn policies_and_counters_allocate_nothing() {
    let host = SharedKernelParams::default();
    let vm = VmOverride::new(&host);
    let shared = SharedAdaptiveParams::default();
    let mut policy = (Gated::new(KernelPolicy::new(&vm)), Gated::new(Adaptive::new(&shared)));
    let mut counters = Counters::default();
    // Long enough for every rare step: spans of halts, rescaled sums, changed parameters.
    let mut run = |policy: &mut dyn Policy| {
        for i in 0..50_000u32 {
            let now = u64::from(i) * 100_000;
            let window = policy.window(now);
            let length = u64::from(i.wrapping_mul(2_654_435_769) >> 16);
            let slept = length > window.into();
            let polled = length.min(window.into());
            let halt = if slept {
                Halt::slept(now, window, polled, length)
            } else {
                Halt::polled(now, window, polled)
            };
            policy.record(&halt);
            counters.record(&halt);
            shared.set_ceiling_ns(100_000 + i / 10_000);
            shared.set_block_cost_ns(10_000 + i / 20_000);
        }
    };
    assert_eq!(allocations_of(|| run(&mut policy.0)), 0);
    assert_eq!(allocations_of(|| run(&mut policy.1)), 0);
}

#[test]
fn halting_on_a_futex_allocates_nothing() {
    let word = WakeWord::new();
    let source = FutexWait::new(&word);
    let kick = || {
        let _ = wake(&word);
    };
    assert_eq!(allocations_of(|| halts(Fixed::new(5_000), &source, &kick)), 0);
    let kernel = KernelPolicy::new(KernelParams::default());
    assert_eq!(allocations_of(|| halts(kernel, &source, &kick)), 0);
    let adaptive = Adaptive::new(AdaptiveParams::default());
    assert_eq!(allocations_of(|| halts(adaptive, &source, &kick)), 0);
}

#[test]
#[expect(unsafe_code, reason = "eventfd(2) and eventfd_write(3)")]
fn halting_on_an_eventfd_allocates_nothing() {
    use std::os::fd::AsRawFd;
    for flags in [0, libc::EFD_NONBLOCK] {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, flags) };
        assert!(fd >= 0);
        // SAFETY: a new descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let add = || {
            // SAFETY: no pointers.
            assert_eq!(unsafe { libc::eventfd_write(fd.as_raw_fd(), 1) }, 0);
        };
        let source = EventFdWait::new(fd.as_fd());
        assert_eq!(allocations_of(|| halts(Fixed::new(5_000), &source, &add)), 0);
    }
}
