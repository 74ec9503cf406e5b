// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The client: sends requests, waits for answers, keeps the time.
//!
//! A latency begins just before the request is sent and ends when the answer is seen in memory
//! shared with the vCPU; the client looks for it all the time, so none of its own wake-ups is in
//! it. It thinks by looking at the clock, too; only the longer part of a long pause is slept.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;

use super::think::Thinks;
use super::vcpu::BenchVcpu;

/// Thinking longer than this is slept, but for a rest of this length: by then a sleeper is back.
const SLEEPABLE: Duration = Duration::from_micros(300);
/// A vCPU that has not answered by then never will.
const PATIENCE: Duration = Duration::from_secs(5);
/// Looks between two looks at the clock while an answer is awaited.
const LOOKS: u32 = 256;

/// How the client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It has a CPU of its own.
    Spin,
    /// It shares the vCPU's: it gives the CPU away with every look.
    Yield,
}

impl Waiting {
    fn relax(self) {
        match self {
            Self::Spin => std::hint::spin_loop(),
            Self::Yield => std::thread::yield_now(),
        }
    }

    fn until(self, instant: Instant) {
        let now = Instant::now();
        if let Some(long) = instant.checked_duration_since(now + SLEEPABLE) {
            std::thread::sleep(long);
        }
        while Instant::now() < instant {
            self.relax();
        }
    }
}

/// Sends requests, thinking before each, until `time` is over; the latencies go to `latencies` in
/// nanoseconds. Returns how many requests were answered.
///
/// # Errors
///
/// The vCPU cannot be woken, does not answer, or answers what was not asked.
pub fn converse(
    vcpu: &dyn BenchVcpu,
    waiting: Waiting,
    thinks: &mut Thinks,
    time: Duration,
    latencies: &mut Histogram<u64>,
) -> anyhow::Result<u64> {
    let end = Instant::now() + time;
    let mut requests = 0;
    let mut answered = Instant::now();
    for think in thinks {
        let due = answered + think;
        if due >= end {
            waiting.until(end);
            break;
        }
        let number = vcpu.answer().wrapping_add(1);
        waiting.until(due);
        let sent = Instant::now();
        vcpu.request(number)?;
        answered = answer(vcpu, waiting, number, sent)?;
        let latency = answered - sent;
        latencies.record(u64::try_from(latency.as_nanos())?).context("latency out of range")?;
        requests += 1;
    }
    Ok(requests)
}

/// When the answer to `number` was seen.
fn answer(
    vcpu: &dyn BenchVcpu,
    waiting: Waiting,
    number: u32,
    sent: Instant,
) -> anyhow::Result<Instant> {
    loop {
        for _ in 0..LOOKS {
            let seen = vcpu.answer();
            if seen == number {
                return Ok(Instant::now());
            }
            if seen != number.wrapping_sub(1) {
                bail!("the vCPU answered {seen} to request {number}");
            }
            waiting.relax();
        }
        if sent.elapsed() > PATIENCE {
            bail!("the vCPU did not answer request {number} within {} s", PATIENCE.as_secs());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::plan::Phase;
    use super::super::think::Think;
    use super::super::usage::Usage;
    use super::*;
    use crate::vmm::thread::ThreadId;

    /// Answers with the request's number plus `error`.
    struct Echo {
        answer: AtomicU32,
        error: u32,
    }

    impl BenchVcpu for Echo {
        fn begin(&mut self, _: Phase) -> anyhow::Result<()> {
            Ok(())
        }
        fn end(&mut self) -> anyhow::Result<()> {
            Ok(())
        }
        fn request(&self, number: u32) -> anyhow::Result<()> {
            self.answer.store(number.wrapping_add(self.error), Ordering::Release);
            Ok(())
        }
        fn answer(&self) -> u32 {
            self.answer.load(Ordering::Acquire)
        }
        fn usage(&self) -> anyhow::Result<Usage> {
            Usage::of(ThreadId::current())
        }
    }

    fn latencies() -> Histogram<u64> {
        Histogram::new(3).unwrap()
    }

    #[test]
    fn every_request_is_answered_and_timed() {
        // Numbers wrap within the run.
        let echo = Echo { answer: AtomicU32::new(u32::MAX - 5), error: 0 };
        let mut latencies = latencies();
        let time = Duration::from_millis(20);
        let began = Instant::now();
        let requests = converse(
            &echo,
            Waiting::Spin,
            &mut Thinks::new(Think::Steady, 1),
            time,
            &mut latencies,
        )
        .unwrap();
        assert!(began.elapsed() >= time);
        assert!(requests > 10, "{requests} requests in {time:?}");
        assert_eq!(latencies.len(), requests);
    }

    #[test]
    fn a_wrong_answer_is_an_error() {
        let echo = Echo { answer: AtomicU32::new(0), error: 1 };
        let mut thinks = Thinks::new(Think::Steady, 1);
        let time = Duration::from_millis(20);
        let error =
            converse(&echo, Waiting::Spin, &mut thinks, time, &mut latencies()).unwrap_err();
        assert_eq!(error.to_string(), "the vCPU answered 2 to request 1");
    }

    #[test]
    fn waiting_ends_at_its_time_and_not_before() {
        for waiting in [Waiting::Spin, Waiting::Yield] {
            for micros in [0, 10, 1000] {
                let due = Instant::now() + Duration::from_micros(micros);
                waiting.until(due);
                assert!(Instant::now() >= due);
            }
        }
    }
}
