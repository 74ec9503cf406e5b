// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Real signals: they end a sleep, and a handler that kicks is never lost.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use halt_poll::{EventFdWait, Fixed, FutexWait, HaltEnd, HaltPoller, wake};
use vcpu_state::{WakeSource, WakeWord};

use crate::sources::{LONG_NS, eventfd};

static KICKED_BY_SIGNAL: WakeWord = WakeWord::new();
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn ignore(_signal: libc::c_int) {}

extern "C" fn kick(_signal: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    let _ = wake(&KICKED_BY_SIGNAL);
}

#[expect(unsafe_code, reason = "sigaction(2)")]
fn install(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: all zero is no flags (no SA_RESTART) and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // SAFETY: the handlers here are async-signal-safe and stay for good.
    assert_eq!(unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) }, 0);
}

/// Runs `halt` while another thread sends it `signal` each millisecond.
#[expect(unsafe_code, reason = "pthread_kill(3)")]
fn under_signals<R>(signal: libc::c_int, halt: impl FnOnce() -> R) -> R {
    let stop = AtomicBool::new(false);
    // SAFETY: no arguments.
    let target = unsafe { libc::pthread_self() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
                // SAFETY: the target waits for this thread.
                assert_eq!(unsafe { libc::pthread_kill(target, signal) }, 0);
            }
        });
        let result = halt();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

fn is_interrupted<S: WakeSource<Error = std::io::Error>>(source: &S) {
    install(libc::SIGUSR1, ignore);
    let halted = under_signals(libc::SIGUSR1, || {
        HaltPoller::new(Fixed::new(10_000)).halt_for(source, LONG_NS)
    });
    let halted = halted.unwrap();
    assert_eq!((halted.end, halted.halt.slept), (HaltEnd::Interrupted, true));
}

#[test]
fn a_signal_ends_a_sleep_on_a_futex() {
    is_interrupted(&FutexWait::new(&WakeWord::new()));
}

#[test]
fn a_signal_ends_a_sleep_on_an_eventfd() {
    is_interrupted(&EventFdWait::new(eventfd(0, 0).as_fd()));
}

#[test]
fn a_handler_that_kicks_always_ends_the_halt() {
    install(libc::SIGUSR2, kick);
    under_signals(libc::SIGUSR2, || {
        let mut poller = HaltPoller::new(Fixed::new(5_000));
        for _ in 0..100 {
            let before = SIGNALS.load(Ordering::Relaxed);
            loop {
                let halted = poller.halt_for(&FutexWait::new(&KICKED_BY_SIGNAL), LONG_NS).unwrap();
                // A signal that interrupts has kicked before the sleep ended.
                assert_eq!(halted.end, HaltEnd::Woken);
                if SIGNALS.load(Ordering::Relaxed) != before {
                    break;
                }
            }
        }
    });
}
