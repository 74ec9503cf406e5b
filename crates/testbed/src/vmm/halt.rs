// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What a vCPU's thread does while the guest halts, where the VMM handles halts.

use std::error::Error;

use halt_poll::{Clock, Contention, FutexWait, HaltPoller, Policy};
use vcpu_state::{WakeSource, WakeWord};

/// Waits for a wake-up, in place of the guest: polls, sleeps, or both. One value serves one vCPU,
/// on its thread.
pub trait HaltHandler: Send {
    /// Returns when a wake-up is pending on `wake`, which it consumes ([`WakeWord::take`]); whoever
    /// wakes does a futex wake of [`WakeWord::word`] if it sleeps. It may return without reason: the
    /// loop looks for itself.
    ///
    /// # Errors
    ///
    /// Anything; it ends the vCPU.
    fn halt(&mut self, wake: &WakeWord) -> Result<(), Box<dyn Error + Send + Sync>>;

    /// The system calls that [`halt`](Self::halt) makes: the vCPU's thread runs under a filter that
    /// allows these besides its own. Clocks that the vDSO reads on most hosts belong here too, for
    /// the others.
    fn system_calls(&self) -> &[i64] {
        &[libc::SYS_futex, libc::SYS_clock_gettime]
    }
}

/// Never polls: sleeps at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockHalts;

impl HaltHandler for BlockHalts {
    fn halt(&mut self, wake: &WakeWord) -> Result<(), Box<dyn Error + Send + Sync>> {
        let source = FutexWait::new(wake);
        while !source.take() {
            source.block(None)?;
        }
        Ok(())
    }
}

impl<P, X, C> HaltHandler for HaltPoller<P, X, C>
where
    P: Policy + Send,
    X: Contention + Send,
    C: Clock + Send,
{
    fn halt(&mut self, wake: &WakeWord) -> Result<(), Box<dyn Error + Send + Sync>> {
        // Whatever ended it, the loop looks for itself.
        let _halted = Self::halt(self, &FutexWait::new(wake))?;
        Ok(())
    }
}
