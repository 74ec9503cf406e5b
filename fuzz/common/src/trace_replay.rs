// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Traces as the kernel writes them, from the naive model of its halt polling: the replay finds no
//! mismatch in any, wherever they begin, whatever was lost, however threads and parameters mix.
//! And where the trace is whole, it finds every line that is not what the kernel would write.

use arbitrary::{Result, Unstructured};
use halt_trace::replay::{Replay, replay};
use halt_trace::{Change, Direction, Event, Kind, ParamUpdate, Trace, Wakeup};

use crate::halt_trace::write;
use crate::kernel_model::{self, Line, Model};
use crate::seed::{Bytes, Seed};

/// How many vCPUs there are, each with a thread.
const THREADS: u8 = 3;

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A thread halts.
    Halt { thread: u8, halt_ns: u64, valid: bool },
    /// The host's parameters change.
    Params(ParamUpdate),
    /// The recorder loses what comes, for so many lines.
    Loss { lines: u8 },
}

impl Step {
    fn read(input: &mut Unstructured<'_>) -> Result<Self> {
        let kind: u8 = input.arbitrary()?;
        Ok(match kind % 16 {
            0 => Self::Params(ParamUpdate {
                halt_poll_ns: Some(input.arbitrary::<u32>()? >> (kind / 8)),
                ..ParamUpdate::default()
            }),
            1 => Self::Params(ParamUpdate {
                grow: Some(u32::from(input.arbitrary::<u8>()?) << (kind / 8)),
                ..ParamUpdate::default()
            }),
            2 => Self::Params(ParamUpdate {
                grow_start: Some(input.arbitrary::<u32>()? >> (kind / 8)),
                ..ParamUpdate::default()
            }),
            3 => Self::Params(ParamUpdate {
                shrink: Some(input.arbitrary::<u8>()?.into()),
                ..ParamUpdate::default()
            }),
            4 => Self::Loss { lines: input.arbitrary::<u8>()? % 16 },
            _ => Self::Halt {
                thread: kind % THREADS,
                halt_ns: u64::from(input.arbitrary::<u32>()?) << (kind % 16 / 15 * 16),
                valid: kind < 224,
            },
        })
    }
}

/// Holds what the kernel would write.
#[derive(Debug)]
struct Recorder {
    events: Vec<Event>,
    /// So many lines more are lost.
    losing: u8,
    lost: u64,
}

impl Recorder {
    /// An event of a thread, which may be lost.
    fn write(&mut self, thread: u8, kind: Kind) {
        if self.losing > 0 {
            self.losing -= 1;
            self.lost += 1;
            return;
        }
        if self.lost > 0 {
            self.push(None, Kind::Lost(Some(self.lost)));
            self.lost = 0;
        }
        self.push(Some(100 + u32::from(thread)), kind);
    }

    fn push(&mut self, thread: Option<u32>, kind: Kind) {
        self.events.push(Event::new(self.events.len() + 1, thread, kind));
    }
}

/// Runs one input.
///
/// # Panics
///
/// Where the replay is wrong about the kernel.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let begin = usize::from(input.arbitrary::<u8>().unwrap_or(0));
    let forged = usize::from(input.arbitrary::<u8>().unwrap_or(0));
    let Ok((events, lossy)) = record(&mut input) else { return };

    check_no_mismatch(&events);
    // Whole, but for the parameters that hold where it begins.
    let (before, late) = events.split_at(begin.min(events.len()));
    let params = before.iter().filter(|event| matches!(event.kind, Kind::Params(_)));
    check_no_mismatch(&params.chain(late).copied().collect::<Vec<_>>());
    if !lossy {
        check_forgery(events, forged);
    }
}

/// The events, and whether any was lost.
fn record(input: &mut Unstructured<'_>) -> Result<(Vec<Event>, bool)> {
    let mut models: Vec<Model> = (0..THREADS).map(|_| Model::new()).collect();
    let mut recorder = Recorder { events: Vec::new(), losing: 0, lost: 0 };
    let mut lossy = false;
    while !input.is_empty() {
        match Step::read(input)? {
            Step::Params(update) => {
                let changes = [
                    update.halt_poll_ns.map(kernel_model::Change::HaltPollNs),
                    update.grow.map(kernel_model::Change::Grow),
                    update.grow_start.map(kernel_model::Change::GrowStart),
                    update.shrink.map(kernel_model::Change::Shrink),
                ];
                for model in &mut models {
                    changes.into_iter().flatten().for_each(|change| model.apply(change));
                }
                // Not the kernel's to lose: whoever records writes it.
                recorder.push(None, Kind::Params(update));
            }
            Step::Loss { lines } => {
                recorder.losing = lines;
                lossy |= lines > 0;
            }
            Step::Halt { thread, halt_ns, valid } => {
                halt(&mut recorder, &mut models[usize::from(thread)], thread, halt_ns, valid);
            }
        }
    }
    Ok((recorder.events, lossy))
}

fn halt(recorder: &mut Recorder, model: &mut Model, thread: u8, halt_ns: u64, valid: bool) {
    let window = model.begin();
    let waited = window < halt_ns.into();
    let narrow = |ns: i128| u32::try_from(ns).expect("a window has 32 bits");
    let change = match model.end(halt_ns.into(), valid) {
        Line::None => None,
        Line::Grow(old, new) => Some((Direction::Grow, old, new)),
        Line::Shrink(old, new) => Some((Direction::Shrink, old, new)),
    };
    if let Some((direction, old, new)) = change {
        let (new_ns, old_ns) = (narrow(new), narrow(old));
        let change = Change::new(thread.into(), direction, old_ns, new_ns);
        recorder.write(thread, Kind::Change(change));
    }
    let wakeup = if waited { Wakeup::slept(halt_ns) } else { Wakeup::polled(halt_ns) };
    let wakeup = if valid { wakeup } else { wakeup.invalid() };
    recorder.write(thread, Kind::Wakeup(wakeup));
}

/// The events as a file and back, and what the replay says.
fn replayed(events: &[Event]) -> (String, Replay) {
    let mut text = String::new();
    events.iter().for_each(|event| write(&mut text, event));
    let trace = Trace::parse(text.as_bytes()).expect("lines as the kernel's");
    let replay = replay(&trace, ParamUpdate::default()).expect("every line has its thread");
    (text, replay)
}

fn check_no_mismatch(events: &[Event]) {
    let (text, replay) = replayed(events);
    assert!(replay.mismatches.is_empty(), "{:?} in\n{text}", replay.mismatches);
}

/// A change line with another new window or direction is found. (Another old window is not: of a
/// thread's first line it says where the window stands.)
fn check_forgery(mut events: Vec<Event>, forged: usize) {
    let changes = events.iter_mut().filter_map(|event| match &mut event.kind {
        Kind::Change(change) => Some(change),
        _ => None,
    });
    let mut changes: Vec<_> = changes.collect();
    if changes.is_empty() {
        return;
    }
    let chosen = forged / 2 % changes.len();
    let change = &mut *changes[chosen];
    if forged.is_multiple_of(2) {
        change.new_ns ^= 1;
    } else {
        change.direction = match change.direction {
            Direction::Grow => Direction::Shrink,
            Direction::Shrink => Direction::Grow,
        };
    }
    let forgery = *change;
    let (text, replay) = replayed(&events);
    assert!(!replay.mismatches.is_empty(), "{forgery:?} is not found in\n{text}");
}

/// Inputs that reach what is worth reaching.
pub fn seeds() -> Vec<Seed> {
    let trace = |begin: u8, forged: u8| Bytes::default().u8(begin).u8(forged);
    // Kinds 5 to 14 halt; the thread is the kind modulo 3.
    let halt = |thread: u8, ns: u32| Bytes::default().u8([6, 7, 5][usize::from(thread)]).u32(ns);
    let invalid = |ns: u32| Bytes::default().u8(240 + 6).u32(ns);
    let ceiling = |ns: u32| Bytes::default().u8(0).u32(ns);
    let factor = |kind: u8, value: u8| Bytes::default().u8(kind).u8(value);
    let loss = |lines: u8| Bytes::default().u8(4).u8(lines);
    let all = |bytes: Bytes, parts: &[Bytes]| {
        parts.iter().fold(bytes, |bytes, part| bytes.repeat(1, part))
    };
    let dance = all(
        Bytes::default(),
        &[halt(0, 50_000), halt(0, 50_000), halt(0, 60_000), halt(0, 500_000), halt(0, 3_000)],
    );
    vec![
        trace(0, 0).repeat(2, &dance).named("one_thread"),
        trace(5, 1).repeat(3, &dance).named("begins_late"),
        all(trace(3, 0), &[halt(0, 50_000), halt(1, 60_000), halt(2, 70_000), halt(0, 900_000)])
            .repeat(2, &all(Bytes::default(), &[halt(1, 60_000), halt(2, 7_000_000)]))
            .named("three_threads"),
        all(trace(4, 3), &[halt(0, 50_000), halt(0, 90_000), ceiling(15_000), halt(0, 12_000)])
            .repeat(1, &all(dance.clone(), &[ceiling(0), halt(0, 5), ceiling(200_000)]))
            .repeat(2, &dance)
            .named("ceilings_change"),
        all(trace(2, 1), &[factor(1, 0), halt(0, 50_000), factor(1, 255), halt(0, 50_000)])
            .repeat(1, &all(dance.clone(), &[factor(3, 0), halt(0, 900_000), halt(0, 50_000)]))
            .named("factors_change"),
        all(trace(0, 0), &[halt(0, 50_000), loss(1), halt(0, 60_000), halt(0, 61_000), loss(3)])
            .repeat(2, &all(dance.clone(), &[loss(2)]))
            .named("lines_are_lost"),
        all(trace(0, 4), &[invalid(5), halt(0, 50_000), invalid(5), invalid(900_000)])
            .repeat(1, &dance)
            .named("invalid_wakeups"),
    ]
}
