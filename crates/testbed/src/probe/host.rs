// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The host besides KVM: its CPUs and scheduler, its tracing, our privileges.

use std::fs;

use super::finding::Finding;

/// Capabilities (capabilities(7)) that some means of the project need.
const CAPABILITIES: [(u32, &str); 4] = [
    (21, "privilege_sys_admin"),
    (23, "privilege_sys_nice"),
    (38, "privilege_perfmon"),
    (39, "privilege_bpf"),
];

/// perf_event_open of one's own threads, user space only, needs no privilege up to here.
const PERF_OWN_THREADS: i64 = 2;

pub(super) fn findings() -> Vec<Finding> {
    let mut findings = vec![cpus(), kernel(), preemption(), tick(), tracefs(), btf(), perf()];
    findings.extend(privileges());
    findings.push(realtime_limit());
    findings
}

fn cpus() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => {
            let model = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
                let line = text.lines().find(|line| line.starts_with("model name"))?;
                Some(line.split_once(':')?.1.trim().to_owned())
            });
            Finding::here("cpus", model.unwrap_or_else(|| "this process's affinity".into()))
                .value(i64::try_from(count.get()).unwrap_or(i64::MAX))
        }
        Err(error) => Finding::missing("cpus", error.to_string()),
    }
}

fn kernel() -> Finding {
    match fs::read_to_string("/proc/sys/kernel/osrelease") {
        Ok(text) => Finding::here("kernel", "/proc/sys/kernel/osrelease").value(text.trim()),
        Err(error) => Finding::missing("kernel", format!("/proc/sys/kernel/osrelease: {error}")),
    }
}

/// What the kernel's version string says, or, for one that can choose, what was chosen.
fn preemption() -> Finding {
    const NAME: &str = "preemption";
    let version = match fs::read_to_string("/proc/sys/kernel/version") {
        Ok(text) => text,
        Err(error) => return Finding::missing(NAME, format!("/proc/sys/kernel/version: {error}")),
    };
    let built = version.split_whitespace().find(|word| word.starts_with("PREEMPT"));
    let Some(built) = built else {
        return Finding::here(NAME, "/proc/sys/kernel/version").value("none or voluntary");
    };
    if built != "PREEMPT_DYNAMIC" {
        return Finding::here(NAME, "/proc/sys/kernel/version").value(built);
    }
    let command_line = fs::read_to_string("/proc/cmdline").unwrap_or_default();
    let asked = command_line.split_whitespace().find_map(|word| word.strip_prefix("preempt="));
    match (fs::read_to_string("/sys/kernel/debug/sched/preempt"), asked) {
        // "none voluntary (full) lazy": the chosen one is in parentheses.
        (Ok(modes), _) if modes.contains('(') => {
            let mode = modes.split(['(', ')']).nth(1).unwrap_or_default();
            Finding::here(NAME, "/sys/kernel/debug/sched/preempt").value(mode)
        }
        (_, Some(asked)) => Finding::here(NAME, "/proc/cmdline").value(asked),
        (_, None) => Finding::here(NAME, "chosen at boot; debugfs would say which").value(built),
    }
}

/// A coarse clock moves with the tick.
fn tick() -> Finding {
    const NAME: &str = "tick_hz";
    match coarse_resolution_ns() {
        Ok(0) => Finding::missing(NAME, "CLOCK_MONOTONIC_COARSE has no resolution"),
        Ok(ns) => Finding::here(NAME, "resolution of CLOCK_MONOTONIC_COARSE")
            .value((1_000_000_000 + ns / 2) / ns),
        Err(error) => Finding::missing(NAME, format!("clock_getres: {error}")),
    }
}

// UNSAFE: clock_getres, which std does not have.
#[expect(unsafe_code)]
fn coarse_resolution_ns() -> std::io::Result<i64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write.
    if unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut time) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(time.tv_nsec)
}

fn tracefs() -> Finding {
    const NAME: &str = "tracefs";
    let mounts = match fs::read_to_string("/proc/self/mounts") {
        Ok(mounts) => mounts,
        Err(error) => return Finding::missing(NAME, format!("/proc/self/mounts: {error}")),
    };
    let mut fields = mounts.lines().map(|line| line.split(' ').skip(1));
    let mounted = fields.find_map(|mut rest| {
        let (path, kind) = (rest.next()?, rest.next()?);
        (kind == "tracefs").then(|| path.to_owned())
    });
    let Some(path) = mounted else {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        return Finding::missing(
            NAME,
            if known.split_whitespace().any(|word| word == "tracefs") {
                "not mounted: mount -t tracefs none /sys/kernel/tracing (root)"
            } else {
                "this kernel does not have it"
            },
        );
    };
    match fs::metadata(format!("{path}/events/kvm/kvm_halt_poll_ns")) {
        Ok(_) => Finding::here(NAME, "mounted, with KVM's halt events").value(path),
        Err(error) => Finding::missing(NAME, format!("{path}, KVM's halt events: {error}")),
    }
}

fn btf() -> Finding {
    const PATH: &str = "/sys/kernel/btf/vmlinux";
    match fs::File::open(PATH) {
        Ok(_) => Finding::here("btf", PATH),
        Err(error) => Finding::missing("btf", format!("{PATH}: {error}")),
    }
}

fn perf() -> Finding {
    const NAME: &str = "perf_event_paranoid";
    const PATH: &str = "/proc/sys/kernel/perf_event_paranoid";
    let level = fs::read_to_string(PATH).map(|text| text.trim().parse::<i64>());
    match level {
        Ok(Ok(level)) if level <= PERF_OWN_THREADS => {
            Finding::here(NAME, "own threads without privilege").value(level)
        }
        Ok(Ok(level)) => {
            Finding::missing(NAME, "above 2: needs privilege even for own threads").value(level)
        }
        Ok(Err(error)) => Finding::missing(NAME, format!("{PATH}: {error}")),
        Err(error) => Finding::missing(NAME, format!("{PATH}: {error}")),
    }
}

/// A field of /proc/self/status.
fn status(field: &str) -> Result<String, String> {
    let text = fs::read_to_string("/proc/self/status")
        .map_err(|error| format!("/proc/self/status: {error}"))?;
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| format!("/proc/self/status has no {field}"))
}

fn privileges() -> Vec<Finding> {
    let user = match status("Uid") {
        // Real, effective, saved, file system.
        Ok(ids) => match ids.split_whitespace().nth(1) {
            Some("0") => Finding::here("privilege_root", "effective user 0"),
            other => Finding::missing(
                "privilege_root",
                format!("effective user {}", other.unwrap_or("unknown")),
            ),
        },
        Err(why) => Finding::missing("privilege_root", why),
    };
    let effective = status("CapEff").and_then(|text| {
        u64::from_str_radix(&text, 16).map_err(|error| format!("CapEff {text}: {error}"))
    });
    let capability = |(bit, name): (u32, &'static str)| match &effective {
        Ok(set) if set & (1 << bit) != 0 => Finding::here(name, "in CapEff"),
        Ok(_) => Finding::missing(name, format!("capability {bit} is not in CapEff")),
        Err(why) => Finding::missing(name, why.clone()),
    };
    [user].into_iter().chain(CAPABILITIES.map(capability)).collect()
}

fn realtime_limit() -> Finding {
    const NAME: &str = "rlimit_rtprio";
    let limit = fs::read_to_string("/proc/self/limits").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("Max realtime priority"))?;
        Some(line.split_whitespace().next()?.to_owned())
    });
    match limit.as_deref() {
        Some("0") => Finding::missing(NAME, "0: real-time priorities need CAP_SYS_NICE").value(0),
        Some(limit) => {
            let finding = Finding::here(NAME, "/proc/self/limits");
            match limit.parse::<i64>() {
                Ok(limit) => finding.value(limit),
                Err(_) => finding.value(limit),
            }
        }
        None => Finding::missing(NAME, "/proc/self/limits does not say"),
    }
}
