// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The KVM back end: a VM of one vCPU for every turn of a row.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use halt_poll::FutexWait;
use kvm_bindings::KVM_CAP_HALT_POLL;
use kvm_ioctls::Kvm;
use vcpu_state::WakeWord;

use super::plan::{Phase, Plan};
use super::policies::Poller;
use super::rows::{ALWAYS_NS, Mechanism, Row, RowPolicy};
use super::think::{PAUSE_MAX, Think};
use super::tick::{HZ, PERIOD};
use super::usage::Usage;
use super::vcpu::BenchVcpu;
use crate::vmm::thread::ThreadId;
use crate::vmm::{
    HaltHandler, Interrupts, Irqchip, Program, SharedMailbox, VcpuEnd, Vector, Vm, VmConfig,
};

/// A guest that has not booted, or not answered, by then never will.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest halt of a vCPU that serves steadily, with much room for a host that is slow.
const STEADY_HALT: Duration = Duration::from_millis(1);
/// What the way into a halt and out of it takes at most, if nobody takes the CPU away.
const HALT_PATH: Duration = Duration::from_micros(200);

/// Why KVM cannot be used for this benchmark on this host; `None` if it can.
pub fn missing() -> Option<String> {
    let kvm = match Kvm::new() {
        Ok(kvm) => kvm,
        Err(error) => return Some(format!("/dev/kvm cannot be used: {error}")),
    };
    (kvm.check_extension_raw(KVM_CAP_HALT_POLL.into()) <= 0)
        .then(|| "this KVM has no KVM_CAP_HALT_POLL".to_owned())
}

/// The vCPU of a row on KVM.
#[derive(Debug)]
pub struct KvmVcpu {
    cpu: usize,
    row: Row,
    poller: SharedPoller,
    turn: Option<Turn>,
}

/// One turn's VM.
#[derive(Debug)]
struct Turn {
    vm: Vm,
    thread: ThreadId,
    interrupts: Interrupts,
    mailbox: SharedMailbox,
}

/// A user-space row's driver. It outlives the VMs, and with it what its policy learned. Nobody
/// else has it while a vCPU runs.
#[derive(Clone, Debug)]
struct SharedPoller(Arc<Mutex<Poller>>);

impl HaltHandler for SharedPoller {
    fn halt(&mut self, wake: &WakeWord) -> Result<(), Box<dyn Error + Send + Sync>> {
        let mut poller = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _halted = poller.halt(&FutexWait::new(wake))?;
        Ok(())
    }
}

impl KvmVcpu {
    /// The vCPU of `row`, which will run on `cpu`. Halts in user space go through `poller`.
    pub fn new(cpu: usize, row: Row, poller: Poller) -> Self {
        Self { cpu, row, poller: SharedPoller(Arc::new(Mutex::new(poller))), turn: None }
    }

    fn turn(&self) -> anyhow::Result<&Turn> {
        self.turn.as_ref().context("the vCPU does not run")
    }

    fn start(&self, phase: Phase) -> anyhow::Result<Turn> {
        let irqchip = match self.row.mechanism {
            Mechanism::InKernel => Irqchip::InKernel,
            Mechanism::UserSpace => Irqchip::UserSpace,
        };
        let hz = if phase == Phase::Tick { HZ } else { 0 };
        let config =
            VmConfig::new(Program::Idle, irqchip).with_tick_hz(hz).with_cpus(vec![self.cpu]);
        let mut vm = Vm::new(config)?;
        match (self.row.mechanism, self.row.policy) {
            (Mechanism::InKernel, RowPolicy::Never) => vm.set_halt_poll_ns(0)?,
            (Mechanism::InKernel, RowPolicy::Always) => vm.set_halt_poll_ns(ALWAYS_NS)?,
            // The ceiling of the kvm module; or the VMM's own affair.
            _ => {}
        }
        vm.start(|_| Box::new(self.poller.clone()))?;
        vm.wait_ready(PATIENCE)?;
        let thread = vm.thread(0).context("the vCPU ended at once")?;
        let (interrupts, mailbox) = (vm.interrupts(), vm.mailbox(0)?);
        Ok(Turn { vm, thread, interrupts, mailbox })
    }

    /// Brings the kernel's window above `longest`, by halts that are each longer than the window.
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
}

/// The longest halt of `phase`.
fn longest_halt(plan: &Plan, phase: Phase) -> Duration {
    match phase {
        Phase::Idle => plan.warm_up(phase) + plan.measured(phase),
        Phase::Tick => PERIOD,
        Phase::Serve(Think::Steady) => STEADY_HALT,
        Phase::Serve(Think::Bursty) => PAUSE_MAX,
    }
}

impl BenchVcpu for KvmVcpu {
    fn begin(&mut self, plan: &Plan, phase: Phase) -> anyhow::Result<()> {
        self.turn = Some(self.start(phase)?);
        if self.row == (Row { mechanism: Mechanism::InKernel, policy: RowPolicy::Always }) {
            self.grow_window(longest_halt(plan, phase))?;
        }
        Ok(())
    }

    fn end(&mut self) -> anyhow::Result<()> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        for report in turn.vm.stop()?.vcpus {
            ensure!(matches!(report.end, VcpuEnd::Stopped), "the vCPU: {}", report.end);
        }
        Ok(())
    }

    fn request(&self, number: u32) -> anyhow::Result<()> {
        let turn = self.turn()?;
        turn.mailbox.post(number);
        Ok(turn.interrupts.raise(0, Vector::Request)?)
    }

    fn answer(&self) -> u32 {
        self.turn.as_ref().map_or(0, |turn| turn.mailbox.answered())
    }

    fn usage(&self) -> anyhow::Result<Usage> {
        Usage::of(self.turn()?.thread)
    }
}
