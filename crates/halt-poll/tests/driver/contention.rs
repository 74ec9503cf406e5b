// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A real competitor for the CPU.

use std::sync::atomic::{AtomicBool, Ordering};

use halt_poll::{ClockGap, Contention, Fixed, FutexWait, HaltEnd, HaltPoller, Unwatched};
use vcpu_state::WakeWord;

/// Keeps the calling thread, and those it will start, on one of its CPUs.
#[expect(unsafe_code, reason = "the affinity calls of libc")]
fn pin_to_one_cpu() -> bool {
    // SAFETY: a set of CPUs is plain bits.
    let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: `all` is writable and `size` long.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut all) } != 0 {
        return false;
    }
    // SAFETY: the index is below the size of the set.
    let Some(cpu) = (0..1024).find(|&cpu| unsafe { libc::CPU_ISSET(cpu, &all) }) else {
        return false;
    };
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index is below the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut one) };
    // SAFETY: `one` is readable and `size` long.
    unsafe { libc::sched_setaffinity(0, size, &raw const one) == 0 }
}

/// One halt of 300 ms without a wake-up, with a thread that spins on the same CPU.
fn halt_beside_a_competitor(contention: impl Contention + Send + 'static) -> halt_poll::Halted {
    std::thread::spawn(move || {
        assert!(pin_to_one_cpu());
        let stop = AtomicBool::new(false);
        let word = WakeWord::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let mut poller = HaltPoller::new(Fixed::new(300_000_000)).with_contention(contention);
            let halted = poller.halt_for(&FutexWait::new(&word), 300_000_000);
            stop.store(true, Ordering::Relaxed);
            halted
        })
    })
    .join()
    .unwrap()
    .unwrap()
}

#[test]
fn f13_a_competitor_on_the_same_cpu_ends_the_polling() {
    let halted = halt_beside_a_competitor(ClockGap::default());
    assert!(halted.halt.contended && halted.halt.slept, "{halted:?}");
    assert!(halted.halt.polled_ns < 300_000_000);
    assert_eq!(halted.end, HaltEnd::TimedOut);
}

#[test]
fn unwatched_polls_on_beside_a_competitor() {
    let halted = halt_beside_a_competitor(Unwatched);
    assert!(!halted.halt.contended, "{halted:?}");
    assert!(halted.halt.polled_ns >= 300_000_000);
}

#[test]
fn a_long_relax_step_is_no_gap() {
    let mut gap = ClockGap::new(10_000);
    gap.begin(0, 100_000);
    assert!(!gap.wants_cpu(100_000));
    assert!(!gap.wants_cpu(200_000));
    assert!(gap.wants_cpu(310_001));
}

#[test]
fn each_polling_starts_without_a_gap() {
    let mut gap = ClockGap::new(10_000);
    gap.begin(0, 0);
    assert!(gap.wants_cpu(10_001));
    gap.begin(5_000_000, 0);
    assert!(!gap.wants_cpu(5_000_100));
}
