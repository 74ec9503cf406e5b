// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The hot-path contract: nothing but making a table allocates.

#![cfg(not(loom))]
#![allow(missing_docs, clippy::unwrap_used)]
// UNSAFE: an allocator that counts can only be written with unsafe.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use vcpu_state::{NoObserver, OffCpuView, VcpuIndex, VcpuOwner, VcpuTable};

struct Counting;

thread_local! {
    /// Of this thread alone: the test harness's own thread allocates whenever it likes.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn allocations() -> usize {
    ALLOCATIONS.with(Cell::get)
}

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has no counter any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Fails if a method allocates, a dump into a string say.
#[test]
fn no_operation_on_a_table_allocates() {
    let table = Arc::new(VcpuTable::new(65).unwrap());
    let index = table.index(64).unwrap();
    let beyond = VcpuIndex::new(65).unwrap();
    let before = allocations();
    for _ in 0..1000 {
        let mut owner = VcpuOwner::attach(Arc::clone(&table), index).unwrap();
        let _ = black_box(owner.enter());
        let _ = black_box(table.kick(index));
        let _ = black_box(table.kick(index));
        let _ = black_box(table.request_exit(index));
        let _ = black_box(table.kick(beyond));
        let _ = black_box(table.attach(index));
        owner.leave();
        black_box(owner.take_exit_request());
        owner.begin_halt();
        black_box(owner.take_kick());
        black_box(owner.wake_word().begin_sleep());
        let _ = black_box(table.wake_word(index).unwrap().kick());
        owner.wake_word().end_sleep();
        owner.end_halt();
        owner.begin_yield();
        owner.end_yield();
        owner.pause();
        let _ = black_box(table.run_state(index, &NoObserver));
        owner.resume();
        black_box(table.snapshot().filter(|vcpu| vcpu.pending.any()).count());
        black_box(VcpuIndex::in_word(1, NoObserver.off_cpu_mask(1)).count());
    }
    assert_eq!(allocations() - before, 0);
    black_box(vec![1_u8]);
    assert!(allocations() > before, "the allocator counts");
}
