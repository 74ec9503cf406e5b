// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a report says about the host it was made on.

use halt_poll::{BlockCost, KernelParams};

use super::measure::Placement;
use super::policies::HostParams;

/// Names and values.
pub type Facts = Vec<(&'static str, String)>;

/// Describes the host and what the policies were told of it.
pub fn facts(
    cpus: usize,
    placement: &Placement,
    cost: BlockCost,
    host: &HostParams,
    has_module: bool,
) -> Facts {
    let adaptive = &host.adaptive;
    vec![
        ("Processor", processor()),
        ("CPUs", format!("{cpus}; {}", placed(placement))),
        ("Kernel", read("/proc/sys/kernel/osrelease")),
        ("kvm module", module(&host.kernel, has_module)),
        (
            "Cost of blocking",
            format!(
                "{} us of CPU time, {} us of latency (calibrated)",
                us(cost.cpu_ns),
                us(cost.latency_ns)
            ),
        ),
        (
            "adaptive",
            format!(
                "a microsecond of latency is worth {:.2} us of CPU time; ceiling {} us",
                f64::from(adaptive.latency_weight.as_percent()) / 100.0,
                us(adaptive.ceiling_ns)
            ),
        ),
        ("fixed", format!("a window of {} us", us(adaptive.effective_block_cost_ns()))),
        ("Load before", read("/proc/loadavg")),
    ]
}

fn module(params: &KernelParams, has_module: bool) -> String {
    let origin = if has_module { "" } else { " (not loaded: the defaults)" };
    format!(
        "halt_poll_ns {}, grow {}, grow_start {}, shrink {}{origin}",
        params.halt_poll_ns, params.grow, params.grow_start, params.shrink
    )
}

fn placed(placement: &Placement) -> String {
    if placement.client == placement.vcpu {
        format!("client and vCPUs share CPU {}", placement.vcpu)
    } else {
        format!("client and timers on CPU {}, vCPUs on CPU {}", placement.client, placement.vcpu)
    }
}

fn us(ns: u32) -> String {
    format!("{:.1}", f64::from(ns) / 1e3)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or("?".to_owned(), |text| text.trim().to_owned())
}

/// x86's name of the processor, or the architecture.
fn processor() -> String {
    let name = read("/proc/cpuinfo").lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    name.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_say_where_defaults_stand_in() {
        let params = KernelParams::default();
        assert!(module(&params, false).contains("defaults"));
        assert!(!module(&params, true).contains("defaults"));
    }

    #[test]
    fn one_cpu_is_told() {
        assert!(placed(&Placement { client: 1, vcpu: 1 }).contains("share"));
        assert!(!placed(&Placement { client: 0, vcpu: 1 }).contains("share"));
    }
}
