// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The VM's event loop, on a thread of its own: the console, the injected tick, the end.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use event_manager::{EventManager, EventOps, Events, MutEventSubscriber, SubscriberOps};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use vmm_sys_util::timerfd::TimerFd;

use super::console::ConsoleOutput;
use super::error::Error;
use super::interrupts::{Interrupts, Vector};
use super::kick::Vcpus;

/// How often to look whether the loop ends, should nothing wake it, in milliseconds.
const LOOK_AGAIN_MS: i32 = 1000;

type Subscriber = Box<dyn MutEventSubscriber + Send>;

/// Registers one file descriptor. It was made for this and is registered once, so it works or epoll
/// is out of memory: then the VM runs without it, and says so by timing out.
fn watch<T: AsRawFd>(ops: &mut EventOps<'_>, fd: &T) {
    drop(ops.add(Events::new(fd, EventSet::IN)));
}

/// Keeps the console's output.
pub(super) struct Console(pub(super) ConsoleOutput);

impl MutEventSubscriber for Console {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        watch(ops, self.0.ready());
    }

    fn process(&mut self, _: Events, _: &mut EventOps<'_>) {
        self.0.drain();
    }
}

/// What the injected tick shall be; whoever changes it writes to `changed`.
#[derive(Debug)]
pub(super) struct TickRate {
    hz: AtomicU32,
    changed: EventFd,
}

impl TickRate {
    pub(super) fn new(hz: u32) -> Result<Self, Error> {
        let changed = EventFd::new(EFD_NONBLOCK).map_err(Error::system("eventfd"))?;
        Ok(Self { hz: AtomicU32::new(hz), changed })
    }

    /// From now on this many ticks a second; 0: none.
    pub(super) fn set(&self, hz: u32) -> Result<(), Error> {
        self.hz.store(hz, Ordering::Release);
        self.changed.write(1).map_err(Error::system("eventfd write"))
    }
}

/// Injects a periodic tick into every vCPU.
pub(super) struct Ticker {
    timer: TimerFd,
    rate: Arc<TickRate>,
    interrupts: Interrupts,
    vcpus: usize,
}

impl Ticker {
    pub(super) fn new(
        rate: Arc<TickRate>,
        interrupts: Interrupts,
        vcpus: usize,
    ) -> Result<Self, Error> {
        let timer = TimerFd::new()
            .map_err(|error| Error::System { call: "timerfd_create", source: error.into() })?;
        Ok(Self { timer, rate, interrupts, vcpus })
    }

    fn arm(&mut self) {
        // A valid timer and a valid time: nothing to fail.
        let _ = match self.rate.hz.load(Ordering::Acquire) {
            0 => self.timer.clear(),
            hz => {
                let period = Duration::from_secs(1) / hz;
                self.timer.reset(period, Some(period))
            }
        };
    }
}

impl MutEventSubscriber for Ticker {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        watch(ops, &self.timer);
        watch(ops, &self.rate.changed);
        self.arm();
    }

    fn process(&mut self, events: Events, _: &mut EventOps<'_>) {
        if events.fd() == self.rate.changed.as_raw_fd() {
            drop(self.rate.changed.read());
            self.arm();
            return;
        }
        // Stopped after this event was seen: a read would wait for ever.
        if self.rate.hz.load(Ordering::Acquire) == 0 {
            return;
        }
        // Ticks that the host was too slow for are one, as with a real timer.
        let _ = self.timer.wait();
        for index in 0..self.vcpus {
            // Cannot fail: the index is below the count, and no kernel controller is involved.
            drop(self.interrupts.raise(index, Vector::Tick));
        }
    }
}

/// Ends the VM when one of its vCPUs has ended.
pub(super) struct Ends {
    pub(super) ended: Arc<EventFd>,
    pub(super) vcpus: Arc<Vcpus>,
}

impl MutEventSubscriber for Ends {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        watch(ops, &*self.ended);
    }

    fn process(&mut self, _: Events, _: &mut EventOps<'_>) {
        drop(self.ended.read());
        self.vcpus.end();
    }
}

/// Wakes the event loop, to look whether it ends.
pub(super) struct Quit(pub(super) Arc<EventFd>);

impl MutEventSubscriber for Quit {
    fn init(&mut self, ops: &mut EventOps<'_>) {
        watch(ops, &*self.0);
    }

    fn process(&mut self, _: Events, _: &mut EventOps<'_>) {
        drop(self.0.read());
    }
}

/// Dispatches until `quit`; a write to the event of [`Quit`] has it look at once.
pub(super) fn run(subscribers: Vec<Subscriber>, quit: &AtomicBool) -> Result<(), Error> {
    let mut manager = EventManager::<Subscriber>::new().map_err(Error::EventLoop)?;
    for subscriber in subscribers {
        manager.add_subscriber(subscriber);
    }
    while !quit.load(Ordering::Acquire) {
        manager.run_with_timeout(LOOK_AGAIN_MS).map_err(Error::EventLoop)?;
    }
    Ok(())
}
