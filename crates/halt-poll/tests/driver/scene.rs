// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A scripted world: a clock that moves as told, a source that wakes as told, and what was seen.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use halt_poll::{Clock, Contention, Halt, HaltPoller, Policy};
use vcpu_state::{BlockEnd, WakeSource};

/// What a scripted sleep does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sleep {
    /// Lasts so long, ends so; whether a wake-up is pending then.
    Ends(u64, BlockEnd, bool),
    /// Fails.
    Fails,
}

/// Clock and source at once.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// The clock.
    pub(crate) now: Cell<u64>,
    /// By how much each reading moves it; the last one stays.
    pub(crate) steps: RefCell<VecDeque<i64>>,
    /// From when on a wake-up is pending.
    pub(crate) wake_at: Cell<Option<u64>>,
    /// The sleeps to come; after them all are woken at once.
    pub(crate) sleeps: RefCell<VecDeque<Sleep>>,
    /// How often the clock was read.
    pub(crate) reads: Cell<u64>,
    /// The time-outs of the sleeps so far.
    pub(crate) slept: RefCell<Vec<Option<u64>>>,
}

impl Scene {
    /// Each reading of the clock moves it by `step` nanoseconds.
    pub(crate) fn new(step: i64) -> Self {
        let scene = Self::default();
        scene.now.set(1_000_000);
        scene.steps.borrow_mut().push_back(step);
        scene
    }

    /// A wake-up will be pending `ns` from now.
    pub(crate) fn wake_in(self, ns: u64) -> Self {
        self.wake_at.set(Some(self.now.get() + ns));
        self
    }

    /// Adds a sleep to the script.
    pub(crate) fn sleep(self, sleep: Sleep) -> Self {
        self.sleeps.borrow_mut().push_back(sleep);
        self
    }

    /// A poller whose window is `window`, in this world.
    pub(crate) fn poller(&self, window: u32) -> HaltPoller<Noting, Asked, &Self> {
        HaltPoller::new(Noting::new(window)).with_contention(Asked::default()).with_clock(self)
    }
}

impl Clock for Scene {
    fn now_ns(&self) -> u64 {
        let mut steps = self.steps.borrow_mut();
        let step = match steps.len() {
            0 | 1 => steps.front().copied().unwrap_or(0),
            _ => steps.pop_front().unwrap_or(0),
        };
        self.reads.set(self.reads.get() + 1);
        self.now.set(self.now.get().saturating_add_signed(step));
        self.now.get()
    }
}

impl WakeSource for &Scene {
    type Error = &'static str;

    fn is_pending(&self) -> bool {
        self.wake_at.get().is_some_and(|at| self.now.get() >= at)
    }

    fn take(&self) -> bool {
        let pending = self.is_pending();
        if pending {
            self.wake_at.set(None);
        }
        pending
    }

    fn block(&self, timeout_ns: Option<u64>) -> Result<BlockEnd, Self::Error> {
        self.slept.borrow_mut().push(timeout_ns);
        let next = self.sleeps.borrow_mut().pop_front();
        match next.unwrap_or(Sleep::Ends(0, BlockEnd::Woken, true)) {
            Sleep::Fails => Err("scripted"),
            Sleep::Ends(ns, end, pending) => {
                self.now.set(self.now.get().saturating_add(ns));
                if pending {
                    self.wake_at.set(Some(0));
                }
                Ok(end)
            }
        }
    }
}

/// A policy that notes what it learns, and checks that window and record alternate.
#[derive(Debug)]
pub(crate) struct Noting {
    pub(crate) window: u32,
    open: bool,
    pub(crate) halts: Vec<Halt>,
}

impl Noting {
    pub(crate) fn new(window: u32) -> Self {
        Self { window, open: false, halts: Vec::new() }
    }
}

impl Policy for Noting {
    fn window(&mut self, _now_ns: u64) -> u32 {
        assert!(!self.open, "a window without a record before it");
        self.open = true;
        self.window
    }

    fn record(&mut self, halt: &Halt) {
        assert!(self.open, "a record without a window");
        assert_eq!(halt.window_ns, self.window);
        self.open = false;
        self.halts.push(*halt);
    }
}

/// Counts how often it is asked; wants the CPU from one time on.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) times: u64,
    pub(crate) wants_from: Option<u64>,
}

impl Contention for Asked {
    fn wants_cpu(&mut self, _now_ns: u64) -> bool {
        self.times += 1;
        self.wants_from.is_some_and(|from| self.times >= from)
    }
}
