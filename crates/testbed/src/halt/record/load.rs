// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Our own guest as the load: halts of every length around the ceiling.

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::vmm::{BlockHalts, Irqchip, Program, Vector, Vm, VmConfig};

/// vCPUs: two, so that the threads' lines are mixed.
const VCPUS: usize = 2;
/// Halts that nobody cuts short are ended by the guest's own tick.
const TICK_HZ: u32 = 250;
/// The guest has this long to boot, and to answer.
const LIMIT: Duration = Duration::from_secs(5);
/// Longer think times sleep; shorter ones are as exact as they can be.
const SPIN_BELOW: Duration = Duration::from_micros(100);

/// A guest whose halts the kernel handles. Nothing runs until it is driven.
pub(super) struct Guest {
    vm: Vm,
}

impl Guest {
    /// Makes it, with a ceiling of its own if one is given.
    pub(super) fn new(ceiling_ns: Option<u32>) -> anyhow::Result<Self> {
        let config =
            VmConfig::new(Program::Idle, Irqchip::InKernel).with_vcpus(VCPUS).with_tick_hz(TICK_HZ);
        let vm = Vm::new(config)
            .context("our own guest cannot be made (--pid records another VMM's)")?;
        if let Some(ceiling_ns) = ceiling_ns {
            vm.set_halt_poll_ns(ceiling_ns)?;
        }
        Ok(Self { vm })
    }

    /// Runs it until it is `over`: requests after think times from far below the
    /// ceiling to far above it. Its threads are children of the calling one.
    pub(super) fn drive(mut self, ceiling_ns: u32, over: impl Fn() -> bool) -> anyhow::Result<()> {
        self.vm.start(|_| Box::new(BlockHalts))?;
        self.vm.wait_ready(LIMIT)?;
        let interrupts = self.vm.interrupts();
        let mailboxes =
            (0..VCPUS).map(|index| self.vm.mailbox(index)).collect::<Result<Vec<_>, _>>()?;
        let mut rng = StdRng::seed_from_u64(ceiling_ns.into());
        let longest_ns = 4.0 * f64::from(ceiling_ns.max(50_000));
        // Phases of short, of long and of mixed think times let the window go all its ways.
        let mut phase = (0.0, 0.0);
        for request in 1_u32.. {
            if over() {
                break;
            }
            if request % 32 == 1 {
                let low = rng.random_range(0.0..1.0);
                phase = (low, rng.random_range(low..=1.0));
            }
            let exponent: f64 = rng.random_range(phase.0..=phase.1);
            think(Duration::from_secs_f64(500e-9 * (longest_ns / 500.0).powf(exponent)));
            let index = rng.random_range(0..VCPUS);
            let mailbox = &mailboxes[index];
            mailbox.post(request);
            interrupts.raise(index, Vector::Request)?;
            let asked = Instant::now();
            while mailbox.answered() != request {
                anyhow::ensure!(asked.elapsed() < LIMIT, "our own guest does not answer");
                hint::spin_loop();
            }
        }
        self.vm.stop()?;
        Ok(())
    }
}

fn think(time: Duration) {
    if time >= SPIN_BELOW {
        thread::sleep(time);
        return;
    }
    let begin = Instant::now();
    while begin.elapsed() < time {
        hint::spin_loop();
    }
}
