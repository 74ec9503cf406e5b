// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The way of the guest's serial output: from the device on a vCPU's thread, through a bounded
//! buffer, to the event loop, which keeps it as text. A guest that floods it loses bytes; it cannot
//! make the VMM allocate or wait.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::error::Error;

/// Bytes on their way to the event loop, at most.
const IN_FLIGHT: usize = 4096;
/// Bytes kept for whoever asks, at most: the latest.
const KEPT: usize = 64 * 1024;

/// The device's end: never waits, never fails.
#[derive(Clone, Debug)]
pub(super) struct ConsoleInput(Arc<Shared>);

/// The event loop's end.
#[derive(Clone, Debug)]
pub(super) struct ConsoleOutput(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    in_flight: Mutex<VecDeque<u8>>,
    kept: Mutex<VecDeque<u8>>,
    ready: EventFd,
}

/// Both ends of a console.
pub(super) fn console() -> Result<(ConsoleInput, ConsoleOutput), Error> {
    let shared = Arc::new(Shared {
        in_flight: Mutex::new(VecDeque::with_capacity(IN_FLIGHT)),
        kept: Mutex::new(VecDeque::new()),
        ready: EventFd::new(EFD_NONBLOCK).map_err(Error::system("eventfd"))?,
    });
    Ok((ConsoleInput(shared.clone()), ConsoleOutput(shared)))
}

/// The data of a mutex that guards nothing but bytes is fine whoever panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl io::Write for ConsoleInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut in_flight = lock(&self.0.in_flight);
        let room = IN_FLIGHT - in_flight.len();
        in_flight.extend(bytes.iter().take(room));
        drop(in_flight);
        // Fails only when 2^64 - 1 writes were not read, and then it is readable anyway.
        drop(self.0.ready.write(1));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ConsoleOutput {
    /// Readable when there is something to [`drain`](Self::drain).
    pub(super) fn ready(&self) -> &EventFd {
        &self.0.ready
    }

    /// Takes over what has come.
    pub(super) fn drain(&self) {
        drop(self.0.ready.read());
        let mut kept = lock(&self.0.kept);
        kept.extend(lock(&self.0.in_flight).drain(..));
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }

    /// The latest output as text.
    pub(super) fn text(&self) -> String {
        self.drain();
        let kept = lock(&self.0.kept);
        let (first, second) = kept.as_slices();
        String::from_utf8_lossy(&[first, second].concat()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_flood_is_bounded_on_its_way_and_where_it_is_kept() {
        let (mut input, output) = console().unwrap();
        // Nobody drains: the rest is lost, and the writer does not wait.
        input.write_all(&[b'x'; 3 * IN_FLIGHT]).unwrap();
        assert_eq!(output.text().len(), IN_FLIGHT);
        for _ in 0..(2 * KEPT / IN_FLIGHT) {
            input.write_all(&[b'y'; IN_FLIGHT]).unwrap();
            output.drain();
        }
        input.write_all(b"the end").unwrap();
        let text = output.text();
        assert_eq!(text.len(), KEPT);
        assert!(text.ends_with("the end"), "the latest is kept");
    }

    #[test]
    fn bytes_that_are_no_text_do_no_harm() {
        let (mut input, output) = console().unwrap();
        input.write_all(&[0xff, b'a', 0xc3]).unwrap();
        assert_eq!(output.text(), "\u{fffd}a\u{fffd}");
    }
}
