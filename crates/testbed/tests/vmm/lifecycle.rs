// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A VM boots, says something, and ends when it should, whatever it does.

use std::error::Error as StdError;
use std::fs;
use std::time::{Duration, Instant};

use testbed::vmm::{
    BlockHalts, Error, HaltHandler, Irqchip, Privilege, Program, VcpuEnd, VcpuError, Vector, Vm,
    VmConfig, abi,
};
use vcpu_state::WakeWord;

use super::kvm::{IRQCHIPS, LIMIT, running, turn, until};

#[test]
fn guest_boots_prints_and_ends_with_every_irqchip() {
    let Some(_turn) = turn("guest_boots_prints_and_ends_with_every_irqchip") else { return };
    for irqchip in IRQCHIPS {
        let mut vm = Vm::new(VmConfig::new(Program::Hello, irqchip)).unwrap();
        vm.start(|_| Box::new(BlockHalts)).unwrap();
        let report = vm.wait(LIMIT).unwrap();
        assert_eq!(report.console, abi::HELLO, "{irqchip:?}");
        assert!(matches!(report.vcpus[..], [ref vcpu] if matches!(vcpu.end, VcpuEnd::Guest(0))));
    }
}

#[test]
fn counting_guest_stops_within_bounded_time() {
    let Some(_turn) = turn("counting_guest_stops_within_bounded_time") else { return };
    for privilege in [Privilege::Kernel, Privilege::User] {
        let config = VmConfig::new(Program::Count, Irqchip::UserSpace).with_privilege(privilege);
        let mut vm = Vm::new(config).unwrap();
        let mailbox = vm.mailbox(0).unwrap();
        vm.start(|_| Box::new(BlockHalts)).unwrap();
        until("counting", &mailbox, || {
            mailbox.count.load(std::sync::atomic::Ordering::Relaxed) > 0
        });
        let begin = Instant::now();
        let report = vm.stop().unwrap();
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        assert!(matches!(report.vcpus[0].end, VcpuEnd::Stopped), "{:?}", report.vcpus[0]);
    }
}

/// The signal may come anywhere between "not yet in the guest" and "halted in KVM".
#[test]
fn stopping_at_any_moment_never_hangs() {
    let Some(_turn) = turn("stopping_at_any_moment_never_hangs") else { return };
    for round in 0..60_u64 {
        let irqchip = IRQCHIPS[usize::try_from(round % 3).unwrap()];
        let config = VmConfig::new(Program::Idle, irqchip).with_vcpus(2).with_tick_hz(250);
        let mut vm = Vm::new(config).unwrap();
        vm.start(|_| Box::new(BlockHalts)).unwrap();
        std::thread::sleep(Duration::from_micros(round * 137));
        let begin = Instant::now();
        let report = vm.stop().unwrap();
        assert_eq!(report.vcpus.len(), 2);
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}

#[test]
fn halt_with_interrupts_off_is_ended_by_the_vmm_alone() {
    let Some(_turn) = turn("halt_with_interrupts_off_is_ended_by_the_vmm_alone") else { return };
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::HaltForEver, irqchip));
        vm.interrupts().raise(0, Vector::Request).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let before = vm.cpu_time(0).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let used = vm.cpu_time(0).unwrap() - before;
        assert!(used < Duration::from_millis(50), "{irqchip:?} spins: {used:?}");
        let report = vm.stop().unwrap();
        assert!(matches!(report.vcpus[0].end, VcpuEnd::Stopped));
    }
}

#[test]
fn dropping_a_running_vm_ends_its_threads() {
    let Some(_turn) = turn("dropping_a_running_vm_ends_its_threads") else { return };
    let vm = running(VmConfig::new(Program::Idle, Irqchip::UserSpace));
    let thread = vm.thread(0).unwrap();
    drop(vm);
    assert!(!fs::exists(format!("/proc/self/task/{}", thread.get())).unwrap());
}

#[test]
fn a_vm_leaves_nothing_behind() {
    let Some(_turn) = turn("a_vm_leaves_nothing_behind") else { return };
    let count = |what| fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let run = || {
        for irqchip in IRQCHIPS {
            let config = VmConfig::new(Program::Idle, irqchip).with_vcpus(2).with_tick_hz(250);
            running(config).stop().unwrap();
        }
    };
    run();
    let before = count("fd");
    (0..5).for_each(|_| run());
    assert_eq!(count("fd"), before);
}

#[test]
fn what_cannot_be_is_refused() {
    let Some(_turn) = turn("what_cannot_be_is_refused") else { return };
    let config = VmConfig::new(Program::Idle, Irqchip::UserSpace);
    for vcpus in [0, 65, usize::MAX] {
        let refused = Vm::new(config.clone().with_vcpus(vcpus)).unwrap_err();
        assert!(matches!(refused, Error::VcpuCount { .. }), "{refused}");
    }
    let mut vm = Vm::new(config).unwrap();
    assert!(matches!(vm.mailbox(1), Err(Error::NoSuchVcpu { index: 1, count: 1 })));
    assert!(matches!(vm.interrupts().raise(1, Vector::Tick), Err(Error::NoSuchVcpu { .. })));
    assert!(matches!(vm.cpu_time(0), Err(Error::NotRunning)));
    vm.start(|_| Box::new(BlockHalts)).unwrap();
    assert!(matches!(vm.start(|_| Box::new(BlockHalts)), Err(Error::NotRunning)));
    vm.stop().unwrap();
}

#[test]
fn vcpu_threads_run_under_a_seccomp_filter() {
    let Some(_turn) = turn("vcpu_threads_run_under_a_seccomp_filter") else { return };
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip));
        let path = format!("/proc/self/task/{}/status", vm.thread(0).unwrap().get());
        let status = fs::read_to_string(path).unwrap();
        let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).unwrap();
        assert_eq!(mode.trim(), "2", "a filter");
        vm.stop().unwrap();
    }
}

/// Does what no vCPU thread has to.
struct OpensFiles;

impl HaltHandler for OpensFiles {
    fn halt(&mut self, _: &WakeWord) -> Result<(), Box<dyn StdError + Send + Sync>> {
        drop(fs::File::open("/dev/null")?);
        Ok(())
    }
}

#[test]
fn forbidden_system_call_ends_the_vcpu_with_its_number() {
    let Some(_turn) = turn("forbidden_system_call_ends_the_vcpu_with_its_number") else { return };
    let mut vm = Vm::new(VmConfig::new(Program::Idle, Irqchip::UserSpace)).unwrap();
    vm.start(|_| Box::new(OpensFiles)).unwrap();
    let report = vm.wait(LIMIT).unwrap();
    let VcpuEnd::Failed(VcpuError::SystemCallForbidden { syscall }) = report.vcpus[0].end else {
        panic!("{:?}", report.vcpus[0]);
    };
    assert_eq!(i64::from(syscall), libc::SYS_openat);
}

/// Asks for a page of code: first for a page, then for this access.
struct WantsCode {
    mapped: libc::c_int,
    then: libc::c_int,
}

impl HaltHandler for WantsCode {
    #[expect(unsafe_code, reason = "mmap and mprotect of a page of its own")]
    fn halt(&mut self, _: &WakeWord) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new page wherever the kernel likes.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, self.mapped, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err("no page".into());
        }
        // SAFETY: the page is ours, and nothing uses it.
        let changed = unsafe { libc::mprotect(page, 4096, self.then) };
        if changed == 0 { Ok(()) } else { Err("not this access".into()) }
    }
}

#[test]
fn vcpu_threads_get_no_executable_memory() {
    let Some(_turn) = turn("vcpu_threads_get_no_executable_memory") else { return };
    let (data, code) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC);
    for (mapped, then, call) in
        [(data | libc::PROT_EXEC, data, libc::SYS_mmap), (data, code, libc::SYS_mprotect)]
    {
        let mut vm = Vm::new(VmConfig::new(Program::Idle, Irqchip::UserSpace)).unwrap();
        vm.start(|_| Box::new(WantsCode { mapped, then })).unwrap();
        let report = vm.wait(LIMIT).unwrap();
        let VcpuEnd::Failed(VcpuError::SystemCallForbidden { syscall }) = report.vcpus[0].end
        else {
            panic!("{:?}", report.vcpus[0]);
        };
        assert_eq!(i64::from(syscall), call);
    }
}

/// Panics, as a handler with a bug might.
struct Panics;

impl HaltHandler for Panics {
    fn halt(&mut self, _: &WakeWord) -> Result<(), Box<dyn StdError + Send + Sync>> {
        panic!("expected by the test");
    }
}

#[test]
fn panic_of_a_halt_handler_is_an_error_of_the_vm() {
    let Some(_turn) = turn("panic_of_a_halt_handler_is_an_error_of_the_vm") else { return };
    let mut vm = Vm::new(VmConfig::new(Program::Idle, Irqchip::UserSpace)).unwrap();
    vm.start(|_| Box::new(Panics)).unwrap();
    let result = vm.wait(LIMIT);
    assert!(matches!(result, Err(Error::Panicked(0))), "{result:?}");
}

#[test]
fn vcpu_thread_is_bound_to_the_cpu_that_was_asked_for() {
    let Some(_turn) = turn("vcpu_thread_is_bound_to_the_cpu_that_was_asked_for") else { return };
    let config = VmConfig::new(Program::Idle, Irqchip::UserSpace);
    let allowed = |task: &str| {
        let status = fs::read_to_string(format!("/proc/{task}/status")).unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        list.unwrap().trim().to_owned()
    };
    // "3-5,7": the last of ours, which need not include CPU 0.
    let last = allowed("self").rsplit(['-', ',']).next().unwrap().to_owned();
    let vm = running(config.clone().with_cpus(vec![last.parse().unwrap()]));
    assert_eq!(allowed(&format!("self/task/{}", vm.thread(0).unwrap().get())), last);
    vm.stop().unwrap();

    let mut vm = Vm::new(config.with_cpus(vec![100_000])).unwrap();
    let refused = vm.start(|_| Box::new(BlockHalts));
    assert!(matches!(refused, Err(Error::System { call: "sched_setaffinity", .. })));
}
