// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What waiting costs on this host, in the kernel and in user space.

use std::fs;

use halt_poll::{Relax, RelaxStep};

use super::finding::Finding;

/// Parameters of the kernel's own halt polling.
const PARAMETERS: [&str; 4] =
    ["halt_poll_ns", "halt_poll_ns_grow", "halt_poll_ns_grow_start", "halt_poll_ns_shrink"];

const STEPS: [(RelaxStep, &str); 5] = [
    (RelaxStep::SpinHint, "relax_spin_hint"),
    (RelaxStep::Umwait, "relax_umwait"),
    (RelaxStep::Mwaitx, "relax_mwaitx"),
    (RelaxStep::Wfe, "relax_wfe"),
    (RelaxStep::Wfet, "relax_wfet"),
];

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = Vec::from(block_cost());
    findings.extend(STEPS.map(|(step, name)| match Relax::new(step) {
        Ok(_) => Finding::here(name, "the CPU has it"),
        Err(error) => Finding::missing(name, error.to_string()),
    }));
    findings.extend(PARAMETERS.map(parameter));
    findings
}

fn block_cost() -> [Finding; 2] {
    let [cpu, latency] = ["block_cpu_ns", "block_latency_ns"];
    match halt_poll::calibrate() {
        Ok(cost) => [
            Finding::here(cpu, "CPU time of one sleep and wake-up, median")
                .value(i64::from(cost.cpu_ns)),
            Finding::here(latency, "from the wake until the sleeper runs, median")
                .value(i64::from(cost.latency_ns)),
        ],
        Err(error) => {
            [Finding::missing(cpu, error.to_string()), Finding::missing(latency, error.to_string())]
        }
    }
}

fn parameter(name: &'static str) -> Finding {
    let path = format!("/sys/module/kvm/parameters/{name}");
    let read = fs::read_to_string(&path).map(|text| text.trim().parse::<i64>());
    match read {
        Ok(Ok(value)) => {
            let writable = fs::OpenOptions::new().write(true).open(&path).is_ok();
            let how = if writable { "writable" } else { "read-only here" };
            Finding::here(name, format!("{path}, {how}")).value(value)
        }
        Ok(Err(error)) => Finding::missing(name, format!("{path}: {error}")),
        Err(error) => Finding::missing(name, format!("{path}: {error}")),
    }
}
