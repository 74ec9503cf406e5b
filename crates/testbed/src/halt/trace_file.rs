// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Reads the trace files that `replay` and `evaluate` are given.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use halt_trace::{Trace, lines};

use crate::report::diagnostic;

/// Larger files are refused: a trace is text that is held in memory.
const MAX_BYTES: u64 = 1 << 30;

/// How many malformed lines are told one by one.
const TOLD: usize = 3;

/// Reads a trace; `-` is standard input. `params_given`: the command line names parameters.
///
/// # Errors
///
/// The file cannot be read, is too large, holds malformed lines (told by number) or no halt.
pub(super) fn read(path: &Path, params_given: bool) -> anyhow::Result<Trace> {
    let name = path.display();
    let bytes = bytes(path).with_context(|| format!("cannot read {name}"))?;
    let trace = parse(&bytes).with_context(|| name.to_string())?;
    ensure!(trace.halts().next().is_some(), "{name}: no kvm_vcpu_wakeup line");
    if !params_given && !trace.names_params() {
        diagnostic::note(&format!(
            "{name}: no parameters before the first halt, x86's defaults are assumed"
        ));
    }
    Ok(trace)
}

fn bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut read_from = |source: &mut dyn Read| source.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    if path == Path::new("-") {
        read_from(&mut std::io::stdin().lock())?;
    } else {
        read_from(&mut File::open(path)?)?;
    }
    ensure!(bytes.len() as u64 <= MAX_BYTES, "larger than {MAX_BYTES} bytes");
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> anyhow::Result<Trace> {
    let mut trace = Trace::default();
    let mut faults = Vec::new();
    let mut count = 0_usize;
    for line in lines(bytes) {
        match line {
            Ok(line) => trace.push(line),
            Err(error) => {
                count += 1;
                if faults.len() < TOLD {
                    faults.push(error.to_string());
                }
            }
        }
    }
    match count.saturating_sub(faults.len()) {
        0 if faults.is_empty() => Ok(trace),
        0 => bail!("{}", faults.join("; ")),
        more => bail!("{}; and {more} more malformed lines", faults.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_lines_are_told_by_number_and_counted() {
        let text = "x\nkvm_vcpu_wakeup: poll time 5 ns, polling valid\ny\nz\nu\nv\n";
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line 1: neither an event nor a comment; line 3: "), "{error}");
        assert!(error.ends_with("; and 2 more malformed lines"), "{error}");
    }
}
