// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What blocking costs on this host.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use vcpu_state::{BlockEnd, Kick, WakeSource, WakeWord};

use super::clock::thread_cpu_ns;
use super::{Clock, FutexWait, Monotonic, wake};

/// What it costs to block and to be woken, instead of polling.
///
/// An adaptive policy weighs the CPU time that polling burns against what blocking costs: `cpu_ns` of
/// CPU time, and `latency_ns` by which the vCPU goes on later. How much CPU time a nanosecond of
/// latency is worth is the user's choice ([`Weight`](crate::Weight)).
///
/// ```
/// use halt_poll::{Adaptive, AdaptiveParams, calibrate};
///
/// let cost = calibrate()?;
/// let policy = Adaptive::new(AdaptiveParams {
///     block_cost_ns: cost.cpu_ns,
///     latency_ns: cost.latency_ns,
///     ..AdaptiveParams::default()
/// });
/// # let _ = policy;
/// # Ok::<(), halt_poll::CalibrateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockCost {
    /// CPU time of one sleep and wake-up, in nanoseconds: what the sleeper spends on going to sleep
    /// and coming back, plus what the waker spends on the call that wakes it. What the CPU spends on
    /// going idle and coming back is nobody's CPU time, and not in it.
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
/// Call it on a thread with the scheduling class and cgroup of a vCPU's, and before that thread is
/// pinned to one CPU: the waker inherits all of these, and on the waiter's own CPU it would be a waker as
/// no vCPU has, that gives up the CPU to whom it wakes.
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
    let overhead = clock_overhead();
    std::thread::scope(|scope| {
        let waker = std::thread::Builder::new()
            .name("calibrate".into())
            .spawn_scoped(scope, || {
                let mut cpu = Vec::with_capacity(ROUNDS);
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(PERIOD);
                    let before = thread_cpu_ns();
                    // The kick publishes it.
                    woken_at.store(Monotonic.now_ns(), Ordering::Relaxed);
                    let kick = wake(&word);
                    let spent = thread_cpu_ns().saturating_sub(before).saturating_sub(overhead);
                    if kick == Kick::WakeSleeper && cpu.len() < ROUNDS {
                        cpu.push(spent);
                    }
                }
                cpu
            })
            .map_err(CalibrateError::Thread)?;
        let measured = measure(&FutexWait::new(&word), &woken_at, overhead);
        stop.store(true, Ordering::Relaxed);
        // It has nothing to panic about; if it did, there are no rounds.
        let mut waking = waker.join().unwrap_or_default();
        let (mut sleeping, mut latency) = measured?;
        match (median(&mut sleeping), median(&mut waking), median(&mut latency)) {
            (Some(sleeping), Some(waking), Some(latency_ns)) => {
                Ok(BlockCost { cpu_ns: sleeping.saturating_add(waking), latency_ns })
            }
            _ => Err(CalibrateError::TooFewRounds {
                rounds: sleeping.len().min(waking.len()),
                needed: NEEDED,
                limit_ms: HARD_LIMIT_NS / 1_000_000,
            }),
        }
    })
}

/// What reading a thread's clock costs itself, in nanoseconds: the least of a few.
fn clock_overhead() -> u64 {
    let readings = (0..16).map(|_| {
        let before = thread_cpu_ns();
        thread_cpu_ns().saturating_sub(before)
    });
    readings.min().unwrap_or(0)
}

/// The sleeper's side: CPU time and latency of each round, in nanoseconds.
fn measure(
    source: &FutexWait<'_>,
    woken_at: &AtomicU64,
    overhead: u64,
) -> Result<(Vec<u64>, Vec<u64>), CalibrateError> {
    let (mut cpu, mut latency) = (Vec::with_capacity(ROUNDS), Vec::with_capacity(ROUNDS));
    let begin = Monotonic.now_ns();
    while cpu.len() < ROUNDS {
        let elapsed = Monotonic.now_ns().saturating_sub(begin);
        let limit = if cpu.len() < NEEDED { HARD_LIMIT_NS } else { SOFT_LIMIT_NS };
        if elapsed >= limit {
            break;
        }
        // A kick that came between two rounds belongs to none.
        let _stale = source.take();
        let before = thread_cpu_ns();
        let end = source.block(Some(limit - elapsed)).map_err(CalibrateError::Wait)?;
        let now = Monotonic.now_ns();
        let spent = thread_cpu_ns().saturating_sub(before).saturating_sub(overhead);
        if end == BlockEnd::Woken && source.take() {
            cpu.push(spent);
            latency.push(now.saturating_sub(woken_at.load(Ordering::Relaxed)));
        }
    }
    Ok((cpu, latency))
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
