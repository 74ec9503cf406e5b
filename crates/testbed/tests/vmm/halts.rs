// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts end when they should and no earlier, in the kernel and in user space.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuExit;
use testbed::vmm::{
    BlockHalts, Event, HaltMechanism, IdleReason, Irqchip, Program, Vector, Vm, VmConfig, classify,
};

use super::kvm::{IRQCHIPS, LIMIT, running, until, usable};

fn ping(vm: &Vm, index: usize, requests: std::ops::RangeInclusive<u32>) {
    let (mailbox, interrupts) = (vm.mailbox(index).unwrap(), vm.interrupts());
    for request in requests {
        mailbox.post(request);
        interrupts.raise(index, Vector::Request).unwrap();
        until("an answer", &mailbox, || mailbox.answered() == request);
    }
}

#[test]
fn requests_are_answered_thousands_of_times_without_a_lost_wake_up() {
    if !usable("requests_are_answered_thousands_of_times_without_a_lost_wake_up") {
        return;
    }
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip));
        ping(&vm, 0, 1..=4000);
        let mailbox = vm.mailbox(0).unwrap();
        assert_eq!(mailbox.requests.load(Ordering::Acquire), 4000, "{irqchip:?}: one each");
        vm.stop().unwrap();
    }
}

/// The client does not wait for the halt: interrupts come while the guest runs its handler, is about
/// to halt, is about to be entered.
#[test]
fn interrupts_at_any_moment_arrive_on_every_vcpu_with_ticks_between() {
    if !usable("interrupts_at_any_moment_arrive_on_every_vcpu_with_ticks_between") {
        return;
    }
    for irqchip in IRQCHIPS {
        let config = VmConfig::new(Program::Idle, irqchip).with_vcpus(3).with_tick_hz(250);
        let vm = running(config);
        std::thread::scope(|scope| {
            for index in 0..3 {
                let vm = (vm.mailbox(index).unwrap(), vm.interrupts());
                scope.spawn(move || {
                    let (mailbox, interrupts) = vm;
                    for request in 1..=1000_u32 {
                        mailbox.post(request);
                        interrupts.raise(index, Vector::Request).unwrap();
                        for _ in 0..request % 97 {
                            std::hint::spin_loop();
                        }
                        if request % 3 == 0 {
                            until("an answer", &mailbox, || mailbox.answered() == request);
                        }
                    }
                    until("the last answer", &mailbox, || mailbox.answered() == 1000);
                });
            }
        });
        for index in 0..3 {
            let mailbox = vm.mailbox(index).unwrap();
            until("a tick", &mailbox, || mailbox.ticks.load(Ordering::Acquire) > 0);
        }
        vm.stop().unwrap();
    }
}

#[test]
fn ticks_come_at_the_rate_that_was_asked_for() {
    if !usable("ticks_come_at_the_rate_that_was_asked_for") {
        return;
    }
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip).with_tick_hz(250));
        let mailbox = vm.mailbox(0).unwrap();
        let (begin, before) = (Instant::now(), mailbox.ticks.load(Ordering::Acquire));
        std::thread::sleep(Duration::from_millis(600));
        let ticks = mailbox.ticks.load(Ordering::Acquire) - before;
        let expected = begin.elapsed().as_secs_f64() * 250.0;
        // Not more, and not much fewer even on a machine that is busy.
        #[expect(clippy::cast_precision_loss, reason = "hundreds")]
        let share = ticks as f64 / expected;
        assert!((0.5..1.05).contains(&share), "{irqchip:?}: {ticks} ticks, {expected} expected");
        vm.stop().unwrap();
    }
}

/// F17: whatever the guest's idle exit is called, the vCPU blocks.
#[test]
fn f17_every_idle_exit_blocks() {
    // The kinds that this host does not produce are checked by what the loop makes of them.
    assert_eq!(classify(&VcpuExit::Hlt), Event::Idle(IdleReason::Halt));
    assert_eq!(classify(&VcpuExit::Unsupported(32)), Event::Idle(IdleReason::ResetHold));
    assert_eq!(classify(&VcpuExit::SystemEvent(5, &[])), Event::Idle(IdleReason::Suspend));
    // An exit nobody knows ends the vCPU rather than spin.
    assert_eq!(classify(&VcpuExit::Unsupported(9999)), Event::Unhandled);

    if !usable("f17_every_idle_exit_blocks") {
        return;
    }
    let vm = running(VmConfig::new(Program::Idle, Irqchip::UserSpace));
    ping(&vm, 0, 1..=10);
    let before = vm.cpu_time(0).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let used = vm.cpu_time(0).unwrap() - before;
    assert!(used < Duration::from_millis(60), "an idle vCPU used {used:?} of 300 ms");
    let report = vm.stop().unwrap();
    // One halt for each request and the first: none in vain.
    let halts = report.vcpus[0].halts;
    assert!((1..=30).contains(&halts), "{halts} halts for 10 requests");
}

/// F18: with a local APIC in the kernel no halt exit ever comes, and none is waited for.
#[test]
fn f18_mechanism_follows_the_irqchip() {
    if !usable("f18_mechanism_follows_the_irqchip") {
        return;
    }
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip));
        ping(&vm, 0, 1..=100);
        let report = vm.stop().unwrap();
        let halts = report.vcpus[0].halts;
        match irqchip.halt_mechanism() {
            HaltMechanism::InKernel => assert_eq!(halts, 0, "{irqchip:?}"),
            HaltMechanism::UserSpace => assert!(halts >= 1, "{irqchip:?}"),
        }
    }
}

/// The vCPU's own CPU time tells whether the kernel polled. The kernel does not poll while others
/// want the CPU, so this looks for a moment when the host is quiet.
#[test]
fn kernel_halt_polling_follows_the_ceiling_at_run_time() {
    const TEST: &str = "kernel_halt_polling_follows_the_ceiling_at_run_time";
    if !usable(TEST) {
        return;
    }
    // With 1000 ticks a second, a ceiling of 2 ms polls through every halt.
    let vm = running(VmConfig::new(Program::Idle, Irqchip::InKernel).with_tick_hz(1000));
    let share = |ceiling_ns| {
        vm.set_halt_poll_ns(ceiling_ns).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let (begin, before) = (Instant::now(), vm.cpu_time(0).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        (vm.cpu_time(0).unwrap() - before).as_secs_f64() / begin.elapsed().as_secs_f64()
    };
    let mut quiet = 0;
    for _ in 0..40 {
        let busy = busy_time();
        let [off, on, off_again] = [share(0), share(2_000_000), share(0)];
        if on > 2.0 * off && on > 2.0 * off_again {
            vm.stop().unwrap();
            return;
        }
        // 360 ms passed, of which the vCPU itself may have used a third.
        if busy_time() - busy < Duration::from_millis(250) {
            quiet += 1;
            assert!(quiet < 3, "no polling on a quiet host: {off:.3} {on:.3} {off_again:.3}");
        }
    }
    vm.stop().unwrap();
    skipped::skip(TEST, "the host is never quiet: its kernel does not poll");
}

/// CPU time that all CPUs were busy for since boot, in steps of 10 ms.
fn busy_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let ticks: Vec<u64> =
        stat.lines().next().unwrap().split_whitespace().flat_map(str::parse).collect();
    // All but idle and iowait, the fourth and fifth.
    Duration::from_millis(10 * (ticks[..3].iter().sum::<u64>() + ticks[5..8].iter().sum::<u64>()))
}

#[test]
fn halts_are_counted_and_the_handler_gets_each() {
    if !usable("halts_are_counted_and_the_handler_gets_each") {
        return;
    }
    let mut vm = Vm::new(VmConfig::new(Program::Idle, Irqchip::UserSpace).with_vcpus(2)).unwrap();
    let mut asked = Vec::new();
    vm.start(|index| {
        asked.push(index);
        Box::new(BlockHalts)
    })
    .unwrap();
    vm.wait_ready(LIMIT).unwrap();
    ping(&vm, 1, 1..=50);
    let report = vm.stop().unwrap();
    assert_eq!(asked, [0, 1]);
    assert!(report.vcpus[1].halts > report.vcpus[0].halts, "{report:?}");
}

#[test]
fn the_tick_can_be_changed_at_run_time() {
    if !usable("the_tick_can_be_changed_at_run_time") {
        return;
    }
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip).with_vcpus(2));
        let mailbox = vm.mailbox(1).unwrap();
        let ticks = || mailbox.ticks.load(Ordering::Acquire);
        assert_eq!(ticks(), 0);
        for _ in 0..3 {
            vm.set_tick_hz(500).unwrap();
            let before = ticks();
            until("ticking", &mailbox, || ticks() > before + 3);
            vm.set_tick_hz(0).unwrap();
            // One may be on its way.
            std::thread::sleep(Duration::from_millis(20));
            let before = ticks();
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!(ticks(), before, "{irqchip:?}");
        }
        vm.stop().unwrap();
    }
}

#[test]
fn a_paused_vcpu_uses_no_cpu_and_forgets_no_interrupt() {
    if !usable("a_paused_vcpu_uses_no_cpu_and_forgets_no_interrupt") {
        return;
    }
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip).with_vcpus(2));
        let (mailbox, interrupts) = (vm.mailbox(0).unwrap(), vm.interrupts());
        for round in 1..=50 {
            // Half of the pauses meet a vCPU that is not idle.
            if round % 2 == 0 {
                mailbox.post(1000 + round);
                interrupts.raise(0, Vector::Request).unwrap();
            }
            vm.pause().unwrap();
            let before = vm.cpu_time(0).unwrap();
            mailbox.post(round);
            interrupts.raise(0, Vector::Request).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            assert_ne!(mailbox.answered(), round);
            assert_eq!(vm.cpu_time(0).unwrap(), before, "{irqchip:?}");
            vm.resume();
            until("an answer after the pause", &mailbox, || mailbox.answered() == round);
        }
        vm.pause().unwrap();
        vm.stop().unwrap();
    }
}
