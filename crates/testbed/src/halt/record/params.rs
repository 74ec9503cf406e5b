// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The parameters that the kernel polls with now, and the trace's first lines.

use std::fs;

use anyhow::Context;

pub(super) use halt_poll::KernelParams as Params;

use super::super::module_params::{MODULE, module_params};

/// The host-wide ones.
pub(super) fn read() -> anyhow::Result<Params> {
    module_params()?.with_context(|| format!("cannot read {MODULE}: is the kvm module loaded?"))
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
