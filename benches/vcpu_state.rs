// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Costs of `vcpu-state`'s hot paths.

#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use vcpu_state::{NoObserver, VcpuIndex, VcpuOwner, VcpuTable};

/// Enough to make the clock's own cost vanish, few enough to stay in the nearest cache.
const VCPUS: usize = 64;

pub(crate) fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("vcpu_state");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    owner(&mut group);
    kicks(&mut group);
    answers(&mut group);
    group.finish();
}

/// What each run of the guest and each halt pays.
fn owner(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (table, index) = table_of(1);
    let mut vcpu = VcpuOwner::attach(Arc::clone(&table), index).unwrap();
    group.bench_function("enter_leave", |bencher| {
        bencher.iter(|| {
            let pending = vcpu.enter();
            vcpu.leave();
            black_box(pending)
        });
    });
    group.bench_function("begin_end_halt", |bencher| {
        bencher.iter(|| {
            vcpu.begin_halt();
            vcpu.end_halt();
        });
    });
    group.bench_function("begin_end_sleep", |bencher| {
        bencher.iter(|| {
            let announced = vcpu.wake_word().begin_sleep();
            vcpu.wake_word().end_sleep();
            announced
        });
    });
}

/// What a kicker pays for its kick, without the wake or the signal it may be told to send.
fn kicks(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (table, _) = table_of(VCPUS);
    let mut owners: Vec<_> = table.indices().map(|index| table.attach(index).unwrap()).collect();
    for owner in &mut owners {
        let _ = owner.enter();
    }
    // Only the kicks are timed, not the takes that make the next ones possible.
    group.bench_function("kick_running", |bencher| {
        bencher.iter_custom(|kicks| {
            let mut spent = Duration::ZERO;
            let mut left = kicks;
            while left > 0 {
                let batch = left.min(VCPUS as u64);
                let start = Instant::now();
                for index in table.indices().take(usize::try_from(batch).unwrap()) {
                    let _ = black_box(table.kick(index));
                }
                spent += start.elapsed();
                for owner in &mut owners {
                    owner.take_kick();
                }
                left -= batch;
            }
            spent
        });
    });
    let index = table.index(0).unwrap();
    let _ = table.kick(index);
    group.bench_function("kick_coalesced", |bencher| bencher.iter(|| table.kick(index)));
    group.bench_function("kick_and_take", |bencher| {
        bencher.iter(|| {
            let kick = table.kick(index);
            (kick, owners[0].take_kick())
        });
    });
    drop(owners);

    // The cache line comes from the core of a vCPU that enters and leaves all the time.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut vcpu = table.attach(index).unwrap();
            while !stop.load(Ordering::Relaxed) {
                if vcpu.enter().any() {
                    vcpu.take_kick();
                }
                vcpu.leave();
            }
        });
        group.bench_function("kick_running_on_another_core", |bencher| {
            bencher.iter(|| table.kick(index));
        });
        stop.store(true, Ordering::Relaxed);
    });
}

fn answers(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (table, index) = table_of(VCPUS);
    group.bench_function("run_state", |bencher| {
        bencher.iter(|| table.run_state(black_box(index), &NoObserver));
    });
    group.bench_function("snapshot_of_64", |bencher| {
        bencher.iter(|| table.snapshot().filter(|vcpu| vcpu.pending.any()).count());
    });
}

fn table_of(vcpus: usize) -> (Arc<VcpuTable>, VcpuIndex) {
    let table = VcpuTable::new(vcpus).unwrap();
    let first = table.index(0).unwrap();
    (Arc::new(table), first)
}
