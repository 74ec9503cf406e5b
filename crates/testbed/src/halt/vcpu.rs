// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A vCPU of the benchmark, whatever runs it.

use super::plan::Phase;
use super::usage::Usage;

/// The vCPU of one row, kept for the whole run and with it what its policy learned. It runs while
/// its row has its turn, and uses no CPU at other times.
///
/// It halts whenever it has nothing to do.
pub trait BenchVcpu {
    /// Begins a turn: it runs from now on; in [`Phase::Tick`] with a 250 Hz timer.
    ///
    /// # Errors
    ///
    /// It cannot be made to run.
    fn begin(&mut self, phase: Phase) -> anyhow::Result<()>;

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

    /// The number of the last request that was answered. Whatever the vCPU wrote before it answered
    /// is visible.
    fn answer(&self) -> u32;

    /// What its thread has used.
    ///
    /// # Errors
    ///
    /// It does not run.
    fn usage(&self) -> anyhow::Result<Usage>;
}
