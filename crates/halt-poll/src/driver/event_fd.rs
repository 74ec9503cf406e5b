// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Waiting on an eventfd.
// UNSAFE: ppoll, read, preadv2 and fcntl on a borrowed descriptor.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use vcpu_state::{BlockEnd, WakeSource};

use super::clock::timespec;

/// An eventfd to wait on: what device threads and irqfds have anyway.
///
/// Each look is a system call (ppoll), so polling is dearer than on a [`FutexWait`](super::FutexWait):
/// a few hundred nanoseconds an iteration, at the same window.
///
/// Blocking and non-blocking eventfds both work: consuming never blocks, whoever else reads. One made with
/// `EFD_SEMAPHORE` works too; each wake-up then takes 1 from the counter, so several writes are
/// several wake-ups instead of one.
///
/// On a descriptor that is something else, [`block`](WakeSource::block) fails by [`NotAnEventFd`] as
/// soon as it is ready without a counter to read (a socket at its end, say); one that has eight bytes
/// to read passes for an eventfd.
///
/// ```
/// use halt_poll::EventFdWait;
/// use std::os::fd::{AsFd, FromRawFd, OwnedFd};
/// use vcpu_state::{BlockEnd, WakeSource};
/// # fn eventfd() -> OwnedFd {
/// #     // SAFETY: a new descriptor that nobody else owns.
/// #     unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, 0)) }
/// # }
/// # fn write(fd: &OwnedFd) {
/// #     use std::io::Write;
/// #     std::fs::File::from(fd.try_clone().unwrap()).write_all(&1_u64.to_ne_bytes()).unwrap();
/// # }
///
/// let fd = eventfd();
/// let source = EventFdWait::new(fd.as_fd());
/// assert!(!source.take());
/// assert_eq!(source.block(Some(1_000))?, BlockEnd::TimedOut);
/// write(&fd);
/// assert_eq!(source.block(None)?, BlockEnd::NotSlept);
/// assert!(source.take());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EventFdWait<'a> {
    fd: BorrowedFd<'a>,
    nonblocking: bool,
    /// What the last read met: [`COUNTER`], [`NO_COUNTER`] or an errno. For `block`, which cannot
    /// tell by itself: it would find the descriptor ready for ever.
    failure: AtomicI32,
}

/// The last read did not fail: there was a counter, or nothing yet.
const COUNTER: i32 = 0;
/// The last read got something that is no counter.
const NO_COUNTER: i32 = -1;

/// The descriptor of an [`EventFdWait`] is not an eventfd that can be read: it is ready, and there is
/// no counter. Comes inside an [`io::Error`] of the kind [`InvalidInput`](io::ErrorKind::InvalidInput).
///
/// ```
/// use halt_poll::{EventFdWait, Fixed, HaltPoller, NotAnEventFd};
/// use std::os::fd::AsFd;
///
/// let null = std::fs::File::open("/dev/null")?;
/// let error = HaltPoller::new(Fixed::new(0)).halt(&EventFdWait::new(null.as_fd())).unwrap_err();
/// assert!(error.get_ref().is_some_and(|inner| inner.is::<NotAnEventFd>()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("the descriptor is not an eventfd that can be read")]
#[non_exhaustive]
pub struct NotAnEventFd;

fn not_an_eventfd() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, NotAnEventFd)
}

impl<'a> EventFdWait<'a> {
    /// Waits on `fd`, whose `O_NONBLOCK` is not cleared from here on.
    pub fn new(fd: BorrowedFd<'a>) -> Self {
        // SAFETY: reads the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
        // It does not fail for an open descriptor; if it did: as a blocking one, which is safe.
        let nonblocking = flags >= 0 && flags & libc::O_NONBLOCK != 0;
        Self { fd, nonblocking, failure: AtomicI32::new(COUNTER) }
    }

    /// Waits for the descriptor to be readable. False: the time was over.
    fn ppoll(&self, timeout_ns: Option<u64>) -> io::Result<bool> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = timeout_ns.map(timespec);
        let timeout = timeout.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: one pollfd that the call may write, a timespec (or null) it reads, no signal mask.
        let ready = unsafe { libc::ppoll(&raw mut poll, 1, timeout, core::ptr::null()) };
        match ready {
            0 => Ok(false),
            1 if poll.revents & libc::POLLIN != 0 => Ok(true),
            // Ready with nothing to read (an error, a hang-up): looking again would never end.
            1 => Err(not_an_eventfd()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads the counter without blocking; says whether there was one.
    fn read(&self) -> bool {
        let failure = match self.read_counter() {
            Ok(8) => COUNTER,
            Ok(_) => NO_COUNTER,
            // Nothing there (any more), or a signal came first: no fault of the descriptor.
            Err(libc::EAGAIN | libc::EINTR) => return false,
            Err(errno) => errno,
        };
        // No other memory depends on it.
        self.failure.store(failure, Ordering::Relaxed);
        failure == COUNTER
    }

    /// How many bytes of a counter were there; or errno.
    fn read_counter(&self) -> Result<libc::ssize_t, i32> {
        let mut counter = [0_u8; 8];
        let fd = self.fd.as_raw_fd();
        if !self.nonblocking {
            let buffer = libc::iovec { iov_base: counter.as_mut_ptr().cast(), iov_len: 8 };
            // Offset -1: read(2)'s. RWF_NOWAIT: EAGAIN instead of blocking.
            // SAFETY: one buffer of eight bytes that the call may write.
            let read = unsafe { libc::preadv2(fd, &raw const buffer, 1, -1, libc::RWF_NOWAIT) };
            match checked(read) {
                // Linux before 5.8: the best it can do is to look first.
                Err(libc::EOPNOTSUPP | libc::ENOSYS | libc::ESPIPE) if self.is_pending() => {}
                Err(libc::EOPNOTSUPP | libc::ENOSYS | libc::ESPIPE) => return Err(libc::EAGAIN),
                result => return result,
            }
        }
        // SAFETY: eight bytes that the call may write.
        checked(unsafe { libc::read(fd, counter.as_mut_ptr().cast(), 8) })
    }
}

/// The result of a read, with errno as its error.
fn checked(read: libc::ssize_t) -> Result<libc::ssize_t, i32> {
    if read >= 0 {
        Ok(read)
    } else {
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(NO_COUNTER))
    }
}

impl WakeSource for EventFdWait<'_> {
    type Error = io::Error;

    #[inline]
    fn is_pending(&self) -> bool {
        // What fails here fails in `block` too, which can say so.
        self.ppoll(Some(0)).unwrap_or(false)
    }

    #[inline]
    fn take(&self) -> bool {
        self.read()
    }

    /// # Errors
    ///
    /// What ppoll(2) says, other than EINTR, and what the last [`take`](Self::take) met: errors of
    /// read(2), or [`NotAnEventFd`], also for a descriptor that hung up.
    fn block(&self, timeout_ns: Option<u64>) -> io::Result<BlockEnd> {
        match self.failure.swap(COUNTER, Ordering::Relaxed) {
            COUNTER => {}
            NO_COUNTER => return Err(not_an_eventfd()),
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        let interrupted = |error: io::Error| match error.kind() {
            io::ErrorKind::Interrupted => Ok(BlockEnd::Interrupted),
            _ => Err(error),
        };
        // The first look tells a wake-up that was there from one that was slept for.
        match self.ppoll(Some(0)) {
            Ok(true) => return Ok(BlockEnd::NotSlept),
            Ok(false) => {}
            Err(error) => return interrupted(error),
        }
        match self.ppoll(timeout_ns) {
            Ok(true) => Ok(BlockEnd::Woken),
            Ok(false) => Ok(BlockEnd::TimedOut),
            Err(error) => interrupted(error),
        }
    }
}

#[cfg(feature = "vmm-sys-util-0_15")]
impl<'a> From<&'a vmm_sys_util::eventfd::EventFd> for EventFdWait<'a> {
    fn from(event: &'a vmm_sys_util::eventfd::EventFd) -> Self {
        // SAFETY: the descriptor belongs to `event`, which is borrowed for as long as this is.
        Self::new(unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) })
    }
}
