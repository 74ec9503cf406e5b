// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A vCPU of the benchmark, whatever runs it.

use super::plan::{Phase, Plan};
use super::usage::Usage;

/// The vCPU of one row. It runs while its row has its turn, and at no other time.
///
/// It halts whenever it has nothing to do. A policy in user space is kept from turn to turn, with
/// all that it learned; the kernel's window begins at 0 in every turn, and grows while the vCPU is
/// warmed up.
pub trait BenchVcpu {
    /// Begins a turn: it runs from now on; in [`Phase::Tick`] with a 250 Hz timer.
    ///
    /// # Errors
    ///
    /// It cannot be made to run.
    fn begin(&mut self, plan: &Plan, phase: Phase) -> anyhow::Result<()>;

    /// Ends the turn.
    ///
    /// # Errors
    ///
    /// Why it stopped running before, if it did.
    fn end(&mut self) -> anyhow::Result<()>;

    /// Sends a request and wakes the vCPU.
    ///
    /// # Errors
    ///
    /// It cannot be woken.
    fn request(&self, number: u32) -> anyhow::Result<()>;

    /// The number of the last request that was answered in this turn; 0: none. Whatever the vCPU
    /// wrote before it answered is visible.
    fn answer(&self) -> u32;

    /// What its thread has used in this turn.
    ///
    /// # Errors
    ///
    /// It does not run.
    fn usage(&self) -> anyhow::Result<Usage>;
}
