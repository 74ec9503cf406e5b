// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Models of the shipped driver: no interleaving of kicks with looking, announcing and sleeping loses
//! a wake-up. A lost one is a deadlock, which loom reports.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p halt-poll --release --test loom`
#![cfg(loom)]

use std::cell::Cell;

use halt_poll::{Clock, Fixed, FutexWait, HaltEnd, HaltPoller, Unwatched, wake, wake_sleeper};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use vcpu_state::{Kick, WakeWord};

/// A nanosecond passes with each look at it: the window is a number of poll iterations.
#[derive(Debug, Default)]
struct Ticks(Cell<u64>);

impl Clock for Ticks {
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

fn poller(iterations: u32) -> HaltPoller<Fixed, Unwatched, Ticks> {
    HaltPoller::new(Fixed::new(iterations)).with_contention(Unwatched).with_clock(Ticks::default())
}

/// Halts until `goal` is in `data`, which kickers raise before they kick.
fn halt_until(word: &WakeWord, data: &AtomicU32, goal: u32, iterations: u32) {
    let mut poller = poller(iterations);
    while data.load(Ordering::Relaxed) != goal {
        let halted = poller.halt(&FutexWait::new(word)).unwrap();
        assert_eq!(halted.end, HaltEnd::Woken);
    }
}

fn kick_after_data(word: &WakeWord, data: &AtomicU32) {
    data.fetch_add(1, Ordering::Relaxed);
    let _ = wake(word);
}

/// Loom follows at most this many preemptions per execution: more than a lost wake-up takes.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

#[test]
fn f20_a_kick_during_the_announcement_is_not_lost() {
    // No polling: the kick meets the first look, the announcement, the second look and the sleep.
    model(|| {
        let shared = Arc::new((WakeWord::new(), AtomicU32::new(0)));
        let kicker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || kick_after_data(&shared.0, &shared.1)
        });
        halt_until(&shared.0, &shared.1, 1, 0);
        kicker.join().unwrap();
    });
}

#[test]
fn f20_a_kick_during_the_polling_is_not_lost() {
    model(|| {
        let shared = Arc::new((WakeWord::new(), AtomicU32::new(0)));
        let kicker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || kick_after_data(&shared.0, &shared.1)
        });
        halt_until(&shared.0, &shared.1, 1, 2);
        kicker.join().unwrap();
    });
}

#[test]
fn f20_two_kickers_lose_no_kick() {
    model(|| {
        let shared = Arc::new((WakeWord::new(), AtomicU32::new(0)));
        let kickers = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || kick_after_data(&shared.0, &shared.1))
        });
        halt_until(&shared.0, &shared.1, 2, 0);
        for kicker in kickers {
            kicker.join().unwrap();
        }
    });
}

#[test]
fn f61_a_kick_between_two_halts_ends_the_second() {
    model(|| {
        let shared = Arc::new((WakeWord::new(), AtomicU32::new(0)));
        let kicker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                kick_after_data(&shared.0, &shared.1);
                kick_after_data(&shared.0, &shared.1);
            }
        });
        halt_until(&shared.0, &shared.1, 2, 1);
        kicker.join().unwrap();
    });
}

#[test]
fn an_exit_request_ends_the_halt_and_stays() {
    model(|| {
        let word = Arc::new(WakeWord::new());
        let pauser = thread::spawn({
            let word = Arc::clone(&word);
            move || {
                if word.request_exit() == Kick::WakeSleeper {
                    wake_sleeper(&word);
                }
            }
        });
        let halted = poller(1).halt(&FutexWait::new(&word)).unwrap();
        assert_eq!(halted.end, HaltEnd::Woken);
        assert!(word.take_exit_request());
        pauser.join().unwrap();
    });
}
