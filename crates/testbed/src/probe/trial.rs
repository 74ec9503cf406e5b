// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What only a running guest can tell.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::ValueEnum;

use super::finding::Finding;
use crate::vmm::{
    BlockHalts, Error, Irqchip, Privilege, Program, SharedMailbox, VcpuEnd, Vector, Vm, VmConfig,
};

/// Longer than any guest needs for what it is asked, on a busy host that interprets it.
const LIMIT: Duration = Duration::from_secs(3);
/// An instruction that does not come back in this time does not come back.
const HANG: Duration = Duration::from_secs(1);
/// Of a measurement: the median of so many windows counts.
const WINDOWS: usize = 25;
/// How long each of them is.
const WINDOW: Duration = Duration::from_millis(8);
/// Requests of a halt trial.
const REQUESTS: u32 = 50;

/// Something to try in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum Trial {
    /// Halts with the irqchip in the kernel.
    HaltInKernel,
    /// Halts with the split irqchip.
    HaltSplit,
    /// Halts without an irqchip in the kernel.
    HaltUserSpace,
    /// A hypercall in the guest's kernel mode.
    Hypercall,
    /// A 16-byte compare-and-exchange in the guest's kernel mode.
    CompareExchange16,
    /// How fast the guest's kernel mode is.
    SpeedKernel,
    /// How fast the guest's user mode is.
    SpeedUser,
    /// What an exit to the VMM and back costs.
    ExitCost,
}

/// Why a trial has no result.
type Failure = Box<dyn std::error::Error>;

impl Trial {
    /// All, in the order of the report.
    pub const ALL: [Self; 8] = [
        Self::HaltInKernel,
        Self::HaltSplit,
        Self::HaltUserSpace,
        Self::Hypercall,
        Self::CompareExchange16,
        Self::SpeedKernel,
        Self::SpeedUser,
        Self::ExitCost,
    ];

    /// The name of what it finds.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HaltInKernel => "halt_in_kernel_us",
            Self::HaltSplit => "halt_split_us",
            Self::HaltUserSpace => "halt_user_space_us",
            Self::Hypercall => "hypercall_returns",
            Self::CompareExchange16 => "kernel_mode_cmpxchg16b",
            Self::SpeedKernel => "kernel_mode_mips",
            Self::SpeedUser => "user_mode_mips",
            Self::ExitCost => "exit_ns",
        }
    }

    /// Its name on the command line.
    pub(super) fn argument(self) -> &'static str {
        match self {
            Self::HaltInKernel => "halt-in-kernel",
            Self::HaltSplit => "halt-split",
            Self::HaltUserSpace => "halt-user-space",
            Self::Hypercall => "hypercall",
            Self::CompareExchange16 => "compare-exchange16",
            Self::SpeedKernel => "speed-kernel",
            Self::SpeedUser => "speed-user",
            Self::ExitCost => "exit-cost",
        }
    }

    /// Tries it. May take for ever on a host that hangs: call it in a process that can be killed.
    pub(super) fn run(self) -> Finding {
        let result = match self {
            Self::HaltInKernel => self.halt(Irqchip::InKernel),
            Self::HaltSplit => self.halt(Irqchip::Split),
            Self::HaltUserSpace => self.halt(Irqchip::UserSpace),
            Self::Hypercall => self.executes(Program::Hypercall),
            Self::CompareExchange16 => self.executes(Program::CompareExchange16),
            Self::SpeedKernel => self.speed(Privilege::Kernel),
            Self::SpeedUser => self.speed(Privilege::User),
            Self::ExitCost => self.exit_cost(),
        };
        result.unwrap_or_else(|error| Finding::missing(self.name(), chain(&*error)))
    }

    /// Sends requests to an idle guest and wants an answer to each.
    fn halt(self, irqchip: Irqchip) -> Result<Finding, Failure> {
        let vm = started(VmConfig::new(Program::Idle, irqchip), LIMIT)?;
        let (mailbox, interrupts) = (vm.mailbox(0)?, vm.interrupts());
        let mut times = Vec::new();
        for request in 1..=REQUESTS {
            // Long enough for the guest to halt again.
            std::thread::sleep(Duration::from_millis(1));
            let begin = Instant::now();
            mailbox.post(request);
            interrupts.raise(0, Vector::Request)?;
            while mailbox.answered() != request {
                if begin.elapsed() > LIMIT {
                    return Err(format!("request {request} was not answered in {LIMIT:?}").into());
                }
                std::thread::yield_now();
            }
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        let report = vm.stop()?;
        let halts: u64 = report.vcpus.iter().map(|vcpu| vcpu.halts).sum();
        let how = format!("{REQUESTS} requests to a halted guest, {halts} halts in user space");
        Ok(Finding::here(self.name(), how).value(median(times)))
    }

    /// Runs a guest that executes one odd instruction and ends.
    fn executes(self, program: Program) -> Result<Finding, Failure> {
        let mut vm = Vm::new(VmConfig::new(program, Irqchip::UserSpace))?;
        vm.start(|_| Box::new(BlockHalts))?;
        let report = match vm.wait(HANG) {
            Err(Error::TimedOut { .. }) => {
                let why = format!("the instruction did not end in {HANG:?}");
                return Ok(Finding::missing(self.name(), why));
            }
            report => report?,
        };
        Ok(match report.vcpus.into_iter().next().map(|vcpu| vcpu.end) {
            Some(VcpuEnd::Guest(0)) => Finding::here(self.name(), "executed in a guest"),
            Some(end) => {
                Finding::missing(self.name(), format!("{end} {}", report.console).trim_end())
            }
            None => Finding::missing(self.name(), "no vCPU"),
        })
    }

    /// Counts in a guest; a round has two instructions.
    fn speed(self, privilege: Privilege) -> Result<Finding, Failure> {
        let config = VmConfig::new(Program::Count, Irqchip::UserSpace).with_privilege(privilege);
        let rounds = rate(config)?;
        let how = "million instructions/s of a counting loop, median";
        Ok(Finding::here(self.name(), how).value(2.0 * rounds / 1e6))
    }

    /// Leaves the guest by port I/O in its user mode, which is native everywhere.
    fn exit_cost(self) -> Result<Finding, Failure> {
        let config =
            VmConfig::new(Program::Doorbell, Irqchip::UserSpace).with_privilege(Privilege::User);
        let exits = rate(config)?;
        let how = "port write to the VMM and back, median";
        Ok(Finding::here(self.name(), how).value((1e9 / exits).round()))
    }
}

fn started(config: VmConfig, limit: Duration) -> Result<Vm, Error> {
    let mut vm = Vm::new(config)?;
    vm.start(|_| Box::new(BlockHalts))?;
    vm.wait_ready(limit)?;
    Ok(vm)
}

/// How often a second the guest's counter moves: the median over short windows.
fn rate(config: VmConfig) -> Result<f64, Failure> {
    let vm = started(config, LIMIT)?;
    let mailbox = vm.mailbox(0)?;
    let mut rates = Vec::new();
    for _ in 0..WINDOWS {
        rates.push(rate_in_window(&mailbox));
    }
    vm.stop()?;
    let median = median(rates);
    if median > 0.0 { Ok(median) } else { Err("the guest does not get on".into()) }
}

fn rate_in_window(mailbox: &SharedMailbox) -> f64 {
    let (begin, before) = (Instant::now(), mailbox.count.load(Ordering::Relaxed));
    std::thread::sleep(WINDOW);
    let counted = mailbox.count.load(Ordering::Relaxed).wrapping_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53 in such a short time")]
    let counted = counted as f64;
    counted / begin.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// An error with what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trial_is_known_on_the_command_line_under_its_argument() {
        for trial in Trial::ALL {
            assert_eq!(Trial::from_str(trial.argument(), false), Ok(trial));
        }
        assert_eq!(Trial::ALL.len(), Trial::value_variants().len());
    }

    #[test]
    fn the_median_is_the_middle_and_nothing_is_zero() {
        assert!((median(vec![9.0, 1.0, 5.0]) - 5.0).abs() < 1e-9);
        assert!(median(Vec::new()).abs() < 1e-9);
    }
}
