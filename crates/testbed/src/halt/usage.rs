// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a thread of this process has used, and how it was held up.
//!
//! Read from outside the thread: its CPU clock, its voluntary context switches, and the time it
//! was runnable without a CPU.

// UNSAFE: clock_gettime and sched_getaffinity have no safe wrapper among our dependencies.
#![expect(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::vmm::thread::ThreadId;

/// Sums since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a CPU, guest time included.
    pub cpu: Duration,
    /// Times it gave up its CPU to sleep: each is a wake-up, too.
    pub sleeps: u64,
    /// Time it was runnable while its CPU served somebody else.
    pub delayed: Duration,
}

impl Usage {
    /// What `thread` has used by now.
    ///
    /// # Errors
    ///
    /// The thread has ended, or /proc is not what it should be.
    pub fn of(thread: ThreadId) -> anyhow::Result<Self> {
        let id = thread.get();
        let cpu = thread.cpu_time().with_context(|| format!("no CPU clock of thread {id}"))?;
        let read = |file: &str| {
            let path = format!("/proc/self/task/{id}/{file}");
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
        };
        let sleeps = sleeps_in(&read("status")?)
            .context("no voluntary_ctxt_switches in /proc/self/task/*/status")?;
        // Kernels without CONFIG_SCHED_INFO have no such file: then nothing is known of delays.
        let delayed = match read("schedstat") {
            Ok(text) => {
                delayed_in(&text).context("no second number in /proc/self/task/*/schedstat")?
            }
            Err(_) => Duration::ZERO,
        };
        Ok(Self { cpu, sleeps, delayed })
    }

    /// What was used between `before` and this.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            sleeps: self.sleeps.saturating_sub(before.sleeps),
            delayed: self.delayed.saturating_sub(before.delayed),
        }
    }
}

fn sleeps_in(status: &str) -> Option<u64> {
    let switches = |line: &str| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok();
    status.lines().find_map(switches)
}

/// Of three numbers: time on a CPU, time waiting for one, times it got one.
fn delayed_in(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

/// CPU time of all threads of this process.
///
/// # Errors
///
/// What clock_gettime says.
pub fn process_cpu() -> anyhow::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write.
    let got = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    ensure!(got == 0, "clock_gettime: {}", std::io::Error::last_os_error());
    Ok(Duration::new(u64::try_from(time.tv_sec)?, u32::try_from(time.tv_nsec)?))
}

/// The CPUs that the calling thread may run on, in ascending order.
///
/// # Errors
///
/// What sched_getaffinity says.
pub fn allowed_cpus() -> anyhow::Result<Vec<usize>> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: 0 is the calling thread; the kernel writes at most the size given to the set.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    ensure!(got == 0, "sched_getaffinity: {}", std::io::Error::last_os_error());
    // SAFETY: a cpu_set_t is a field of bits; all of them were zeroed, some then written.
    let set = unsafe { set.assume_init() };
    let limit = usize::try_from(libc::CPU_SETSIZE)?;
    // SAFETY: CPU_ISSET reads a bit below CPU_SETSIZE of the set.
    Ok((0..limit).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect())
}

/// Keeps the calling thread on one CPU.
///
/// # Errors
///
/// There is no such CPU.
pub fn pin(cpu: usize) -> anyhow::Result<()> {
    ThreadId::current().pin(cpu).with_context(|| format!("cannot stay on CPU {cpu}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_spinning_thread_uses_cpu_and_a_sleeping_one_counts_a_sleep() {
        let usage = || Usage::of(ThreadId::current()).unwrap();
        let (before, begin) = (usage(), Instant::now());
        loop {
            for _ in 0..10_000 {
                std::hint::spin_loop();
            }
            // However long others have the CPU.
            let spun = usage().since(before);
            if spun.cpu >= Duration::from_millis(15) {
                assert!(spun.cpu <= begin.elapsed() + Duration::from_millis(5), "{spun:?}");
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "{spun:?}");
        }
        let before = usage();
        std::thread::sleep(Duration::from_millis(20));
        let slept = usage().since(before);
        assert!(slept.cpu < Duration::from_millis(10), "{slept:?}");
        assert!(slept.sleeps > 0);
    }

    #[test]
    fn another_thread_is_read_from_outside() {
        let (send, receive) = std::sync::mpsc::channel();
        let (quit, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            send.send(ThreadId::current()).unwrap();
            wait.recv().unwrap();
        });
        let thread = receive.recv().unwrap();
        assert_ne!(thread, ThreadId::current());
        assert!(Usage::of(thread).is_ok());
        quit.send(()).unwrap();
        other.join().unwrap();
    }

    #[test]
    fn files_that_are_not_what_they_should_be_are_noticed() {
        assert_eq!(sleeps_in("Name:\tx\nvoluntary_ctxt_switches:\t12\n"), Some(12));
        assert_eq!(sleeps_in("nonvoluntary_ctxt_switches:\t12\n"), None);
        assert_eq!(delayed_in("1 2000 3\n"), Some(Duration::from_micros(2)));
        assert_eq!(delayed_in("1"), None);
        assert_eq!(delayed_in("1 x 3"), None);
    }

    #[test]
    fn a_thread_stays_where_it_is_pinned() {
        std::thread::spawn(|| {
            let cpus = allowed_cpus().unwrap();
            let last = *cpus.last().unwrap();
            pin(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
            assert!(pin(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }
}
