// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What recorders write before an event: `task-pid [cpu] flags time:` and relatives.
//!
//! * ftrace's `trace` and `trace_pipe`, and `trace-cmd report`: `CPU 0/KVM-1234 [001] d..1. 12.345678:`,
//!   with `(tgid)` before the CPU if asked for, and without flags if not.
//! * `perf script`: `CPU 0/KVM 1234 [001] 12.345678:` or `1230/1234` for process and thread.
//!
//! A task's name is whatever its owner wrote there: any bytes, spaces, brackets and dashes too. So
//! prefixes are read from their right end.

/// A prefix that does not look like one: the field that is wrong.
pub(crate) type WrongField = &'static str;

/// The thread that a prefix names.
pub(crate) fn thread(prefix: &[u8]) -> Result<u32, WrongField> {
    let (head, time) = last_word(prefix).ok_or("time stamp")?;
    if !is_time(time) {
        return Err("time stamp");
    }
    let (mut head, mut cpu) = last_word(head).ok_or("CPU")?;
    if !is_cpu(cpu) {
        // Flags stood between the CPU and the time.
        (head, cpu) = last_word(head).ok_or("CPU")?;
    }
    if !is_cpu(cpu) {
        return Err("CPU");
    }
    task(without_tgid(head.trim_ascii_end()))
}

/// Whether `line` is a line of some event, ours or not, or of the function tracer.
pub(crate) fn is_event(line: &[u8]) -> bool {
    // The first word that ends like a time stamp, with a good prefix up to it, and then `name:`.
    line.iter().enumerate().filter(|(_, byte)| **byte == b':').any(|(colon, _)| {
        let (prefix, rest) = line.split_at(colon + 1);
        if thread(prefix).is_err() || !rest.first().is_some_and(u8::is_ascii_whitespace) {
            return false;
        }
        let rest = rest.trim_ascii_start();
        let name = rest.split(u8::is_ascii_whitespace).next().unwrap_or_default();
        name.strip_suffix(b":").is_some_and(is_event_name)
            || rest.windows(3).any(|arrow| arrow == b" <-")
    })
}

fn is_event_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b':'))
}

fn last_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_end();
    let start = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1);
    (start < text.len()).then(|| text.split_at(start))
}

/// Seconds with a fraction, or a plain count (some trace clocks), and a colon.
fn is_time(word: &[u8]) -> bool {
    let Some(word) = word.strip_suffix(b":") else { return false };
    let mut parts = word.split(|byte| *byte == b'.');
    parts.next().is_some_and(is_number)
        && parts.next().is_none_or(is_number)
        && parts.next().is_none()
}

fn is_cpu(word: &[u8]) -> bool {
    word.strip_prefix(b"[").and_then(|word| word.strip_suffix(b"]")).is_some_and(is_number)
}

fn is_number(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

/// Removes `( 1234)` or `(-----)` at the end.
fn without_tgid(head: &[u8]) -> &[u8] {
    let Some(inner) = head.strip_suffix(b")") else { return head };
    let Some(open) = inner.iter().rposition(|byte| *byte == b'(') else { return head };
    let (before, tgid) = (&inner[..open], inner[open + 1..].trim_ascii());
    if is_number(tgid) || (!tgid.is_empty() && tgid.iter().all(|byte| *byte == b'-')) {
        before.trim_ascii_end()
    } else {
        head
    }
}

/// The thread's number at the end of `name-1234`, `name 1234` or `name 1230/1234`.
fn task(task: &[u8]) -> Result<u32, WrongField> {
    let digits = task.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (name, number) = task.split_at(task.len() - digits);
    let separated = match name.last() {
        Some(b'-') => true,
        Some(b'/') => last_word(name).is_some_and(|(_, pid)| is_number(&pid[..pid.len() - 1])),
        Some(byte) => byte.is_ascii_whitespace(),
        None => false,
    };
    if !separated {
        return Err("thread");
    }
    std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).ok_or("thread")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_found_in_every_recorders_prefix() {
        for prefix in [
            "          vcpu-0-1234    [001] ..... 12.345678: ",
            "CPU 0/KVM-1234 [000] d..1. 12.345678:",
            "<...>-1234 [000] 12.345678:",
            "a [1] 2.3: b-1234 ( 1200) [000] ..... 12.345678:",
            "vm-1234 (-------) [000] d.h2. 12.345678:",
            "vcpu0 1234 [000] 12.345678:",
            "CPU 0/KVM 1200/1234 [000] 12.345678:",
            "vcpu-1234 [127] ..... 9934834723:",
        ] {
            assert_eq!(thread(prefix.as_bytes()), Ok(1234), "{prefix}");
        }
        assert_eq!(thread(b"\xff\xfe\x80-1234 [000] 12.3:"), Ok(1234));
    }

    #[test]
    fn a_wrong_prefix_names_its_field() {
        for (prefix, field) in [
            ("", "time stamp"),
            ("x-1 [000] 12.3", "time stamp"),
            ("x-1 [000] 12.3.4:", "time stamp"),
            ("x-1 [000] .12:", "time stamp"),
            ("12.3:", "CPU"),
            ("x-1 000 12.3:", "CPU"),
            ("x-1 [] .... 12.3:", "CPU"),
            ("x [000] 12.3:", "thread"),
            ("x- [000] 12.3:", "thread"),
            ("1234 [000] 12.3:", "thread"),
            ("x-99999999999 [000] 12.3:", "thread"),
            ("[000] 12.3:", "thread"),
        ] {
            assert_eq!(thread(prefix.as_bytes()), Err(field), "{prefix}");
        }
    }

    #[test]
    fn other_events_are_told_from_broken_lines() {
        for line in [
            "x-1 [000] d... 12.3: kvm_exit: reason HLT rip 0x1",
            "x 1 [000] 12.3: kvm:kvm_exit: reason HLT",
            "x-1 [000] d... 12.3: schedule <-kvm_vcpu_block",
            "x-1 [000] d... 12.3: tracing_mark_write: kvm_vcpu_wakeup: nonsense",
        ] {
            assert!(is_event(line.as_bytes()), "{line}");
        }
        for line in ["x-1 [000] d... 12.3: kvm_vcpu_wak", "kvm_exit: reason", "12.3: a: b", ""] {
            assert!(!is_event(line.as_bytes()), "{line}");
        }
    }
}
