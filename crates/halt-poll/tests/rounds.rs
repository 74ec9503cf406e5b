// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Random kicks and halts across threads: a lost wake-up shows as a halt that only its time-out ends.
#![cfg(all(feature = "std", not(loom)))]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test, not only its functions")]

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use halt_poll::{EventFdWait, FutexWait, Halt, HaltEnd, HaltPoller, Policy, wake};
use vcpu_state::{WakeSource, WakeWord};

/// Longer than any delay a loaded host has for us. A sleep that only this ends was not woken, also
/// when the kick is found pending after it.
const LOST_NS: u64 = 30_000_000_000;

/// Marsaglia's xorshift: numbers without a pattern, the same in each run.
#[derive(Clone, Copy, Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A random window for each halt, often none.
#[derive(Debug)]
struct RandomWindow(Random);

impl Policy for RandomWindow {
    fn window(&mut self, _now_ns: u64) -> u32 {
        let window = self.0.below(40_000);
        u32::try_from(window.saturating_sub(10_000)).unwrap()
    }

    fn record(&mut self, _halt: &Halt) {}
}

/// How often to try again where the scheduler gave waiter and kickers one CPU: nobody kicks a waiter
/// that polls then.
const TRIES: u32 = 5;

/// Rounds, until both ways of waiting were tried.
fn rounds<S: WakeSource<Error = std::io::Error> + Sync>(
    test: &str,
    rounds: u64,
    kickers: usize,
    source: &S,
    kick: &(dyn Fn() + Sync),
) {
    for _ in 0..TRIES {
        let (halts, slept) = once(rounds, kickers, source, kick);
        println!("{rounds} rounds, {halts} halts, {slept} of them slept");
        assert!(slept > 0, "no halt slept");
        if slept < halts {
            return;
        }
    }
    skipped::skip(test, "no kick came while the waiter polled: they never ran at the same time");
}

/// Kickers publish a number, kick, and wait until the waiter, after a halt, has seen it.
/// Halts, and how many of them slept.
fn once<S: WakeSource<Error = std::io::Error> + Sync>(
    rounds: u64,
    kickers: usize,
    source: &S,
    kick: &(dyn Fn() + Sync),
) -> (u64, u64) {
    let published: Vec<_> = (0..kickers).map(|_| AtomicU64::new(0)).collect();
    let seen: Vec<_> = (0..kickers).map(|_| AtomicU64::new(0)).collect();
    let each = rounds / kickers as u64;
    // Ends the kickers when the waiter has given up.
    let lost = &AtomicBool::new(false);
    let (mut halts, mut slept) = (0_u64, 0_u64);
    std::thread::scope(|scope| {
        for (number, (published, seen)) in published.iter().zip(&seen).enumerate() {
            scope.spawn(move || {
                let mut random = Random(0x9e37_79b9_7f4a_7c15 + number as u64);
                for round in 1..=each {
                    for _ in 0..random.below(8) * random.below(20) {
                        std::hint::spin_loop();
                    }
                    // Relaxed: the kick is what publishes it.
                    published.store(round, Ordering::Relaxed);
                    kick();
                    let mut looks = 0_u32;
                    let begin = Instant::now();
                    while seen.load(Ordering::Acquire) != round {
                        looks += 1;
                        if looks % 512 == 0 {
                            std::thread::yield_now();
                            if lost.load(Ordering::Relaxed) {
                                return;
                            }
                            assert!(
                                begin.elapsed() < Duration::from_nanos(2 * LOST_NS),
                                "round {round} of kicker {number}: the waiter does not wake up"
                            );
                        } else {
                            std::hint::spin_loop();
                        }
                    }
                }
            });
        }
        let mut poller = HaltPoller::new(RandomWindow(Random(42)));
        while seen.iter().any(|seen| seen.load(Ordering::Relaxed) != each) {
            let halted = poller.halt_for(source, LOST_NS).unwrap();
            let woken = halted.end == HaltEnd::Woken && halted.halt.halt_ns < LOST_NS;
            if !woken {
                lost.store(true, Ordering::Relaxed);
            }
            assert!(woken, "a wake-up was lost after {halts} halts: {halted:?}");
            halts += 1;
            slept += u64::from(halted.halt.slept);
            for (published, seen) in published.iter().zip(&seen) {
                seen.store(published.load(Ordering::Relaxed), Ordering::Release);
            }
        }
    });
    (halts, slept)
}

fn futex_rounds(test: &str, count: u64, kickers: usize) {
    let word = WakeWord::new();
    rounds(test, count, kickers, &FutexWait::new(&word), &|| {
        let _ = wake(&word);
    });
}

#[expect(unsafe_code, reason = "eventfd(2) and write(2)")]
fn eventfd_rounds(test: &str, count: u64, flags: libc::c_int) {
    // SAFETY: no pointers.
    let fd = unsafe { libc::eventfd(0, flags) };
    assert!(fd >= 0);
    // SAFETY: a new descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rounds(test, count, 1, &EventFdWait::new(fd.as_fd()), &|| {
        use std::os::fd::AsRawFd;
        let one = 1_u64;
        // SAFETY: eight readable bytes.
        let written = unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), 8) };
        assert_eq!(written, 8);
    });
}

#[test]
fn f20_random_kicks_lose_no_wakeup() {
    futex_rounds("f20_random_kicks_lose_no_wakeup", 100_000, 1);
}

#[test]
fn f20_random_kicks_of_two_kickers_lose_no_wakeup() {
    futex_rounds("f20_random_kicks_of_two_kickers_lose_no_wakeup", 100_000, 2);
}

#[test]
fn f20_random_writes_to_an_eventfd_lose_no_wakeup() {
    eventfd_rounds("f20_random_writes_to_an_eventfd_lose_no_wakeup", 50_000, libc::EFD_NONBLOCK);
}

#[test]
fn f20_random_writes_to_a_blocking_eventfd_lose_no_wakeup() {
    eventfd_rounds("f20_random_writes_to_a_blocking_eventfd_lose_no_wakeup", 50_000, 0);
}

/// About a minute in release mode: `cargo test --release -p halt-poll --test rounds -- --ignored`.
#[test]
#[ignore = "about a minute in release mode; cargo xtask test runs it"]
fn ten_million_rounds_lose_no_wakeup() {
    futex_rounds("ten_million_rounds_lose_no_wakeup", 10_000_000, 1);
}
