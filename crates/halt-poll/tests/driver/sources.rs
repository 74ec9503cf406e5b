// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The real sources: futex and eventfd behave alike behind the one loop.

use std::io::Write;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use halt_poll::{EventFdWait, Fixed, FutexWait, HaltEnd, HaltPoller, NotAnEventFd, wake};
use vcpu_state::{BlockEnd, Kick, WakeSource, WakeWord};

use crate::scene::Asked;

#[expect(unsafe_code, reason = "eventfd(2)")]
pub(crate) fn eventfd(initial: u32, flags: libc::c_int) -> OwnedFd {
    // SAFETY: no pointers.
    let fd = unsafe { libc::eventfd(initial, flags | libc::EFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: a new descriptor that nobody else owns.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

pub(crate) fn add(fd: &OwnedFd, count: u64) {
    let mut file = std::fs::File::from(fd.try_clone().unwrap());
    file.write_all(&count.to_ne_bytes()).unwrap();
}

/// A time-out that says: this test failed.
pub(crate) const LONG_NS: u64 = 10_000_000_000;
const LONG: Option<u64> = Some(LONG_NS);

/// What every source has to do; `wake` makes a wake-up pending.
fn behaves_as_a_source<S: WakeSource<Error = std::io::Error>>(
    source: &S,
    wake: &(dyn Fn() + Sync),
) {
    assert!(!source.is_pending() && !source.take());
    assert_eq!(source.block(Some(100_000)).unwrap(), BlockEnd::TimedOut);
    wake();
    assert!(source.is_pending());
    assert_eq!(source.block(LONG).unwrap(), BlockEnd::NotSlept);
    assert!(source.is_pending(), "looking and blocking consume nothing");
    assert!(source.take());
    assert!(!source.take() && !source.is_pending());

    // Through the driver: pending at once, while polling, while asleep, never.
    wake();
    let mut poller = HaltPoller::new(Fixed::new(0)).with_contention(Asked::default());
    let halted = poller.halt(source).unwrap();
    assert_eq!((halted.end, halted.halt.halt_ns), (HaltEnd::Woken, 0));
    for window in [0, 1_000_000_000] {
        *poller.policy_mut() = Fixed::new(window);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                wake();
            });
            let halted = poller.halt_for(source, LONG_NS).unwrap();
            assert_eq!((halted.end, halted.halt.slept), (HaltEnd::Woken, window == 0));
        });
    }
    *poller.policy_mut() = Fixed::new(10_000);
    let begin = Instant::now();
    let halted = poller.halt_for(source, 5_000_000).unwrap();
    assert_eq!((halted.end, halted.halt.slept), (HaltEnd::TimedOut, true));
    assert!(begin.elapsed() >= Duration::from_millis(5));
}

/// F09: what stops the polling of one source stops that of the others, as it is the same loop.
fn stops_for_contention<S: WakeSource<Error = std::io::Error>>(source: &S) {
    let mut poller = HaltPoller::new(Fixed::new(1_000_000_000))
        .with_contention(Asked { times: 0, wants_from: Some(3) });
    let halted = poller.halt_for(source, 2_000_000).unwrap();
    assert!(halted.halt.contended && halted.halt.slept, "{halted:?}");
}

#[test]
fn a_futex_is_a_source() {
    let word = WakeWord::new();
    behaves_as_a_source(&FutexWait::new(&word), &|| {
        let _ = wake(&word);
    });
}

#[test]
fn a_nonblocking_eventfd_is_a_source() {
    let fd = eventfd(0, libc::EFD_NONBLOCK);
    behaves_as_a_source(&EventFdWait::new(fd.as_fd()), &|| add(&fd, 1));
}

#[test]
fn a_blocking_eventfd_is_a_source_and_never_hangs() {
    let fd = eventfd(0, 0);
    behaves_as_a_source(&EventFdWait::new(fd.as_fd()), &|| add(&fd, 1));
}

#[cfg(feature = "vmm-sys-util-0_15")]
#[test]
fn the_eventfd_of_vmm_sys_util_is_a_source() {
    let event = vmm_sys_util::eventfd::EventFd::new(libc::EFD_NONBLOCK).unwrap();
    behaves_as_a_source(&EventFdWait::from(&event), &|| event.write(1).unwrap());
}

#[test]
fn f09_every_source_stops_polling_when_the_cpu_is_wanted() {
    let word = WakeWord::new();
    stops_for_contention(&FutexWait::new(&word));
    for flags in [0, libc::EFD_NONBLOCK] {
        stops_for_contention(&EventFdWait::new(eventfd(0, flags).as_fd()));
    }
}

#[test]
fn f62_many_kicks_are_one_wakeup() {
    let word = WakeWord::new();
    assert_eq!(
        [wake(&word), wake(&word), wake(&word)],
        [Kick::Stored, Kick::Coalesced, Kick::Coalesced]
    );
    let mut poller = HaltPoller::new(Fixed::new(0));
    let source = FutexWait::new(&word);
    assert_eq!(poller.halt(&source).unwrap().end, HaltEnd::Woken);
    assert_eq!(poller.halt_for(&source, 1_000_000).unwrap().end, HaltEnd::TimedOut);
}

#[test]
fn f61_a_kick_before_the_halt_ends_it() {
    let word = WakeWord::new();
    let _ = wake(&word);
    let mut poller = HaltPoller::new(Fixed::new(0));
    let halted = poller.halt_for(&FutexWait::new(&word), 10_000_000_000).unwrap();
    assert_eq!((halted.end, halted.halt.slept), (HaltEnd::Woken, false));
}

#[test]
fn a_semaphore_eventfd_gives_one_wakeup_per_count() {
    let fd = eventfd(3, libc::EFD_SEMAPHORE);
    let source = EventFdWait::new(fd.as_fd());
    assert_eq!(
        [source.take(), source.take(), source.take(), source.take()],
        [true, true, true, false]
    );
}

#[test]
fn a_plain_eventfd_gives_one_wakeup_for_all_counts() {
    let fd = eventfd(3, 0);
    let source = EventFdWait::new(fd.as_fd());
    assert_eq!([source.take(), source.take()], [true, false]);
}

/// Ready for ever and without a counter: the halt would never end, and never sleep.
fn is_refused(fd: &impl AsFd, what: &str) {
    for window in [0, 100_000] {
        let mut poller = HaltPoller::new(Fixed::new(window));
        let error = poller.halt_for(&EventFdWait::new(fd.as_fd()), LONG_NS).unwrap_err();
        let inner = error.get_ref().unwrap_or_else(|| panic!("{what}: {error:?}"));
        assert!(inner.is::<NotAnEventFd>(), "{what}: {error:?}");
    }
}

#[test]
fn what_is_ready_but_has_no_counter_is_an_error_not_a_busy_loop() {
    is_refused(&std::fs::File::open("/dev/null").unwrap(), "/dev/null");
    let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
    std::io::copy(&mut (&file), &mut std::io::sink()).unwrap();
    is_refused(&file, "a file at its end");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    is_refused(&reader, "a pipe without a writer");

    let (socket, mut peer) = std::os::unix::net::UnixStream::pair().unwrap();
    peer.write_all(b"few").unwrap();
    drop(peer);
    is_refused(&socket, "a socket with three bytes and then its end");
    socket.set_nonblocking(true).unwrap();
    is_refused(&socket, "a non-blocking socket at its end");
}

#[test]
#[expect(unsafe_code, reason = "signalfd(2)")]
fn what_cannot_be_read_is_an_error_not_a_busy_loop() {
    // A signalfd refuses reads that are too short for its records, ready or not.
    // SAFETY: all zero is the empty set.
    let none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is readable.
    let fd = unsafe { libc::signalfd(-1, &raw const none, libc::SFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: a new descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let source = EventFdWait::new(fd.as_fd());
    assert!(!source.take());
    assert_eq!(source.block(LONG).unwrap_err().raw_os_error(), Some(libc::EINVAL));
}
