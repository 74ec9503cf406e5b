// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Copies the two events of chosen threads from ftrace to the trace file.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use halt_trace::{Kind, Line, parse_line};

use super::tracefs::{self, Instance};
use crate::report::destination::Destination;
use crate::vmm::thread::ThreadId;

/// How often an empty buffer is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// For each CPU; holds tens of thousands of halts until they are copied.
const BUFFER_KIB: &str = "4096";

const EVENTS: [&str; 2] = ["events/kvm/kvm_halt_poll_ns", "events/kvm/kvm_vcpu_wakeup"];

/// Whose events are recorded: those of these threads, and of threads that they start.
#[derive(Debug)]
pub(super) struct Threads(Vec<u32>);

impl Threads {
    /// The calling thread, for what it starts.
    pub(super) fn current() -> Self {
        Self(vec![ThreadId::current().get().unsigned_abs()])
    }

    /// All threads of these processes.
    pub(super) fn of_processes(processes: &[u32]) -> anyhow::Result<Self> {
        let mut threads = Vec::new();
        for process in processes {
            let directory = format!("/proc/{process}/task");
            let entries = fs::read_dir(&directory)
                .with_context(|| format!("there is no process {process}"))?;
            let ids = entries
                .flatten()
                .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            threads.extend(ids);
        }
        ensure!(!threads.is_empty(), "the processes have no threads");
        Ok(Self(threads))
    }
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Summary {
    /// Wake-up lines.
    pub(super) halts: u64,
    /// Change lines.
    pub(super) changes: u64,
    /// Events that ftrace lost; those that it does not count are one.
    pub(super) lost: u64,
    /// Lines that our own parser does not know.
    pub(super) unknown: u64,
}

/// A recording under way. The pipe comes first: an instance with an open one cannot be removed.
#[derive(Debug)]
pub(super) struct Recorder {
    pipe: File,
    instance: Instance,
}

impl Recorder {
    /// Sets everything up; nothing is recorded yet.
    pub(super) fn new(threads: &Threads) -> anyhow::Result<Self> {
        let instance = Instance::new(&tracefs::find()?)?;
        for event in EVENTS {
            ensure!(instance.has(event), "this kernel has no {event}: is the kvm module loaded?");
        }
        instance.write("tracing_on", "0")?;
        // One clock for all CPUs, or the lines of a thread that moves could change places.
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", BUFFER_KIB)?;
        let list: Vec<_> = threads.0.iter().map(u32::to_string).collect();
        instance.write("options/event-fork", "1")?;
        instance.write("set_event_pid", &list.join(" "))?;
        for event in EVENTS {
            instance.write(&format!("{event}/enable"), "1")?;
        }
        let pipe = instance.open_pipe()?;
        Ok(Self { pipe, instance })
    }

    /// Starts recording, both events at the same moment.
    pub(super) fn start(&mut self) -> anyhow::Result<()> {
        self.instance.write("tracing_on", "1")
    }

    /// Copies lines until `done`, and then what is left.
    pub(super) fn copy(
        mut self,
        header: &str,
        out: &Destination,
        done: &AtomicBool,
    ) -> anyhow::Result<Summary> {
        let mut out = out.stream()?;
        out.write(header.as_bytes())?;
        let mut lines = Lines::default();
        let mut stopped = false;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(count @ 1..) => {
                    out.write(&buffer[..count])?;
                    lines.count(&buffer[..count]);
                    continue;
                }
                Ok(0) => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error).context("cannot read trace_pipe"),
            }
            if stopped {
                break;
            }
            if done.load(Ordering::Acquire) {
                self.instance.write("tracing_on", "0")?;
                stopped = true;
            } else {
                thread::sleep(LOOK_AGAIN);
            }
        }
        out.finish()?;
        Ok(lines.summary)
    }
}

/// Counts lines that come in pieces.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
    summary: Summary,
}

impl Lines {
    fn count(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            match parse_line(0, &self.begun) {
                Ok(Line::Event(event)) => match event.kind {
                    Kind::Wakeup(_) => self.summary.halts += 1,
                    Kind::Change(_) => self.summary.changes += 1,
                    Kind::Lost(count) => self.summary.lost += count.unwrap_or(1),
                    _ => {}
                },
                Ok(_) => {}
                Err(_) => self.summary.unknown += 1,
            }
            self.begun.clear();
        }
        self.begun.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_whatever_the_pieces() {
        let text = b"v-1 [0] 1.0: kvm_vcpu_wakeup: wait time 5 ns, polling valid\n\
            CPU:1 [LOST 7 EVENTS]\nrubbish\n\
            v-1 [0] 1.0: kvm_halt_poll_ns: vcpu 0: halt_poll_ns 1 (grow 0)\n";
        for size in 1..text.len() {
            let mut lines = Lines::default();
            text.chunks(size).for_each(|piece| lines.count(piece));
            let Summary { halts, changes, lost, unknown } = lines.summary;
            assert_eq!((halts, changes, lost, unknown), (1, 1, 7, 1));
        }
    }
}
