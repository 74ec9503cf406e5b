// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The thread back end: a thread that plays the vCPU.
//!
//! It halts through halt-poll's driver exactly as a vCPU loop does, and answers requests. There is
//! no guest and there are no exits, so its figures are the driver's and the policies' own; they
//! say nothing of KVM.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use anyhow::{Context, anyhow};
use halt_poll::{FutexWait, wake};
use vcpu_state::WakeWord;

use super::plan::Phase;
use super::policies::Poller;
use super::tick::TickTimer;
use super::usage::{Usage, pin};
use super::vcpu::BenchVcpu;
use crate::vmm::thread::ThreadId;

/// On cache lines of its own (two, as processors fetch them in pairs).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Padded<T>(T);

/// What the thread shares with its client and its timer.
#[derive(Debug, Default)]
struct Shared {
    word: Padded<WakeWord>,
    request: Padded<AtomicU32>,
    answer: Padded<AtomicU32>,
    /// A tick is pending.
    tick: Padded<AtomicBool>,
    /// Ticks handled.
    ticks: AtomicU64,
    /// The turn is to end.
    stop: AtomicBool,
}

impl Shared {
    fn wake(&self) {
        // What had to be done to wake it does not matter here.
        let _kick = wake(&self.word.0);
    }

    /// The vCPU's loop.
    fn run(&self, poller: &mut Poller) -> io::Result<()> {
        while !self.stop.load(Ordering::Acquire) {
            let _halted = poller.halt(&FutexWait::new(&self.word.0))?;
            self.work();
        }
        Ok(())
    }

    /// What the guest would do between two halts.
    fn work(&self) {
        if self.tick.0.load(Ordering::Relaxed) && self.tick.0.swap(false, Ordering::AcqRel) {
            self.ticks.fetch_add(1, Ordering::Relaxed);
        }
        let request = self.request.0.load(Ordering::Acquire);
        if request != self.answer.0.load(Ordering::Relaxed) {
            self.answer.0.store(request, Ordering::Release);
        }
    }
}

/// The thread.
#[derive(Debug)]
pub struct ThreadVcpu {
    cpu: usize,
    shared: Arc<Shared>,
    /// Here between two turns, on the thread during one.
    poller: Option<Poller>,
    turn: Option<Turn>,
}

/// Gives the poller back.
type Handle = JoinHandle<(Poller, io::Result<()>)>;

#[derive(Debug)]
struct Turn {
    thread: ThreadId,
    handle: Handle,
    _timer: Option<TickTimer>,
}

impl ThreadVcpu {
    /// A vCPU that will run on `cpu` and halt by `poller`.
    pub fn new(cpu: usize, poller: Poller) -> Self {
        Self { cpu, shared: Arc::default(), poller: Some(poller), turn: None }
    }

    fn start(&self, mut poller: Poller) -> anyhow::Result<(ThreadId, Handle)> {
        let (shared, cpu) = (Arc::clone(&self.shared), self.cpu);
        let (announce, started) = channel();
        let run = move || {
            let pinned = pin(cpu);
            let placed = pinned.is_ok();
            // Whoever started it waits, and knows nothing of it any more if it is misplaced.
            let _ = announce.send(pinned.map(|()| ThreadId::current()));
            let result = if placed { shared.run(&mut poller) } else { Ok(()) };
            (poller, result)
        };
        let handle = std::thread::Builder::new()
            .name("vcpu".to_owned())
            .spawn(run)
            .context("cannot start the vCPU's thread")?;
        let thread = started.recv().context("the vCPU's thread panicked")?;
        Ok((thread?, handle))
    }
}

impl BenchVcpu for ThreadVcpu {
    fn begin(&mut self, phase: Phase) -> anyhow::Result<()> {
        let poller = self.poller.take().context("the vCPU is running or has failed")?;
        self.shared = Arc::default();
        let (thread, handle) = self.start(poller)?;
        let timed = Arc::clone(&self.shared);
        let timer = (phase == Phase::Tick).then(|| {
            TickTimer::start(move || {
                timed.tick.0.store(true, Ordering::Release);
                timed.wake();
            })
        });
        // With the thread in place first: if there is no timer, the turn is ended all the same.
        let (timer, failed) = match timer.transpose() {
            Ok(timer) => (timer, Ok(())),
            Err(error) => (None, Err(error)),
        };
        self.turn = Some(Turn { thread, handle, _timer: timer });
        failed
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake();
        let (poller, result) =
            turn.handle.join().map_err(|_| anyhow!("the vCPU's thread panicked"))?;
        self.poller = Some(poller);
        result.context("the vCPU's thread cannot block")
    }

    fn request(&self, number: u32) -> anyhow::Result<()> {
        self.shared.request.0.store(number, Ordering::Release);
        self.shared.wake();
        Ok(())
    }

    fn answer(&self) -> u32 {
        self.shared.answer.0.load(Ordering::Acquire)
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        let turn = self.turn.as_ref().context("the vCPU does not run")?;
        Usage::of(turn.thread)
    }
}

impl Drop for ThreadVcpu {
    fn drop(&mut self) {
        // Whoever wants to know called it before.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::super::policies::{HostParams, poller};
    use super::super::rows::RowPolicy;
    use super::super::tick::PERIOD;
    use super::super::usage::allowed_cpus;
    use super::*;

    fn vcpu(policy: RowPolicy) -> ThreadVcpu {
        let cpu = *allowed_cpus().unwrap().last().unwrap();
        ThreadVcpu::new(cpu, poller(policy, &HostParams::sample()))
    }

    const SERVE: Phase = Phase::ALL[2];

    fn ask(vcpu: &ThreadVcpu, number: u32) {
        vcpu.request(number).unwrap();
        let patience = Instant::now() + Duration::from_secs(10);
        while vcpu.answer() != number {
            assert!(Instant::now() < patience, "no answer to {number}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn it_answers_in_every_turn_whether_it_polls_or_sleeps() {
        for policy in [RowPolicy::Never, RowPolicy::Fixed, RowPolicy::Adaptive] {
            let mut vcpu = vcpu(policy);
            for _ in 0..3 {
                vcpu.begin(SERVE).unwrap();
                assert_eq!(vcpu.answer(), 0);
                for number in 1..=100 {
                    ask(&vcpu, number);
                }
                vcpu.end().unwrap();
            }
        }
    }

    #[test]
    fn its_timer_ticks_only_in_the_phase_that_asks_for_it() {
        let mut vcpu = vcpu(RowPolicy::Never);
        let ticks = |vcpu: &ThreadVcpu| vcpu.shared.ticks.load(Ordering::Relaxed);
        vcpu.begin(Phase::Idle).unwrap();
        std::thread::sleep(PERIOD * 10);
        vcpu.end().unwrap();
        assert_eq!(ticks(&vcpu), 0);
        let began = Instant::now();
        vcpu.begin(Phase::Tick).unwrap();
        while ticks(&vcpu) < 10 {
            assert!(began.elapsed() < Duration::from_secs(10), "no ticks");
            std::thread::sleep(PERIOD);
        }
        vcpu.end().unwrap();
        let most = began.elapsed().as_nanos() / PERIOD.as_nanos();
        assert!(u128::from(ticks(&vcpu)) <= most, "{} ticks, not {most}", ticks(&vcpu));
    }

    #[test]
    fn a_policy_keeps_what_it_learned_from_turn_to_turn() {
        use halt_poll::Policy;

        let mut vcpu = vcpu(RowPolicy::Kernel);
        vcpu.begin(SERVE).unwrap();
        let patience = Instant::now() + Duration::from_secs(10);
        let mut number = 0;
        // Halts shorter than the ceiling make the kernel's window grow.
        let grown = loop {
            number += 1;
            ask(&vcpu, number);
            std::thread::sleep(Duration::from_micros(20));
            if number % 50 == 0 {
                vcpu.end().unwrap();
                let window = vcpu.poller.as_mut().unwrap().policy_mut().window(0);
                if window > 0 {
                    break window;
                }
                assert!(Instant::now() < patience, "the window does not grow");
                vcpu.begin(SERVE).unwrap();
                number = 0;
            }
        };
        vcpu.begin(Phase::Tick).unwrap();
        vcpu.end().unwrap();
        let kept = vcpu.poller.as_mut().unwrap().policy_mut().window(0);
        // One halt, until the end: at most one step down or up.
        assert!((grown / 2..=grown * 2).contains(&kept), "{grown}, then {kept}");
    }

    #[test]
    fn only_a_running_vcpu_has_used_something() {
        let mut vcpu = vcpu(RowPolicy::Never);
        assert!(vcpu.usage().is_err());
        vcpu.begin(SERVE).unwrap();
        ask(&vcpu, 1);
        assert!(vcpu.usage().unwrap().cpu > Duration::ZERO);
        vcpu.end().unwrap();
        assert!(vcpu.usage().is_err());
    }
}
