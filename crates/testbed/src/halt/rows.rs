// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What is compared: the table of mechanisms and policies.

use serde::Serialize;

/// Where the vCPUs of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Guests on `/dev/kvm`.
    Kvm,
    /// Threads that play a vCPU: no guest, no exits.
    Threads,
}

/// Who handles a halt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// KVM: the interrupt controller is in the kernel, and so is the halt.
    InKernel,
    /// The VMM: the halt is an exit, and halt-poll's driver polls and blocks.
    UserSpace,
}

/// How long a halt polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowPolicy {
    /// Not at all.
    Never,
    /// Until the wake-up comes: [`ALWAYS_NS`] is above every halt of the run.
    Always,
    /// For what blocking costs on this host (the best deterministic choice without knowledge).
    Fixed,
    /// As the kernel does, with the parameters that the kvm module has on this host.
    Kernel,
    /// halt-poll's `Adaptive`, with this host's blocking cost and the benchmark's weight of latency
    /// ([`LATENCY_WEIGHT`](super::policies::LATENCY_WEIGHT)).
    Adaptive,
}

/// One line of the table: a vCPU of its own, kept for the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Who handles its halts.
    pub mechanism: Mechanism,
    /// By which policy.
    pub policy: RowPolicy,
}

/// The window of [`RowPolicy::Always`], in nanoseconds.
///
/// Above every halt of the run ([`plan`](super::plan) keeps its phases below it), and below
/// 10000 ns * 2^18, so that doubling the kernel's window on its way there does not wrap in 32 bits.
pub const ALWAYS_NS: u32 = 2_000_000_000;

/// Every row there is. The thread back end has no kernel to handle a halt: see [`rows`].
const TABLE: [Row; 8] = [
    Row { mechanism: Mechanism::InKernel, policy: RowPolicy::Never },
    Row { mechanism: Mechanism::InKernel, policy: RowPolicy::Always },
    Row { mechanism: Mechanism::InKernel, policy: RowPolicy::Kernel },
    Row { mechanism: Mechanism::UserSpace, policy: RowPolicy::Never },
    Row { mechanism: Mechanism::UserSpace, policy: RowPolicy::Always },
    Row { mechanism: Mechanism::UserSpace, policy: RowPolicy::Fixed },
    Row { mechanism: Mechanism::UserSpace, policy: RowPolicy::Kernel },
    Row { mechanism: Mechanism::UserSpace, policy: RowPolicy::Adaptive },
];

/// The rows that `backend` can run, in the order of the table.
pub fn rows(backend: Backend) -> Vec<Row> {
    let runs = |row: &Row| backend == Backend::Kvm || row.mechanism == Mechanism::UserSpace;
    TABLE.into_iter().filter(runs).collect()
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.mechanism.name(), self.policy.name())
    }
}

impl Mechanism {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InKernel => "in-kernel",
            Self::UserSpace => "user-space",
        }
    }
}

impl RowPolicy {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Always => "always",
            Self::Fixed => "fixed",
            Self::Kernel => "kernel",
            Self::Adaptive => "adaptive",
        }
    }
}

impl Backend {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Threads => "threads",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_json() {
        for row in rows(Backend::Kvm) {
            let json = |value| serde_json::to_value(value).unwrap();
            assert_eq!(json(row.mechanism), row.mechanism.name());
            assert_eq!(serde_json::to_value(row.policy).unwrap(), row.policy.name());
        }
        for backend in [Backend::Kvm, Backend::Threads] {
            assert_eq!(serde_json::to_value(backend).unwrap(), backend.name());
        }
    }

    #[test]
    fn threads_run_user_space_rows_only() {
        assert_eq!(rows(Backend::Kvm).len(), 8);
        let threads = rows(Backend::Threads);
        assert_eq!(threads.len(), 5);
        assert!(threads.iter().all(|row| row.mechanism == Mechanism::UserSpace));
    }

    #[test]
    fn the_kernels_window_does_not_wrap_on_its_way_to_always() {
        let mut window = 10_000_u32;
        while window < ALWAYS_NS {
            window = window.checked_mul(2).expect("growth wraps");
        }
    }
}
