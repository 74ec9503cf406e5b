// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A 250 Hz timer on a thread of its own, for vCPUs that have none.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;

/// Ticks a second: what a guest kernel with HZ=250 asks for.
pub const HZ: u32 = 250;
/// Time between two ticks.
pub const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / HZ as u64);

/// The timer. It ticks until dropped.
#[derive(Debug)]
pub struct TickTimer {
    /// Disconnecting it ends the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TickTimer {
    /// A timer whose thread has the caller's affinity and calls `tick`.
    ///
    /// # Errors
    ///
    /// No thread can be started.
    pub fn start(tick: impl Fn() + Send + 'static) -> anyhow::Result<Self> {
        let (running, ended) = channel::<()>();
        let run = move || {
            let mut due = Instant::now();
            loop {
                // Late ticks are caught up with, as a periodic timer does.
                due += PERIOD;
                match ended.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => tick(),
                    _ => return,
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("tick".to_owned())
            .spawn(run)
            .context("cannot start the timer's thread")?;
        Ok(Self { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for TickTimer {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            // It calls nothing that panics.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn it_ticks_250_times_a_second_until_it_is_dropped() {
        let count = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&count);
        let began = Instant::now();
        let timer = TickTimer::start(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        // However late, none is lost.
        while count.load(Ordering::Relaxed) < 25 {
            assert!(began.elapsed() < Duration::from_secs(10), "no ticks");
            std::thread::sleep(PERIOD);
        }
        drop(timer);
        let most = began.elapsed().as_nanos() / PERIOD.as_nanos();
        let ticks = count.load(Ordering::Relaxed);
        assert!(u128::from(ticks) <= most, "{ticks} ticks, not {most}");
        std::thread::sleep(PERIOD * 3);
        assert_eq!(count.load(Ordering::Relaxed), ticks);
    }
}
