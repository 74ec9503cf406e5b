// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The parameters that the kernel polls with now, and the trace's first lines.

use std::fs;

use anyhow::Context;

pub(super) use halt_poll::KernelParams as Params;

const DIRECTORY: &str = "/sys/module/kvm/parameters";

/// The host-wide ones.
pub(super) fn read() -> anyhow::Result<Params> {
    Ok(Params {
        halt_poll_ns: one("halt_poll_ns")?,
        grow: one("halt_poll_ns_grow")?,
        grow_start: one("halt_poll_ns_grow_start")?,
        shrink: one("halt_poll_ns_shrink")?,
    })
}

fn one(name: &str) -> anyhow::Result<u32> {
    let path = format!("{DIRECTORY}/{name}");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("cannot read {path}: is the kvm module loaded?"))?;
    text.trim().parse().with_context(|| format!("{path} is not a number"))
}

/// A trace's first lines.
pub(super) fn header(params: &Params, load: &str) -> String {
    let Params { halt_poll_ns, grow, grow_start, shrink } = params;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "# halt_poll_ns={halt_poll_ns} grow={grow} grow_start={grow_start} shrink={shrink}\n\
         # Linux {}, halts of {load}\n",
        release.trim()
    )
}

#[cfg(test)]
mod tests {
    use halt_trace::Trace;

    use super::*;

    #[test]
    fn the_header_says_the_parameters_to_the_parser() {
        let params = Params { halt_poll_ns: 11_000, grow: 3, grow_start: 1, shrink: 0 };
        let trace = Trace::parse(header(&params, "x=1 [2]").as_bytes()).unwrap();
        assert_eq!(trace.first_params(), params);
    }
}
