// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The VM's event loop, on a thread of its own: the console, the injected tick, the end.
// UNSAFE: fcntl, as vmm-sys-util makes blocking timers only.
#![expect(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, RawFd};
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

/// A part of the loop. It names what it watches, as the registration may fail and `init` cannot say so.
pub(super) trait Subscriber: MutEventSubscriber + Send {
    /// The file descriptors whose being readable it processes.
    fn watched(&self) -> Vec<RawFd>;
}

/// All parts together.
pub(super) type Manager = EventManager<Box<dyn Subscriber>>;

/// Keeps the console's output.
pub(super) struct Console(pub(super) ConsoleOutput);

impl Subscriber for Console {
    fn watched(&self) -> Vec<RawFd> {
        vec![self.0.ready().as_raw_fd()]
    }
}

impl MutEventSubscriber for Console {
    fn init(&mut self, _: &mut EventOps<'_>) {}

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

/// A periodic timer that can be asked without waiting for it.
struct Timer(TimerFd);

impl Timer {
    fn new() -> Result<Self, Error> {
        let timer = TimerFd::new()
            .map_err(|error| Error::System { call: "timerfd_create", source: error.into() })?;
        // SAFETY: sets a flag of an open descriptor; no pointers.
        let set = unsafe { libc::fcntl(timer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        if set < 0 {
            return Err(Error::System { call: "fcntl", source: io::Error::last_os_error() });
        }
        Ok(Self(timer))
    }

    /// Expires so many times a second from now on, and has not expired yet; 0: never.
    fn arm(&mut self, hz: u32) {
        // A valid timer and a valid time: nothing to fail.
        let _ = match hz {
            0 => self.0.clear(),
            hz => {
                let period = Duration::from_secs(1) / hz;
                self.0.reset(period, Some(period))
            }
        };
    }

    /// Whether it has expired since this was asked last; how often does not matter.
    fn has_expired(&mut self) -> bool {
        self.0.wait().is_ok()
    }
}

/// Injects a periodic tick into every vCPU.
pub(super) struct Ticker {
    timer: Timer,
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
        Ok(Self { timer: Timer::new()?, rate, interrupts, vcpus })
    }

    fn arm(&mut self) {
        self.timer.arm(self.rate.hz.load(Ordering::Acquire));
    }
}

impl Subscriber for Ticker {
    fn watched(&self) -> Vec<RawFd> {
        vec![self.timer.0.as_raw_fd(), self.rate.changed.as_raw_fd()]
    }
}

impl MutEventSubscriber for Ticker {
    fn init(&mut self, _: &mut EventOps<'_>) {
        self.arm();
    }

    fn process(&mut self, events: Events, _: &mut EventOps<'_>) {
        if events.fd() == self.rate.changed.as_raw_fd() {
            drop(self.rate.changed.read());
            self.arm();
            return;
        }
        // Ticks that the host was too slow for are one, as with a real timer. None: armed anew after
        // this event was seen. A rate of 0: stopped, and about to be told.
        if !self.timer.has_expired() || self.rate.hz.load(Ordering::Acquire) == 0 {
            return;
        }
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

impl Subscriber for Ends {
    fn watched(&self) -> Vec<RawFd> {
        vec![self.ended.as_raw_fd()]
    }
}

impl MutEventSubscriber for Ends {
    fn init(&mut self, _: &mut EventOps<'_>) {}

    fn process(&mut self, _: Events, _: &mut EventOps<'_>) {
        drop(self.ended.read());
        self.vcpus.end();
    }
}

/// Wakes the event loop, to look whether it ends.
pub(super) struct Quit(pub(super) Arc<EventFd>);

impl Subscriber for Quit {
    fn watched(&self) -> Vec<RawFd> {
        vec![self.0.as_raw_fd()]
    }
}

impl MutEventSubscriber for Quit {
    fn init(&mut self, _: &mut EventOps<'_>) {}

    fn process(&mut self, _: Events, _: &mut EventOps<'_>) {
        drop(self.0.read());
    }
}

/// Registers all parts.
pub(super) fn manager(subscribers: Vec<Box<dyn Subscriber>>) -> Result<Manager, Error> {
    let mut manager = Manager::new().map_err(Error::EventLoop)?;
    for subscriber in subscribers {
        let watched = subscriber.watched();
        let id = manager.add_subscriber(subscriber);
        let mut ops = manager.event_ops(id).map_err(Error::EventLoop)?;
        for fd in watched {
            ops.add(Events::new_raw(fd, EventSet::IN)).map_err(Error::EventLoop)?;
        }
    }
    Ok(manager)
}

/// Dispatches until `quit`; a write to the event of [`Quit`] has it look at once.
pub(super) fn run(mut manager: Manager, quit: &AtomicBool) -> Result<(), Error> {
    while !quit.load(Ordering::Acquire) {
        manager.run_with_timeout(LOOK_AGAIN_MS).map_err(Error::EventLoop)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_timer_that_was_armed_anew_is_not_waited_for() {
        let mut timer = Timer::new().unwrap();
        timer.arm(1_000);
        let begin = Instant::now();
        while !timer.has_expired() {
            assert!(begin.elapsed() < Duration::from_secs(10), "it never expires");
        }
        std::thread::sleep(Duration::from_millis(5));
        // Its event is about to be processed when a change, seen with it, is.
        for hz in [1, 0] {
            timer.arm(hz);
            let begin = Instant::now();
            assert!(!timer.has_expired());
            assert!(begin.elapsed() < Duration::from_millis(500), "it waited for the next period");
        }
    }

    #[test]
    fn what_cannot_be_watched_is_an_error_at_once() {
        struct Unwatchable;
        impl Subscriber for Unwatchable {
            fn watched(&self) -> Vec<RawFd> {
                vec![-1]
            }
        }
        impl MutEventSubscriber for Unwatchable {
            fn init(&mut self, _: &mut EventOps<'_>) {}
            fn process(&mut self, _: Events, _: &mut EventOps<'_>) {}
        }
        assert!(matches!(manager(vec![Box::new(Unwatchable)]), Err(Error::EventLoop(_))));
    }
}
