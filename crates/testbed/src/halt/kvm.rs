// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The KVM back end: a VM of one vCPU for each row.

use std::error::Error;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use halt_poll::FutexWait;
use kvm_bindings::{KVM_API_VERSION, KVM_CAP_HALT_POLL};
use kvm_ioctls::Kvm;
use vcpu_state::WakeWord;

use super::plan::Phase;
use super::policies::Poller;
use super::rows::{ALWAYS_NS, Mechanism, Row, RowPolicy};
use super::tick::HZ;
use super::usage::Usage;
use super::vcpu::BenchVcpu;
use crate::vmm::{
    BlockHalts, HaltHandler, Interrupts, Irqchip, Program, SharedMailbox, VcpuEnd, Vector, Vm,
    VmConfig,
};

/// A guest that has not booted, or not answered, by then never will.
const PATIENCE: Duration = Duration::from_secs(5);
/// What the way into a halt and out of it takes at most, if nobody takes the CPU away.
const HALT_PATH: Duration = Duration::from_micros(200);

/// Why KVM cannot be used for this benchmark on this host; `None` if it can.
pub fn missing() -> Option<String> {
    let kvm = match Kvm::new() {
        Ok(kvm) => kvm,
        Err(error) => return Some(format!("/dev/kvm cannot be used: {error}")),
    };
    let version = kvm.get_api_version();
    if version != KVM_API_VERSION.cast_signed() {
        return Some(format!("/dev/kvm cannot be used: its API version is {version}"));
    }
    (kvm.check_extension_raw(KVM_CAP_HALT_POLL.into()) <= 0)
        .then(|| "this KVM has no KVM_CAP_HALT_POLL".to_owned())
}

/// The vCPU of a row on KVM, paused while its row does not have its turn.
#[derive(Debug)]
pub struct KvmVcpu {
    /// Gone after a failure.
    vm: Option<Vm>,
    interrupts: Interrupts,
    mailbox: SharedMailbox,
}

/// The driver of a user-space row, as the VMM's loop wants it.
struct Driver(Poller);

impl HaltHandler for Driver {
    fn halt(&mut self, wake: &WakeWord) -> Result<(), Box<dyn Error + Send + Sync>> {
        let _halted = self.0.halt(&FutexWait::new(wake))?;
        Ok(())
    }
}

impl KvmVcpu {
    /// The vCPU of `row` on `cpu`. Halts in user space go through `poller`. No halt of the run is
    /// longer than `longest`.
    ///
    /// # Errors
    ///
    /// KVM does not do what is needed, or the guest does not boot.
    pub fn new(cpu: usize, row: Row, poller: Poller, longest: Duration) -> anyhow::Result<Self> {
        let irqchip = match row.mechanism {
            Mechanism::InKernel => Irqchip::InKernel,
            Mechanism::UserSpace => Irqchip::UserSpace,
        };
        let mut vm = Vm::new(VmConfig::new(Program::Idle, irqchip).with_cpus(vec![cpu]))?;
        let always = match (row.mechanism, row.policy) {
            (Mechanism::InKernel, RowPolicy::Never) => {
                vm.set_halt_poll_ns(0)?;
                false
            }
            (Mechanism::InKernel, RowPolicy::Always) => {
                vm.set_halt_poll_ns(ALWAYS_NS)?;
                true
            }
            // The ceiling of the kvm module; or the VMM's own affair.
            _ => false,
        };
        let mut driver = Some(Driver(poller));
        vm.start(|_| match driver.take() {
            Some(driver) => Box::new(driver),
            // There is one vCPU.
            None => Box::new(BlockHalts),
        })?;
        vm.wait_ready(PATIENCE)?;
        let (interrupts, mailbox) = (vm.interrupts(), vm.mailbox(0)?);
        let vcpu = Self { vm: Some(vm), interrupts, mailbox };
        if always {
            vcpu.grow_window(longest)?;
        }
        vcpu.vm()?.pause()?;
        Ok(vcpu)
    }

    fn vm(&self) -> anyhow::Result<&Vm> {
        self.vm.as_ref().context("the vCPU has failed")
    }

    /// Brings the kernel's window above `longest`, by halts that are each longer than the window.
    /// It stays there: it shrinks only after a halt above the ceiling.
    fn grow_window(&self, longest: Duration) -> anyhow::Result<()> {
        let mut window = Duration::from_micros(10);
        while window < longest * 2 {
            std::thread::sleep(window + HALT_PATH);
            let number = self.answer().wrapping_add(1);
            self.request(number)?;
            let sent = Instant::now();
            while self.answer() != number {
                ensure!(sent.elapsed() < PATIENCE, "the guest does not answer");
                std::thread::yield_now();
            }
            window *= 2;
        }
        Ok(())
    }

    /// Why the vCPU does not do what it is told.
    fn failure(&mut self, seen: crate::vmm::Error) -> anyhow::Error {
        let report = self.vm.take().map(Vm::stop);
        match report.and_then(|stopped| stopped.ok()?.vcpus.pop()) {
            Some(report) if !matches!(report.end, VcpuEnd::Stopped) => {
                anyhow!("the vCPU: {}", report.end)
            }
            _ => seen.into(),
        }
    }
}

impl BenchVcpu for KvmVcpu {
    fn begin(&mut self, phase: Phase) -> anyhow::Result<()> {
        let vm = self.vm()?;
        vm.resume();
        if phase == Phase::Tick {
            vm.set_tick_hz(HZ)?;
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        // The tick before the vCPU: a guest with a tick of its own has to run for that.
        let Some(vm) = &self.vm else { return Ok(()) };
        vm.set_tick_hz(0).and_then(|()| vm.pause()).map_err(|error| self.failure(error))
    }

    fn request(&self, number: u32) -> anyhow::Result<()> {
        self.mailbox.post(number);
        Ok(self.interrupts.raise(0, Vector::Request)?)
    }

    fn answer(&self) -> u32 {
        self.mailbox.answered()
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.vm()?.thread(0).context("the vCPU has ended")?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::client::{Waiting, converse};
    use super::super::measure::Placement;
    use super::super::policies::{HostParams, poller};
    use super::super::rows::{Backend, rows};
    use super::super::think::{Think, Thinks};
    use super::super::tick::PERIOD;
    use super::super::usage::allowed_cpus;
    use super::*;

    fn vcpu(row: Row, test: &str) -> Option<KvmVcpu> {
        if let Some(reason) = missing() {
            skipped::skip(test, &reason);
            return None;
        }
        let placement = Placement::among(&allowed_cpus().unwrap()).unwrap();
        let poller = poller(row.policy, &HostParams::sample());
        Some(KvmVcpu::new(placement.vcpu, row, poller, Duration::from_millis(20)).unwrap())
    }

    #[test]
    fn every_row_answers_in_every_turn_and_rests_in_between() {
        for row in rows(Backend::Kvm) {
            let test = "every_row_answers_in_every_turn_and_rests_in_between";
            let Some(mut vcpu) = vcpu(row, test) else { return };
            let mut latencies = hdrhistogram::Histogram::new(3).unwrap();
            for phase in [Phase::Serve(Think::Steady), Phase::Tick, Phase::Idle] {
                vcpu.begin(phase).unwrap();
                let mut thinks = Thinks::new(Think::Steady, 1);
                let time = Duration::from_millis(10);
                converse(&vcpu, Waiting::Yield, &mut thinks, time, &mut latencies).unwrap();
                vcpu.end().unwrap();
                let before = vcpu.usage().unwrap();
                std::thread::sleep(Duration::from_millis(10));
                let used = vcpu.usage().unwrap().since(before).cpu;
                assert!(used < Duration::from_millis(1), "{row}: {used:?} while paused");
            }
        }
    }

    #[test]
    fn it_ticks_in_the_tick_phase_only() {
        for mechanism in [Mechanism::InKernel, Mechanism::UserSpace] {
            let row = Row { mechanism, policy: RowPolicy::Never };
            let Some(mut vcpu) = vcpu(row, "it_ticks_in_the_tick_phase_only") else { return };
            let ticks = |vcpu: &KvmVcpu| vcpu.mailbox.ticks.load(Ordering::Relaxed);
            let idle = |vcpu: &mut KvmVcpu| {
                let before = ticks(vcpu);
                vcpu.begin(Phase::Idle).unwrap();
                std::thread::sleep(PERIOD * 10);
                vcpu.end().unwrap();
                ticks(vcpu) - before
            };
            assert_eq!(idle(&mut vcpu), 0);
            let began = Instant::now();
            vcpu.begin(Phase::Tick).unwrap();
            while ticks(&vcpu) < 10 {
                assert!(began.elapsed() < PATIENCE * 2, "{mechanism:?}: no ticks");
                std::thread::sleep(PERIOD);
            }
            vcpu.end().unwrap();
            let (ticked, most) = (ticks(&vcpu), began.elapsed().as_nanos() / PERIOD.as_nanos());
            assert!(u128::from(ticked) <= most + 1, "{mechanism:?}: {ticked} ticks, not {most}");
            // One may have been on its way when the vCPU was paused.
            assert!(idle(&mut vcpu) <= 1);
        }
    }
}
