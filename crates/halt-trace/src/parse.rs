// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Text to events.

use crate::event::{Change, Direction, Event, Kind, ParamUpdate, Wakeup};
use crate::prefix;

/// No recorder writes longer lines; it also bounds the time that a line can take.
const MAX_LINE: usize = 8192;

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The line is longer than 8192 bytes.
    #[error("longer than {MAX_LINE} bytes")]
    TooLong,
    /// Neither an event nor a comment.
    #[error("neither an event nor a comment")]
    Unknown,
    /// What stands before the event is no prefix of a recorder.
    #[error("the prefix before the event has no {field}")]
    Prefix {
        /// The field that is missing or malformed.
        field: &'static str,
    },
    /// The event does not go on as it should.
    #[error("{expected} is missing")]
    Missing {
        /// What should be there.
        expected: &'static str,
    },
    /// No number where there should be one.
    #[error("{field} is not a number")]
    NotANumber {
        /// The field.
        field: &'static str,
    },
    /// A number that the kernel cannot have written.
    #[error("{field} is larger than {max}")]
    TooLarge {
        /// The field.
        field: &'static str,
        /// The largest allowed.
        max: u64,
    },
    /// Something follows where the line should end.
    #[error("more after the end of the event")]
    Trailing,
    /// A line of parameters with something else between them.
    #[error("a parameter line holds something that is no known parameter")]
    UnknownParameter,
    /// A parameter twice on one line.
    #[error("{field} is given twice")]
    Twice {
        /// The field.
        field: &'static str,
    },
}

/// A malformed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
#[non_exhaustive]
pub struct ParseError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What a well-formed line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Line {
    /// One that matters.
    Event(Event),
    /// An event of another kind.
    Other,
    /// Blank, or a comment without parameters.
    Ignored,
}

/// The lines of a trace, malformed ones included.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<Line, ParseError>> + '_ {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.split(|byte| *byte == b'\n').enumerate().map(|(index, text)| {
        let line = index + 1;
        parse_line(line, text).map_err(|fault| ParseError { line, fault })
    })
}

/// Parses one line, whose number is `line`.
///
/// # Errors
///
/// What is wrong with it.
///
/// ```
/// use halt_trace::{Fault, parse_line};
///
/// assert!(parse_line(1, b"kvm_vcpu_wakeup: poll time 5 ns, polling valid").is_ok());
/// assert_eq!(
///     parse_line(2, b"kvm_vcpu_wakeup: poll time x ns, polling valid"),
///     Err(Fault::NotANumber { field: "halt time" })
/// );
/// ```
pub fn parse_line(line: usize, text: &[u8]) -> Result<Line, Fault> {
    let text = text.trim_ascii();
    let bare = |kind| Ok(Line::Event(Event { line, thread: None, kind }));
    if text.is_empty() {
        return Ok(Line::Ignored);
    }
    if text.len() > MAX_LINE {
        return Err(Fault::TooLong);
    }
    if let Some(comment) = text.strip_prefix(b"#") {
        return match comment_kind(comment)? {
            Some(kind) => bare(kind),
            None => Ok(Line::Ignored),
        };
    }
    if let Some(lost) = lost(text) {
        return bare(Kind::Lost(lost));
    }
    if is_trace_cmd_heading(text) {
        return Ok(Line::Ignored);
    }
    let Some((before, name, payload)) = split_at_event(text) else {
        return if prefix::is_event(text) { Ok(Line::Other) } else { Err(Fault::Unknown) };
    };
    let thread = match thread_before(before) {
        Ok(thread) => thread,
        // The text of another event, a marker for instance, may hold our event's name.
        Err(_) if prefix::is_event(text) => return Ok(Line::Other),
        Err(fault) => return Err(fault),
    };
    let kind = match name {
        Name::Wakeup => Kind::Wakeup(wakeup(payload)?),
        Name::Change => Kind::Change(change(payload)?),
    };
    Ok(Line::Event(Event { line, thread, kind }))
}

#[derive(Clone, Copy)]
enum Name {
    Wakeup,
    Change,
}

/// The last of our event names in the line, what stands before it and what after.
fn split_at_event(text: &[u8]) -> Option<(&[u8], Name, &[u8])> {
    let wakeup = (b"kvm_vcpu_wakeup:".as_slice(), Name::Wakeup);
    let change = (b"kvm_halt_poll_ns:".as_slice(), Name::Change);
    [wakeup, change]
        .into_iter()
        .filter_map(|(name, kind)| {
            let at = text.windows(name.len()).rposition(|window| window == name)?;
            Some((at, at + name.len(), kind))
        })
        .max_by_key(|(at, ..)| *at)
        .map(|(at, end, kind)| (&text[..at], kind, &text[end..]))
}

fn thread_before(before: &[u8]) -> Result<Option<u32>, Fault> {
    // perf names the subsystem, too.
    let before = before.strip_suffix(b"kvm:").unwrap_or(before);
    if before.is_empty() {
        return Ok(None);
    }
    if !before.ends_with(b" ") && !before.ends_with(b"\t") {
        return Err(Fault::Prefix { field: "space before the event" });
    }
    prefix::thread(before).map(Some).map_err(|field| Fault::Prefix { field })
}

fn wakeup(payload: &[u8]) -> Result<Wakeup, Fault> {
    let mut rest = Rest(payload.trim_ascii_start());
    let waited = if rest.take(b"wait") {
        true
    } else if rest.take(b"poll") {
        false
    } else {
        return Err(Fault::Missing { expected: "`wait` or `poll`" });
    };
    rest.expect(b" time ", "`time`")?;
    let halt_ns = rest.number("halt time", i64::MAX.unsigned_abs())?;
    rest.expect(b" ns, polling ", "`ns, polling`")?;
    let valid = if rest.take(b"valid") {
        true
    } else if rest.take(b"invalid") {
        false
    } else {
        return Err(Fault::Missing { expected: "`valid` or `invalid`" });
    };
    rest.end()?;
    Ok(Wakeup { halt_ns, waited, valid })
}

fn change(payload: &[u8]) -> Result<Change, Fault> {
    let mut rest = Rest(payload.trim_ascii_start());
    rest.expect(b"vcpu ", "`vcpu`")?;
    let vcpu = rest.number_u32("vcpu")?;
    rest.expect(b": halt_poll_ns ", "`: halt_poll_ns`")?;
    let new_ns = rest.number_u32("new window")?;
    rest.expect(b" (", "`(`")?;
    let direction = if rest.take(b"grow ") {
        Direction::Grow
    } else if rest.take(b"shrink ") {
        Direction::Shrink
    } else {
        return Err(Fault::Missing { expected: "`grow` or `shrink`" });
    };
    let old_ns = rest.number_u32("old window")?;
    rest.expect(b")", "`)`")?;
    rest.end()?;
    Ok(Change { vcpu, direction, new_ns, old_ns })
}

/// What is left of an event.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, literal: &[u8]) -> bool {
        let rest = self.0.strip_prefix(literal);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn expect(&mut self, literal: &[u8], expected: &'static str) -> Result<(), Fault> {
        if self.take(literal) { Ok(()) } else { Err(Fault::Missing { expected }) }
    }

    fn number(&mut self, field: &'static str, max: u64) -> Result<u64, Fault> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        number_in(number, field, max)
    }

    fn number_u32(&mut self, field: &'static str) -> Result<u32, Fault> {
        let max = u32::MAX;
        let too_large = Fault::TooLarge { field, max: max.into() };
        u32::try_from(self.number(field, max.into())?).map_err(|_| too_large)
    }

    fn end(&self) -> Result<(), Fault> {
        if self.0.is_empty() { Ok(()) } else { Err(Fault::Trailing) }
    }
}

/// A number of digits only, no larger than `max`.
fn number_in(digits: &[u8], field: &'static str, max: u64) -> Result<u64, Fault> {
    if digits.is_empty() {
        return Err(Fault::NotANumber { field });
    }
    let mut number = 0_u64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return Err(Fault::NotANumber { field });
        }
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(u64::from(byte - b'0')))
            .filter(|number| *number <= max)
            .ok_or(Fault::TooLarge { field, max })?;
    }
    Ok(number)
}

/// What a comment means, if anything: parameters, or ftrace's word for overwritten events.
fn comment_kind(comment: &[u8]) -> Result<Option<Kind>, Fault> {
    let comment = comment.trim_ascii();
    // `##### CPU 1 buffer started ####` comes only after an overrun of that buffer.
    if comment.strip_suffix(b"####").is_some_and(|text| text.ends_with(b" buffer started ")) {
        return Ok(Some(Kind::Lost(None)));
    }
    let words = || comment.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if !words().any(|word| parameter(&mut ParamUpdate::default(), word).is_some()) {
        return Ok(None);
    }
    let mut update = ParamUpdate::default();
    for word in words() {
        let (field, slot, value) = parameter(&mut update, word).ok_or(Fault::UnknownParameter)?;
        if slot.is_some() {
            return Err(Fault::Twice { field });
        }
        let value = Rest(value).number_u32_exactly(field)?;
        *slot = Some(value);
    }
    Ok(Some(Kind::Params(update)))
}

impl Rest<'_> {
    fn number_u32_exactly(mut self, field: &'static str) -> Result<u32, Fault> {
        let number = self.number_u32(field)?;
        if self.0.is_empty() { Ok(number) } else { Err(Fault::NotANumber { field }) }
    }
}

type Slot<'a, 'b> = (&'static str, &'a mut Option<u32>, &'b [u8]);

/// The parameter that `key=value` names; with or without the module's `halt_poll_ns_` before it.
fn parameter<'a, 'b>(update: &'a mut ParamUpdate, word: &'b [u8]) -> Option<Slot<'a, 'b>> {
    let equals = word.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (&word[..equals], &word[equals + 1..]);
    Some(match key {
        b"halt_poll_ns" => ("halt_poll_ns", &mut update.halt_poll_ns, value),
        b"grow" | b"halt_poll_ns_grow" => ("grow", &mut update.grow, value),
        b"grow_start" | b"halt_poll_ns_grow_start" => ("grow_start", &mut update.grow_start, value),
        b"shrink" | b"halt_poll_ns_shrink" => ("shrink", &mut update.shrink, value),
        _ => return None,
    })
}

/// `CPU:1 [LOST 23 EVENTS]`, the same without a number, or trace-cmd's `[23 EVENTS DROPPED]`.
fn lost(text: &[u8]) -> Option<Option<u64>> {
    let text = text.strip_prefix(b"CPU:")?;
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = text.get(digits..)?.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?;
    let count = match text.strip_prefix(b"LOST") {
        Some(rest) => rest.strip_suffix(b"EVENTS")?.trim_ascii(),
        None => text.strip_suffix(b"EVENTS DROPPED")?.trim_ascii(),
    };
    Some(number_in(count, "lost events", u64::MAX).ok())
}

/// The two lines that `trace-cmd report` begins with.
fn is_trace_cmd_heading(text: &[u8]) -> bool {
    let cpus = text.strip_prefix(b"cpus=");
    let empty = text.strip_prefix(b"CPU ").and_then(|text| text.strip_suffix(b" is empty"));
    cpus.or(empty).is_some_and(|number| number_in(number, "CPU", u64::MAX).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(text: &str) -> Event {
        match parse_line(7, text.as_bytes()) {
            Ok(Line::Event(event)) => event,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn both_events_are_read_bare_and_with_prefixes() {
        let wakeup = Kind::Wakeup(Wakeup { halt_ns: 4398, waited: false, valid: true });
        let change = Kind::Change(Change {
            vcpu: 3,
            direction: Direction::Shrink,
            new_ns: 0,
            old_ns: 10_000,
        });
        let payloads = [
            ("kvm_vcpu_wakeup: poll time 4398 ns, polling valid", wakeup),
            ("kvm_halt_poll_ns: vcpu 3: halt_poll_ns 0 (shrink 10000)", change),
        ];
        for (payload, kind) in payloads {
            assert_eq!(event(payload), Event { line: 7, thread: None, kind });
            for prefix in
                ["  CPU 0/KVM-42 [001] ..... 12.345678: ", "vcpu 42 [001] 12.345678: kvm:"]
            {
                let line = format!("{prefix}{payload}\r");
                assert_eq!(event(&line), Event { line: 7, thread: Some(42), kind });
            }
        }
    }

    #[test]
    fn malformed_events_name_what_is_wrong() {
        for (text, fault) in [
            ("kvm_vcpu_wakeup", Fault::Unknown),
            ("kvm_vcpu_wakeup:", Fault::Missing { expected: "`wait` or `poll`" }),
            ("kvm_vcpu_wakeup: wait time ns", Fault::NotANumber { field: "halt time" }),
            ("kvm_vcpu_wakeup: wait time -1 ns", Fault::NotANumber { field: "halt time" }),
            (
                "kvm_vcpu_wakeup: wait time 9223372036854775808 ns, polling valid",
                Fault::TooLarge { field: "halt time", max: 9_223_372_036_854_775_807 },
            ),
            (
                "kvm_vcpu_wakeup: wait time 99999999999999999999999999 ns, polling valid",
                Fault::TooLarge { field: "halt time", max: 9_223_372_036_854_775_807 },
            ),
            ("kvm_vcpu_wakeup: wait time 1 us", Fault::Missing { expected: "`ns, polling`" }),
            ("kvm_vcpu_wakeup: wait time 1 ns, polling validx", Fault::Trailing),
            (
                "kvm_halt_poll_ns: vcpu 0: halt_poll_ns 4294967296 (grow 0)",
                Fault::TooLarge { field: "new window", max: 4_294_967_295 },
            ),
            (
                "kvm_halt_poll_ns: vcpu 0: halt_poll_ns 1 (gro 0)",
                Fault::Missing { expected: "`grow` or `shrink`" },
            ),
            (
                "xkvm_vcpu_wakeup: poll time 1 ns, polling valid",
                Fault::Prefix { field: "space before the event" },
            ),
            (
                "what kvm_vcpu_wakeup: poll time 1 ns, polling valid",
                Fault::Prefix { field: "time stamp" },
            ),
            ("kvm_exit: reason", Fault::Unknown),
        ] {
            assert_eq!(parse_line(1, text.as_bytes()), Err(fault), "{text}");
        }
    }

    #[test]
    fn parameter_lines_are_told_from_comments() {
        let all = ParamUpdate {
            halt_poll_ns: Some(200_000),
            grow: Some(2),
            grow_start: Some(10_000),
            shrink: Some(0),
        };
        let text = "# halt_poll_ns=200000 grow=2 grow_start=10000 shrink=0";
        assert_eq!(event(text).kind, Kind::Params(all));
        let text = "#halt_poll_ns_grow=4";
        let grow = ParamUpdate { grow: Some(4), ..ParamUpdate::default() };
        assert_eq!(event(text).kind, Kind::Params(grow));
        for text in ["#", "# tracer: nop", "# entries-in-buffer/entries-written: 12/12   #P:2"] {
            assert_eq!(parse_line(1, text.as_bytes()), Ok(Line::Ignored), "{text}");
        }
        for (text, fault) in [
            ("# halt_poll_ns=", Fault::NotANumber { field: "halt_poll_ns" }),
            ("# halt_poll_ns=5us", Fault::NotANumber { field: "halt_poll_ns" }),
            ("# grow=+2", Fault::NotANumber { field: "grow" }),
            ("# grow=2 grow=3", Fault::Twice { field: "grow" }),
            ("# grow=2 halt_poll_ns_grow=3", Fault::Twice { field: "grow" }),
            ("# halt_poll_ns=5 grw=2", Fault::UnknownParameter),
            ("# shrink=4294967296", Fault::TooLarge { field: "shrink", max: 4_294_967_295 }),
        ] {
            assert_eq!(parse_line(1, text.as_bytes()), Err(fault), "{text}");
        }
    }

    #[test]
    fn lost_events_are_seen_in_every_spelling() {
        for (text, lost) in [
            ("CPU:1 [LOST 23 EVENTS]", Some(23)),
            ("CPU:0 [LOST EVENTS]", None),
            ("CPU:0 [7 EVENTS DROPPED]", Some(7)),
            ("##### CPU 1 buffer started ####", None),
        ] {
            assert_eq!(event(text).kind, Kind::Lost(lost), "{text}");
        }
    }

    #[test]
    fn the_last_line_needs_no_newline_and_carriage_returns_are_dropped() {
        let text = b"\r\n\n# x\r\nkvm_vcpu_wakeup: poll time 5 ns, polling valid\r";
        let kinds: Vec<_> = lines(text).collect::<Result<_, _>>().unwrap();
        assert_eq!(kinds.len(), 4);
        assert!(matches!(kinds[3], Line::Event(Event { line: 4, .. })));
    }
}
