// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! CPUs with nothing better than the spin-wait hint, and loom's models.

use super::RelaxStep;
use crate::driver::sync::{AtomicU32, spin_loop};

/// What this host lacks for `step`, if anything.
pub(super) fn missing(step: RelaxStep) -> Option<&'static str> {
    (step != RelaxStep::SpinHint).then_some("an x86-64 or AArch64 CPU")
}

/// Waits for a change of `word` from 0.
pub(super) fn watch(_step: RelaxStep, _word: &AtomicU32, _left_ns: u64) {
    spin_loop();
}
