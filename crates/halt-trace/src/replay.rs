// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The kernel as an oracle: its wake-ups through [`KernelPolicy`], window for window.
//!
//! For each halt the policy says whether the window is kept, grown or shrunk, from what to what.
//! The kernel prints a line for each growth and shrink, and none otherwise; so both the numbers of
//! a line and its absence are checked.
//!
//! What a window is at a trace's begin is not written in it. It is what the thread's first change
//! line calls the old window: the halts before that line are checked against it afterwards. Where
//! no line ever follows, the halts count as *unsynchronised*; even then it is a mismatch if no
//! window at all explains them. The same after events were lost.

use std::collections::BTreeMap;
use std::fmt;

use halt_poll::{Adjustment, Halt, KernelParams, KernelPolicy, Policy};

use crate::event::{Change, Direction, Kind, ParamUpdate, Trace, Wakeup};

/// How a replay went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replay {
    /// Wake-ups in the trace.
    pub halts: usize,
    /// Those of them whose window could not be known.
    pub unsynchronised: usize,
    /// Threads with at least one halt; a trace without prefixes counts as one.
    pub threads: usize,
    /// How many times the recorder lost events.
    pub losses: usize,
    /// Change lines whose wake-up line was lost or not recorded any more.
    pub unfinished: usize,
    /// Where kernel and policy differ, in the order of the lines.
    pub mismatches: Vec<Mismatch>,
}

/// A halt in which kernel and policy differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The line of the wake-up; of the change if no wake-up followed it.
    pub line: usize,
    /// The thread, where prefixes tell it.
    pub thread: Option<u32>,
    /// In what they differ.
    pub difference: Difference,
}

/// In what kernel and policy differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// The kernel did one thing and the policy another.
    Window {
        /// What the policy did.
        policy: Adjustment,
        /// What the kernel wrote, if anything.
        kernel: Option<Change>,
    },
    /// The kernel wrote no line for this and earlier halts, and no window explains that.
    NoWindowExplains,
    /// The kernel wrote two changes for one halt.
    TwoChanges,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(thread) = self.thread {
            write!(f, " (thread {thread})")?;
        }
        match self.difference {
            Difference::Window { policy, kernel } => {
                f.write_str(": the policy ")?;
                match policy {
                    Adjustment::Grow { from, to } => write!(f, "grows {from} to {to}")?,
                    Adjustment::Shrink { from, to } => write!(f, "shrinks {from} to {to}")?,
                    Adjustment::Off { from } => write!(f, "goes from {from} to 0 in silence")?,
                    Adjustment::Keep => f.write_str("keeps its window")?,
                    other => write!(f, "says {other:?}")?,
                }
                match kernel {
                    Some(Change { direction, new_ns, old_ns, .. }) => {
                        write!(f, ", the kernel {direction}s {old_ns} to {new_ns}")
                    }
                    None => f.write_str(", the kernel wrote no change"),
                }
            }
            Difference::NoWindowExplains => {
                f.write_str(": no window explains that the kernel wrote no change until here")
            }
            Difference::TwoChanges => f.write_str(": two changes in one halt"),
        }
    }
}

/// A trace that cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// Bare lines of several vCPUs: wake-ups do not say whose they are.
    #[error("line {line}: vCPU {second} after vCPU {first} in lines without a thread before them")]
    SeveralVcpus {
        /// Where the second vCPU appears.
        line: usize,
        /// The first vCPU.
        first: u32,
        /// The second.
        second: u32,
    },
}

/// Replays a trace. Parameters in `fixed` hold for all of it, whatever its lines say; the others
/// are those of its lines, or x86's defaults.
///
/// ```
/// use halt_trace::{ParamUpdate, Trace, replay::replay};
///
/// let trace = Trace::parse(
///     b"kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n\
///       kvm_vcpu_wakeup: wait time 30000 ns, polling valid\n\
///       kvm_halt_poll_ns: vcpu 0: halt_poll_ns 30000 (grow 10000)\n\
///       kvm_vcpu_wakeup: wait time 31000 ns, polling valid\n",
/// )?;
/// let replayed = replay(&trace, ParamUpdate::default())?;
/// assert_eq!(replayed.halts, 2);
/// assert_eq!(
///     replayed.mismatches[0].to_string(),
///     "line 4: the policy grows 10000 to 20000, the kernel grows 10000 to 30000"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The trace mixes several vCPUs in lines without prefixes.
pub fn replay(trace: &Trace, fixed: ParamUpdate) -> Result<Replay, ReplayError> {
    let mut result = Replay::default();
    let mut params = fixed.apply(KernelParams::X86);
    let mut threads: BTreeMap<Option<u32>, Thread> = BTreeMap::new();
    for event in &trace.events {
        match event.kind {
            Kind::Params(update) => {
                let changed = fixed.apply(update.apply(params));
                if changed != params {
                    for thread in threads.values_mut() {
                        thread.forget_unknown(&mut result);
                    }
                }
                params = changed;
            }
            Kind::Lost(_) => {
                result.losses += 1;
                for thread in threads.values_mut() {
                    thread.resynchronise(&mut result);
                }
            }
            Kind::Change(change) => {
                let thread =
                    threads.entry(event.thread).or_insert_with(|| Thread::new(event.thread));
                thread.change(event.line, change, params, &mut result)?;
            }
            Kind::Wakeup(wakeup) => {
                let thread =
                    threads.entry(event.thread).or_insert_with(|| Thread::new(event.thread));
                thread.wakeup(event.line, wakeup, params, &mut result);
            }
        }
    }
    for thread in threads.values_mut() {
        thread.resynchronise(&mut result);
        result.threads += usize::from(thread.halted);
    }
    result.mismatches.sort_by_key(|mismatch| mismatch.line);
    Ok(result)
}

/// What is known of a thread's window.
#[derive(Debug)]
enum Window {
    Known(u32),
    Unknown(Unexplained),
}

/// Halts without a change line since the window is unknown, all under the same parameters.
#[derive(Debug)]
struct Unexplained {
    halts: Vec<(usize, Wakeup)>,
    /// Whether the change line of the first of them may be missing: the trace, or what is left of
    /// it after a loss, may begin between the two lines of a halt.
    first_is_torn: bool,
    /// Whether a window of 0 explains all of them, and whether one at the ceiling does. A window
    /// between that does is no further case: the ceiling then does, too.
    zero: bool,
    ceiling: bool,
}

impl Unexplained {
    fn new(first_is_torn: bool) -> Self {
        Self { halts: Vec::new(), first_is_torn, zero: true, ceiling: true }
    }

    /// Adds a halt; false if no window explains it together with those before it.
    fn add(&mut self, line: usize, wakeup: Wakeup, params: KernelParams) -> bool {
        if !(self.first_is_torn && self.halts.is_empty()) {
            let keeps = |window| {
                let mut policy = KernelPolicy::with_window(params, window);
                policy.adjust(&halt(window, wakeup)) == Adjustment::Keep
            };
            self.zero &= keeps(0);
            self.ceiling &= keeps(params.halt_poll_ns);
        }
        self.halts.push((line, wakeup));
        self.zero || self.ceiling
    }
}

/// The halt as a policy sees it.
fn halt(window: u32, wakeup: Wakeup) -> Halt {
    let halt = if wakeup.waited {
        Halt::slept(0, window, wakeup.halt_ns.min(window.into()), wakeup.halt_ns)
    } else {
        Halt::polled(0, window, wakeup.halt_ns)
    };
    if wakeup.valid { halt } else { halt.invalid() }
}

/// Whether the kernel wrote what the policy did.
fn same(policy: Adjustment, kernel: Option<Change>) -> bool {
    let written = kernel.map(|change| (change.direction, change.old_ns, change.new_ns));
    written
        == match policy {
            Adjustment::Grow { from, to } => Some((Direction::Grow, from, to)),
            Adjustment::Shrink { from, to } => Some((Direction::Shrink, from, to)),
            // The kernel writes nothing of the others.
            _ => None,
        }
}

#[derive(Debug)]
struct Thread {
    id: Option<u32>,
    vcpu: Option<u32>,
    window: Window,
    /// The change line of the halt whose wake-up line comes next.
    change: Option<(usize, Change)>,
    halted: bool,
}

impl Thread {
    fn new(id: Option<u32>) -> Self {
        let window = Window::Unknown(Unexplained::new(true));
        Self { id, vcpu: None, window, change: None, halted: false }
    }

    /// Takes a change line.
    fn change(
        &mut self,
        line: usize,
        change: Change,
        params: KernelParams,
        result: &mut Replay,
    ) -> Result<(), ReplayError> {
        match self.vcpu.replace(change.vcpu) {
            Some(first) if first != change.vcpu && self.id.is_none() => {
                return Err(ReplayError::SeveralVcpus { line, first, second: change.vcpu });
            }
            // The thread runs another vCPU now, with a window of its own.
            Some(first) if first != change.vcpu => self.resynchronise(result),
            _ => {}
        }
        if let Some((line, earlier)) = self.change.replace((line, change)) {
            self.differ(line, Difference::TwoChanges, result);
            self.window = Window::Known(earlier.new_ns);
        }
        if let Window::Unknown(unexplained) = &mut self.window {
            let torn = unexplained.first_is_torn;
            let halts = std::mem::take(&mut unexplained.halts);
            self.window = Window::Known(change.old_ns);
            for (index, (line, wakeup)) in halts.into_iter().enumerate() {
                if torn && index == 0 && !self.keeps(wakeup, params) {
                    result.unsynchronised += 1;
                } else {
                    self.check(line, wakeup, None, params, result);
                }
            }
        }
        Ok(())
    }

    /// Takes a wake-up line.
    fn wakeup(&mut self, line: usize, wakeup: Wakeup, params: KernelParams, result: &mut Replay) {
        result.halts += 1;
        self.halted = true;
        let change = self.change.take().map(|(_, change)| change);
        match &mut self.window {
            // A change line makes the window known, so there is none here.
            Window::Unknown(unexplained) => {
                let explained = unexplained.add(line, wakeup, params);
                if params.halt_poll_ns == 0 && wakeup.valid {
                    self.forget_unknown(result);
                    self.window = Window::Known(0);
                } else if !explained {
                    self.differ(line, Difference::NoWindowExplains, result);
                    self.forget_unknown(result);
                }
            }
            Window::Known(_) => self.check(line, wakeup, change, params, result),
        }
    }

    /// Lets the policy decide about a halt, and goes on with the kernel's window.
    fn check(
        &mut self,
        line: usize,
        wakeup: Wakeup,
        kernel: Option<Change>,
        params: KernelParams,
        result: &mut Replay,
    ) {
        let Window::Known(window) = self.window else { return };
        let mut policy = KernelPolicy::with_window(params, window);
        let window = policy.window(0);
        let adjustment = policy.adjust(&halt(window, wakeup));
        if !same(adjustment, kernel) {
            self.differ(line, Difference::Window { policy: adjustment, kernel }, result);
        }
        self.window = Window::Known(match (kernel, adjustment) {
            (Some(change), _) => change.new_ns,
            (None, Adjustment::Off { .. }) => 0,
            (None, _) => window,
        });
    }

    /// Whether the known window stays as it is after this halt.
    fn keeps(&self, wakeup: Wakeup, params: KernelParams) -> bool {
        let Window::Known(window) = self.window else { return false };
        let mut policy = KernelPolicy::with_window(params, window);
        let window = policy.window(0);
        same(policy.adjust(&halt(window, wakeup)), None)
    }

    fn differ(&self, line: usize, difference: Difference, result: &mut Replay) {
        result.mismatches.push(Mismatch { line, thread: self.id, difference });
    }

    /// Gives up on the halts of an unknown window.
    fn forget_unknown(&mut self, result: &mut Replay) {
        if let Window::Unknown(unexplained) = &mut self.window {
            result.unsynchronised += unexplained.halts.len();
            *unexplained =
                Unexplained::new(unexplained.first_is_torn && unexplained.halts.is_empty());
        }
    }

    /// From here on nothing is known of the window.
    fn resynchronise(&mut self, result: &mut Replay) {
        self.forget_unknown(result);
        result.unfinished += usize::from(self.change.take().is_some());
        self.window = Window::Unknown(Unexplained::new(true));
    }
}
