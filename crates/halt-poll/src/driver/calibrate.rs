// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What blocking costs on this host.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use vcpu_state::{BlockEnd, WakeSource, WakeWord};

use super::clock::thread_cpu_ns;
use super::{Clock, FutexWait, Monotonic, wake};

/// What it costs to block and to be woken, instead of polling.
///
/// An adaptive policy weighs CPU time that polling burns against what blocking costs: `cpu_ns` of CPU
/// time spent on going to sleep and coming back, and `latency_ns` by which the wake-up arrives later.
/// How much a nanosecond of latency is worth in nanoseconds of CPU is the user's choice (the
/// policy's latency weight).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockCost {
    /// CPU time of the waiter for one sleep and wake-up, in nanoseconds. What the waker and the
    /// idle CPU spend is not in it.
    pub cpu_ns: u32,
    /// From the call that wakes until the waiter runs, in nanoseconds.
    pub latency_ns: u32,
}

/// The calibration failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// No thread for the waker.
    #[error("cannot start the waker's thread")]
    Thread(#[source] io::Error),
    /// The futex system call failed.
    #[error("cannot wait on a futex")]
    Wait(#[source] io::Error),
    /// The host is so busy that too few rounds ended in time.
    #[error("only {rounds} of at least {needed} rounds ended in {limit_ms} ms")]
    TooFewRounds {
        /// Rounds that were measured.
        rounds: usize,
        /// The least that make a median.
        needed: usize,
        /// The time there was, in milliseconds.
        limit_ms: u64,
    },
}

/// Rounds that are measured when the host lets us.
const ROUNDS: usize = 300;
/// The least number of rounds that make a median.
const NEEDED: usize = 20;
/// After this the calibration makes do with what it has, if that is enough.
const SOFT_LIMIT_NS: u64 = 50_000_000;
/// After this it ends in any case.
const HARD_LIMIT_NS: u64 = 500_000_000;
/// The waiter sleeps about this long each round (plus the kernel's timer slack).
const PERIOD: Duration = Duration::from_micros(50);

/// Measures the [`BlockCost`] of the calling thread: medians of some 300 futex rounds with a waker on
/// a thread of its own, in about 50 ms (up to 500 ms on a host so busy that fewer than 20 rounds end
/// in 50 ms).
///
/// Call it on a thread with the affinity, scheduling class and cgroup of a vCPU's. The waker inherits
/// them.
///
/// ```
/// let cost = halt_poll::calibrate()?;
/// assert!(cost.cpu_ns > 0 && cost.latency_ns > 0);
/// # Ok::<(), halt_poll::CalibrateError>(())
/// ```
///
/// # Errors
///
/// [`CalibrateError`]: no thread, no futex, or too few rounds.
pub fn calibrate() -> Result<BlockCost, CalibrateError> {
    let word = WakeWord::new();
    let stop = AtomicBool::new(false);
    let woken_at = AtomicU64::new(0);
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("calibrate".into())
            .spawn_scoped(scope, || {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(PERIOD);
                    woken_at.store(Monotonic.now_ns(), Ordering::Relaxed);
                    // A waiter that was not asleep throws the round away.
                    let _kick = wake(&word);
                }
            })
            .map_err(CalibrateError::Thread)?;
        let rounds = measure(&FutexWait::new(&word), &woken_at);
        stop.store(true, Ordering::Relaxed);
        rounds
    })
}

fn measure(source: &FutexWait<'_>, woken_at: &AtomicU64) -> Result<BlockCost, CalibrateError> {
    let (mut cpu, mut latency) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    let begin = Monotonic.now_ns();
    // What reading the thread's clock costs itself: the least of a few.
    let overhead = (0..16).map(|_| {
        let before = thread_cpu_ns();
        thread_cpu_ns().saturating_sub(before)
    });
    let overhead = overhead.min().unwrap_or(0);
    while cpu.len() < ROUNDS {
        let elapsed = Monotonic.now_ns().saturating_sub(begin);
        let limit = if cpu.len() < NEEDED { HARD_LIMIT_NS } else { SOFT_LIMIT_NS };
        if elapsed >= limit {
            break;
        }
        let _stale = source.take();
        let before = thread_cpu_ns();
        let end = source.block(Some(limit - elapsed)).map_err(CalibrateError::Wait)?;
        let now = Monotonic.now_ns();
        let spent = thread_cpu_ns().saturating_sub(before).saturating_sub(overhead);
        // Written before the kick that was consumed.
        if end == BlockEnd::Woken && source.take() {
            cpu.push(spent);
            latency.push(now.saturating_sub(woken_at.load(Ordering::Relaxed)));
        }
    }
    match (median(&mut cpu), median(&mut latency)) {
        (Some(cpu_ns), Some(latency_ns)) => Ok(BlockCost { cpu_ns, latency_ns }),
        _ => Err(CalibrateError::TooFewRounds {
            rounds: cpu.len(),
            needed: NEEDED,
            limit_ms: HARD_LIMIT_NS / 1_000_000,
        }),
    }
}

/// The median, at least 1, of enough samples.
fn median(samples: &mut [u64]) -> Option<u32> {
    if samples.len() < NEEDED {
        return None;
    }
    let middle = samples.len() / 2;
    let (_, median, _) = samples.select_nth_unstable(middle);
    Some(u32::try_from(*median).unwrap_or(u32::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_needs_enough_samples_and_is_never_zero() {
        assert_eq!(median(&mut [5; NEEDED - 1]), None);
        assert_eq!(median(&mut [0; NEEDED]), Some(1));
        assert_eq!(median(&mut [u64::MAX; NEEDED]), Some(u32::MAX));
        let mut mixed: Vec<u64> = (0..101).rev().collect();
        assert_eq!(median(&mut mixed), Some(50));
    }

    #[test]
    fn the_calibration_is_plausible() {
        let cost = calibrate().unwrap();
        // A sleep and a wake-up are system calls and two context switches: more than 100 ns, and on a
        // host that is not lost, less than 10 ms.
        assert!((100..10_000_000).contains(&cost.cpu_ns), "{cost:?}");
        assert!((100..100_000_000).contains(&cost.latency_ns), "{cost:?}");
    }
}
