// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Whether there is a KVM to test on, and the waits of the tests.

use std::fs::OpenOptions;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use testbed::vmm::{BlockHalts, Irqchip, SharedMailbox, Vm, VmConfig};

/// Longer than any test takes on a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// All of them.
pub(crate) const IRQCHIPS: [Irqchip; 3] = [Irqchip::InKernel, Irqchip::Split, Irqchip::UserSpace];

/// One test at a time: they measure CPU time and latency.
static TURN: Mutex<()> = Mutex::new(());

/// The test's turn if `/dev/kvm` can be used; else `test` is reported as skipped.
pub(crate) fn turn(test: &str) -> Option<MutexGuard<'static, ()>> {
    // A test that failed left nothing behind.
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match OpenOptions::new().read(true).write(true).open("/dev/kvm") {
        Ok(_) => Some(turn),
        Err(error) => {
            skipped::skip(test, &format!("/dev/kvm cannot be opened: {error}"));
            None
        }
    }
}

/// A VM that sleeps in user-space halts and runs its program.
pub(crate) fn running(config: VmConfig) -> Vm {
    let mut vm = Vm::new(config).unwrap();
    vm.start(|_| Box::new(BlockHalts)).unwrap();
    vm.wait_ready(LIMIT).unwrap();
    vm
}

/// Waits for `condition`; panics with `what` and the mailbox if it takes too long.
pub(crate) fn until(what: &str, mailbox: &SharedMailbox, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < LIMIT, "{what} takes too long: {mailbox:?}");
        std::thread::yield_now();
    }
}
