// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Costs of `halt-poll`'s hot paths.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::Criterion;
use halt_poll::{
    Adaptive, AdaptiveParams, Clock, Counters, Fixed, FutexWait, Gated, Halt, HaltPoller,
    KernelParams, KernelPolicy, Monotonic, Never, Policy, Share, SharedAdaptiveParams,
    SharedKernelParams, wake,
};
use vcpu_state::{BlockEnd, WakeSource, WakeWord};

pub(crate) fn benches(criterion: &mut Criterion) {
    policies(criterion);
    driver(criterion);
}

/// The driver: what a halt costs besides waiting.
fn driver(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("halt-poll/driver");
    let word = WakeWord::new();
    let source = FutexWait::new(&word);

    group.bench_function("clock", |bencher| bencher.iter(|| Monotonic.now_ns()));

    // The kick is part of both: a halt needs one, and a kick is cleared by a halt.
    group.bench_function("kick of a running vCPU, and take", |bencher| {
        bencher.iter(|| {
            let kick = wake(black_box(&word));
            (kick, source.take())
        });
    });
    group.bench_function("kick of a running vCPU, coalesced", |bencher| {
        bencher.iter(|| wake(black_box(&word)));
        source.take();
    });

    let mut poller = HaltPoller::new(Fixed::new(10_000));
    group.bench_function("halt, already woken (Fixed), and its kick", |bencher| {
        bencher.iter(|| {
            let _ = wake(&word);
            poller.halt(black_box(&source))
        });
    });
    let mut poller = HaltPoller::new(KernelPolicy::new(KernelParams::default()));
    group.bench_function("halt, already woken (KernelPolicy), and its kick", |bencher| {
        bencher.iter(|| {
            let _ = wake(&word);
            poller.halt(black_box(&source))
        });
    });
    let mut poller = HaltPoller::new(Adaptive::new(AdaptiveParams::default()));
    group.bench_function("halt, already woken (Adaptive), and its kick", |bencher| {
        bencher.iter(|| {
            let _ = wake(&word);
            poller.halt(black_box(&source))
        });
    });

    // A wake-up after 64 looks: the rest is the fast path.
    let quiet = Quiet { word: WakeWord::new(), looks: Cell::new(0) };
    let mut poller = HaltPoller::new(Fixed::new(1_000_000));
    group.bench_function("64 poll iterations", |bencher| {
        bencher.iter(|| {
            quiet.looks.set(0);
            poller.halt(black_box(&quiet))
        });
    });

    group.sample_size(10);
    group.bench_function("futex ping-pong, a round trip of two sleepers", |bencher| {
        let (ping, pong, stop) = (WakeWord::new(), WakeWord::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut poller = HaltPoller::new(Never);
                while !stop.load(Ordering::Acquire) {
                    let _ = poller.halt(&FutexWait::new(&ping));
                    let _ = wake(&pong);
                }
            });
            let mut poller = HaltPoller::new(Never);
            bencher.iter(|| {
                let _ = wake(&ping);
                poller.halt(&FutexWait::new(&pong))
            });
            stop.store(true, Ordering::Release);
            let _ = wake(&ping);
        });
    });
    group.finish();
}

/// A wake word that is found kicked at the 64th look.
struct Quiet {
    word: WakeWord,
    looks: Cell<u32>,
}

impl WakeSource for Quiet {
    type Error = std::io::Error;

    fn is_pending(&self) -> bool {
        self.looks.set(self.looks.get() + 1);
        self.word.is_kicked() || self.looks.get() > 64
    }

    fn take(&self) -> bool {
        true
    }

    fn block(&self, _timeout_ns: Option<u64>) -> std::io::Result<BlockEnd> {
        Ok(BlockEnd::NotSlept)
    }
}

/// The policies: window and record of one halt.
fn policies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("halt-poll/window+record");
    // What a guest does, in nanoseconds: 4 us, and a tick; and what no branch predictor learns.
    let short = |_| 4_000;
    let tick = |_| 4_000_000;
    let random = |state| 1_000 + u64::from(state >> 16);

    let host = SharedKernelParams::new(KernelParams::X86);
    group.bench_function("kernel, random", |bencher| {
        let mut guest = Guest::new(random);
        let mut policy = KernelPolicy::new(&host);
        bencher.iter(|| guest.halt(&mut policy));
    });

    let params = AdaptiveParams { block_cost_ns: 20_000, ..AdaptiveParams::default() };
    let shared = SharedAdaptiveParams::new(params);
    group.bench_function("adaptive, short", |bencher| {
        let mut guest = Guest::new(short);
        let mut policy = Adaptive::new(&shared);
        bencher.iter(|| guest.halt(&mut policy));
    });
    group.bench_function("adaptive, tick", |bencher| {
        let mut guest = Guest::new(tick);
        let mut policy = Adaptive::new(&shared);
        bencher.iter(|| guest.halt(&mut policy));
    });
    group.bench_function("adaptive, random", |bencher| {
        let mut guest = Guest::new(random);
        let mut policy = Adaptive::new(&shared);
        bencher.iter(|| guest.halt(&mut policy));
    });

    if let Ok(share) = Share::percent(10) {
        shared.set_max_polled_share(share);
    }
    group.bench_function("gated adaptive, share 10 %, short", |bencher| {
        let mut guest = Guest::new(short);
        let mut policy = Gated::new(Adaptive::new(&shared));
        bencher.iter(|| guest.halt(&mut policy));
    });
    group.finish();

    let mut counters = Counters::default();
    criterion.bench_function("halt-poll/counters", |bencher| {
        let halt = Halt::slept(0, 10_000, 10_000, 70_000);
        bencher.iter(|| counters.record(black_box(&halt)));
    });
}

/// Halts of lengths made from a random state.
struct Guest<F> {
    length: F,
    now_ns: u64,
    state: u32,
}

impl<F: Fn(u32) -> u64> Guest<F> {
    const fn new(length: F) -> Self {
        Self { length, now_ns: 0, state: 0 }
    }

    fn halt(&mut self, policy: &mut impl Policy) {
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = (self.length)(self.state);
        let window = policy.window(self.now_ns);
        let halt = if length <= u64::from(window) {
            Halt::polled(self.now_ns, window, length)
        } else {
            Halt::slept(self.now_ns, window, window.into(), length)
        };
        policy.record(black_box(&halt));
        self.now_ns += length + 1_000;
    }
}
