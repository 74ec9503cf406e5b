// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a thread of this process has used, and how it was held up.
//!
//! Read from outside the thread: its CPU clock, its voluntary context switches, and the time it
//! was runnable without a CPU.

// UNSAFE: clock_gettime and sched_{get,set}affinity have no safe wrapper among our dependencies.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::time::Duration;

use anyhow::{Context, ensure};

/// A thread of this process, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread(libc::pid_t);

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

impl Thread {
    /// The calling thread.
    pub fn current() -> Self {
        // SAFETY: gettid takes nothing and cannot fail.
        Self(unsafe { libc::gettid() })
    }

    /// What it has used by now.
    ///
    /// # Errors
    ///
    /// The thread has ended, or /proc is not what it should be.
    pub fn usage(self) -> anyhow::Result<Usage> {
        Ok(Usage { cpu: self.cpu()?, sleeps: self.sleeps()?, delayed: self.delayed()? })
    }

    /// The thread's CPU clock. Unlike the figures in /proc it is exact while the thread runs.
    fn cpu(self) -> anyhow::Result<Duration> {
        // A thread's clock as Linux numbers it: the inverted thread number, then the bits of
        // "per thread" (4) and "scheduler's clock" (2); see clock_getres(2), pthread_getcpuclockid(3).
        clock((!self.0 << 3) | 6).with_context(|| format!("no CPU clock of thread {}", self.0))
    }

    fn sleeps(self) -> anyhow::Result<u64> {
        let status = self.proc("status")?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok())
            .context("no voluntary_ctxt_switches in /proc/self/task/*/status")
    }

    fn delayed(self) -> anyhow::Result<Duration> {
        // Three numbers: time on a CPU, time waiting for one, times it got one. Kernels without
        // CONFIG_SCHED_INFO have no such file: then nothing is known of delays.
        let Ok(schedstat) = self.proc("schedstat") else { return Ok(Duration::ZERO) };
        let waited = schedstat.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        waited.map(Duration::from_nanos).context("no second number in /proc/self/task/*/schedstat")
    }

    fn proc(self, file: &str) -> anyhow::Result<String> {
        let path = format!("/proc/self/task/{}/{file}", self.0);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
    }
}

/// CPU time of all threads of this process.
///
/// # Errors
///
/// What clock_gettime says.
pub fn process_cpu() -> anyhow::Result<Duration> {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).context("no CPU clock of the process")
}

fn clock(id: libc::clockid_t) -> std::io::Result<Duration> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel writes a timespec to a place that is large and aligned enough for one.
    if unsafe { libc::clock_gettime(id, time.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so it wrote the time.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).map_err(std::io::Error::other)?;
    let nanos = u32::try_from(time.tv_nsec).map_err(std::io::Error::other)?;
    Ok(Duration::new(seconds, nanos))
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
/// There is no such CPU, or what sched_setaffinity says.
pub fn pin(cpu: usize) -> anyhow::Result<()> {
    ensure!(cpu < usize::try_from(libc::CPU_SETSIZE)?, "CPU {cpu} is out of range");
    // SAFETY: a cpu_set_t is a field of bits; all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the CPU was checked to be below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: 0 is the calling thread; the kernel reads a set of the size given.
    let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    ensure!(done == 0, "cannot stay on CPU {cpu}: {}", std::io::Error::last_os_error());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_spinning_thread_uses_cpu_and_a_sleeping_one_counts_a_sleep() {
        let thread = Thread::current();
        let before = thread.usage().unwrap();
        let end = Instant::now() + Duration::from_millis(20);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let spun = thread.usage().unwrap();
        let used = spun.cpu - before.cpu + (spun.delayed - before.delayed);
        assert!(used >= Duration::from_millis(15), "{used:?} of 20 ms");
        std::thread::sleep(Duration::from_millis(20));
        let slept = thread.usage().unwrap();
        assert!(slept.cpu - spun.cpu < Duration::from_millis(10));
        assert!(slept.sleeps > spun.sleeps);
    }

    #[test]
    fn another_thread_is_read_from_outside() {
        let (send, receive) = std::sync::mpsc::channel();
        let (quit, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            send.send(Thread::current()).unwrap();
            wait.recv().unwrap();
        });
        let thread = receive.recv().unwrap();
        assert_ne!(thread, Thread::current());
        assert!(thread.usage().is_ok());
        quit.send(()).unwrap();
        other.join().unwrap();
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
