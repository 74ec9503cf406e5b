// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Whether somebody else used our CPUs while we measured.
//!
//! Two witnesses: the scheduler's record of how long our threads were runnable without a CPU,
//! exact to the nanosecond; and what /proc/stat says the CPUs did less what our own threads used,
//! in ticks of 10 ms, for disturbances that share the CPU without taking it from us (a hypervisor
//! below us, interrupts).

use std::time::{Duration, Instant};

use anyhow::Context;

use super::usage::{Usage, process_cpu};
use crate::vmm::thread::ThreadId;

/// A delay of our threads above this share of the time disturbs ...
const DELAYED_SHARE: f64 = 0.02;
/// ... without this much for each of their wake-ups, which is how long a CPU of ours takes to begin
/// with them.
const WAKE_UP: Duration = Duration::from_micros(2);
/// Foreign use above this share of the time ...
const FOREIGN_SHARE: f64 = 0.10;
/// ... and this many ticks disturbs.
const FOREIGN_TICKS: u64 = 2;
/// Unit of /proc/stat: USER_HZ is 100 on all architectures that KVM runs on but one (alpha has
/// 1024, and no KVM).
const TICK_MS: u64 = 10;

/// What the CPUs did for others within some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Disturbance {
    time: Duration,
    delayed: Duration,
    foreign: Duration,
}

/// Looks at the CPUs from its making to its end.
#[derive(Debug)]
pub struct Watch<'a> {
    cpus: &'a [usize],
    began: Instant,
    client: Usage,
    busy: Duration,
    ours: Duration,
}

impl<'a> Watch<'a> {
    /// Begins to watch `cpus`, on which all threads of this process are.
    ///
    /// # Errors
    ///
    /// /proc is not what it should be.
    pub fn begin(cpus: &'a [usize]) -> anyhow::Result<Self> {
        Ok(Self {
            cpus,
            client: Usage::of(ThreadId::current())?,
            busy: busy(cpus)?,
            ours: process_cpu()?,
            began: Instant::now(),
        })
    }

    /// Ends it, in the same thread. `vcpu` is what the vCPU's thread used meanwhile.
    ///
    /// # Errors
    ///
    /// /proc is not what it should be.
    pub fn end(self, vcpu: Usage) -> anyhow::Result<Disturbance> {
        let time = self.began.elapsed();
        let ours = process_cpu()?.saturating_sub(self.ours);
        let busy = busy(self.cpus)?.saturating_sub(self.busy);
        let client = Usage::of(ThreadId::current())?.since(self.client);
        let delayed = held_up(vcpu) + held_up(client);
        Ok(Disturbance { time, delayed, foreign: busy.saturating_sub(ours) })
    }
}

impl Disturbance {
    /// Whether figures measured in this time are not to be trusted.
    pub fn matters(&self) -> bool {
        self.delayed > self.time.mul_f64(DELAYED_SHARE)
            || self.foreign
                > self.time.mul_f64(FOREIGN_SHARE) + Duration::from_millis(FOREIGN_TICKS * TICK_MS)
    }

    /// For choosing the least disturbed of several tries.
    pub fn weight(&self) -> f64 {
        (self.delayed + self.foreign).as_secs_f64() / self.time.as_secs_f64().max(1e-9)
    }
}

/// How long others had the CPU while a thread wanted it.
fn held_up(thread: Usage) -> Duration {
    let wake_ups = u32::try_from(thread.sleeps).unwrap_or(u32::MAX);
    thread.delayed.saturating_sub(WAKE_UP.saturating_mul(wake_ups))
}

fn busy(cpus: &[usize]) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    busy_in(&stat, cpus).context("/proc/stat has no line of a CPU that we may use")
}

/// Time that `cpus` were not idle, by a text like /proc/stat's.
fn busy_in(stat: &str, cpus: &[usize]) -> Option<Duration> {
    let ticks = |cpu: &usize| -> Option<u64> {
        let name = format!("cpu{cpu}");
        let line = stat.lines().find(|line| line.split(' ').next() == Some(name.as_str()))?;
        // user nice system idle iowait irq softirq steal; guest time is in user already.
        let fields = line.split_whitespace().skip(1).take(8).enumerate();
        fields
            .filter(|(field, _)| !matches!(field, 3 | 4))
            .map(|(_, ticks)| ticks.parse::<u64>().ok())
            .sum()
    };
    let ticks = cpus.iter().map(ticks).sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks.saturating_mul(TICK_MS)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::usage::{allowed_cpus, pin};
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 9 9\n\
                        cpu0 10 1 20 1000 100 2 3 4 5 0\n\
                        cpu1 1 1 1 1 1 1 1 1 1 1\n\
                        cpu10 50 0 0 7 7 0 0 0 0 0\n\
                        intr 1 2 3\n";

    #[test]
    fn busy_is_everything_but_idle_of_the_cpus_asked_for() {
        assert_eq!(busy_in(STAT, &[0]), Some(Duration::from_millis(400)));
        assert_eq!(busy_in(STAT, &[1, 10]), Some(Duration::from_millis(560)));
        assert_eq!(busy_in(STAT, &[2]), None);
        assert_eq!(busy_in("cpu0 1 2 x 4 5 6 7 8\n", &[0]), None);
        assert_eq!(busy_in("", &[]), Some(Duration::ZERO));
    }

    #[test]
    fn a_delay_disturbs_and_so_does_foreign_use() {
        let ms = Duration::from_millis;
        let matters = |delayed, foreign| {
            Disturbance { time: ms(200), delayed: ms(delayed), foreign: ms(foreign) }.matters()
        };
        assert!(!matters(3, 0) && matters(5, 0));
        assert!(!matters(0, 30) && matters(0, 50));
    }

    #[test]
    fn the_time_that_wake_ups_take_is_no_delay() {
        let ms = Duration::from_millis;
        let usage = Usage { sleeps: 1000, delayed: ms(5), ..Usage::default() };
        assert_eq!(held_up(usage), ms(3));
        assert_eq!(held_up(Usage { sleeps: u64::MAX, ..usage }), Duration::ZERO);
    }

    #[test]
    fn a_thread_that_competes_is_noticed() {
        if !std::path::Path::new("/proc/thread-self/schedstat").exists() {
            let reason = "no /proc/self/task/*/schedstat: nothing is known of delays";
            return skipped::skip("a_thread_that_competes_is_noticed", reason);
        }
        // The vCPU's part is played by this thread, and the foreign one by a thread of ours on the
        // same CPU: the delay shows it, although the process's own use hides it from /proc/stat.
        std::thread::spawn(|| {
            let cpu = *allowed_cpus().unwrap().last().unwrap();
            pin(cpu).unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                let cpus = [cpu];
                let watch = Watch::begin(&cpus).unwrap();
                let end = Instant::now() + Duration::from_millis(100);
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
                let disturbance = watch.end(Usage::default()).unwrap();
                stop.store(true, Ordering::Relaxed);
                assert!(disturbance.matters(), "{disturbance:?}");
            });
        })
        .join()
        .unwrap();
    }
}
