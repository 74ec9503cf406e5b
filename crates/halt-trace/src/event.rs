// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a trace holds.

use halt_poll::KernelParams;

use crate::parse::{Line, ParseError, lines};

/// The end of one halt: a `kvm_vcpu_wakeup` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wakeup {
    /// From the halt's begin to its end in nanoseconds, polling included. At most [`i64::MAX`],
    /// as the kernel prints it signed.
    pub halt_ns: u64,
    /// `wait`: the thread slept; otherwise `poll`: it did not.
    pub waited: bool,
    /// Whether the wake-up was for this vCPU (only s390 knows others).
    pub valid: bool,
}

impl Wakeup {
    /// One that ended while the vCPU polled, or at once.
    pub const fn polled(halt_ns: u64) -> Self {
        Self { halt_ns, waited: false, valid: true }
    }

    /// One that ended a sleep.
    pub const fn slept(halt_ns: u64) -> Self {
        Self { halt_ns, waited: true, valid: true }
    }

    /// The same, for another vCPU.
    #[must_use]
    pub const fn invalid(self) -> Self {
        Self { valid: false, ..self }
    }
}

/// Which way a window went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It grew; by nothing if `grow` is 0.
    Grow,
    /// It shrank; by nothing if it was 0.
    Shrink,
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Grow => "grow",
            Self::Shrink => "shrink",
        })
    }
}

/// A change of a window: a `kvm_halt_poll_ns` line. It comes before the wake-up line of its halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The vCPU's id within its VM.
    pub vcpu: u32,
    /// Which way it went.
    pub direction: Direction,
    /// The window after it, in nanoseconds. It may pass the ceiling until the next halt.
    pub new_ns: u32,
    /// The window before it, in nanoseconds.
    pub old_ns: u32,
}

impl Change {
    /// The window of `vcpu` went in `direction`, from `old_ns` to `new_ns`.
    pub const fn new(vcpu: u32, direction: Direction, old_ns: u32, new_ns: u32) -> Self {
        Self { vcpu, direction, new_ns, old_ns }
    }
}

/// Parameters as a `# halt_poll_ns=... grow=...` line gives them: those it names, from there on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParamUpdate {
    /// The ceiling in nanoseconds.
    pub halt_poll_ns: Option<u32>,
    /// The growth factor.
    pub grow: Option<u32>,
    /// The first step and floor in nanoseconds.
    pub grow_start: Option<u32>,
    /// The shrink divisor.
    pub shrink: Option<u32>,
}

impl ParamUpdate {
    /// `params` with the named ones replaced.
    ///
    /// ```
    /// use halt_poll::KernelParams;
    /// use halt_trace::ParamUpdate;
    ///
    /// let update = ParamUpdate { halt_poll_ns: Some(50_000), ..ParamUpdate::default() };
    /// assert_eq!(update.apply(KernelParams::X86).halt_poll_ns, 50_000);
    /// assert_eq!(update.apply(KernelParams::X86).grow, 2);
    /// ```
    #[must_use]
    pub fn apply(self, params: KernelParams) -> KernelParams {
        KernelParams {
            halt_poll_ns: self.halt_poll_ns.unwrap_or(params.halt_poll_ns),
            grow: self.grow.unwrap_or(params.grow),
            grow_start: self.grow_start.unwrap_or(params.grow_start),
            shrink: self.shrink.unwrap_or(params.shrink),
        }
    }

    /// Whether it names no parameter.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A halt is over.
    Wakeup(Wakeup),
    /// A window changes; the halt's wake-up line follows.
    Change(Change),
    /// Parameters hold from here on, for every thread.
    Params(ParamUpdate),
    /// The recorder lost events of any thread; how many, if it says so.
    Lost(Option<u64>),
}

/// A line of a trace that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Number of the line, from 1.
    pub line: usize,
    /// The thread in the line's prefix; none for a bare line.
    pub thread: Option<u32>,
    /// What it says.
    pub kind: Kind,
}

impl Event {
    /// What the line of this number, from 1, says, and of which thread.
    pub const fn new(line: usize, thread: Option<u32>, kind: Kind) -> Self {
        Self { line, thread, kind }
    }
}

/// A parsed trace.
///
/// ```
/// let trace = halt_trace::Trace::parse(
///     b"# halt_poll_ns=200000 grow=2 grow_start=10000 shrink=2\n\
///       kvm_halt_poll_ns: vcpu 0: halt_poll_ns 10000 (grow 0)\n\
///       kvm_vcpu_wakeup: wait time 192992 ns, polling valid\n",
/// )?;
/// assert_eq!(trace.halts().count(), 1);
/// assert_eq!(trace.first_params().halt_poll_ns, 200_000);
/// # Ok::<(), halt_trace::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// The lines that matter, in order.
    pub events: Vec<Event>,
    /// How many lines were other events, which do not matter.
    pub other_events: usize,
}

impl Trace {
    /// Parses a whole trace; the crate's documentation says what lines may look like.
    ///
    /// # Errors
    ///
    /// The first malformed line. [`lines`] gives them all.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        let mut trace = Self::default();
        for line in lines(bytes) {
            trace.push(line?);
        }
        Ok(trace)
    }

    /// Adds a line as [`lines`] gives it.
    pub fn push(&mut self, line: Line) {
        match line {
            Line::Event(event) => self.events.push(event),
            Line::Other => self.other_events += 1,
            Line::Ignored => {}
        }
    }

    /// The wake-ups in order, each with its thread.
    pub fn halts(&self) -> impl Iterator<Item = (Option<u32>, Wakeup)> + '_ {
        self.events.iter().filter_map(|event| match event.kind {
            Kind::Wakeup(wakeup) => Some((event.thread, wakeup)),
            _ => None,
        })
    }

    /// The parameters named before the first halt.
    pub fn first_params(&self) -> KernelParams {
        self.events
            .iter()
            .take_while(|event| !matches!(event.kind, Kind::Wakeup(_) | Kind::Change(_)))
            .fold(KernelParams::X86, |params, event| match event.kind {
                Kind::Params(update) => update.apply(params),
                _ => params,
            })
    }

    /// Whether parameters are named before the first halt; if not, x86's defaults are assumed.
    pub fn names_params(&self) -> bool {
        self.events
            .iter()
            .take_while(|event| !matches!(event.kind, Kind::Wakeup(_) | Kind::Change(_)))
            .any(|event| matches!(event.kind, Kind::Params(_)))
    }
}
