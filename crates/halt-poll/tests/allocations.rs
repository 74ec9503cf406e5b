// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts, polls, sleeps and kicks allocate nothing.
#![cfg(all(feature = "std", not(loom)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use halt_poll::{
    Adaptive, AdaptiveParams, EventFdWait, Fixed, FutexWait, HaltPoller, KernelParams,
    KernelPolicy, Policy, wake,
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
