// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts end when they should and no earlier, in the kernel and in user space.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kvm_ioctls::VcpuExit;
use testbed::vmm::{
    BlockHalts, Event, HaltMechanism, IdleReason, Irqchip, Program, Vector, Vm, VmConfig, classify,
};

use super::kvm::{IRQCHIPS, LIMIT, running, turn, until};

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
    let Some(_turn) = turn("requests_are_answered_thousands_of_times_without_a_lost_wake_up")
    else {
        return;
    };
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip));
        ping(&vm, 0, 1..=2000);
        let mailbox = vm.mailbox(0).unwrap();
        assert_eq!(mailbox.requests.load(Ordering::Acquire), 2000, "{irqchip:?}: one each");
        vm.stop().unwrap();
    }
}

/// The client does not wait for the halt: interrupts come while the guest runs its handler, is about
/// to halt, is about to be entered.
#[test]
fn interrupts_at_any_moment_arrive_on_every_vcpu_with_ticks_between() {
    let Some(_turn) = turn("interrupts_at_any_moment_arrive_on_every_vcpu_with_ticks_between")
    else {
        return;
    };
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
    let Some(_turn) = turn("ticks_come_at_the_rate_that_was_asked_for") else { return };
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip).with_tick_hz(250));
        let mailbox = vm.mailbox(0).unwrap();
        let share = || {
            let (begin, before) = (Instant::now(), mailbox.ticks.load(Ordering::Acquire));
            std::thread::sleep(Duration::from_millis(300));
            let ticks = mailbox.ticks.load(Ordering::Acquire) - before;
            #[expect(clippy::cast_precision_loss, reason = "hundreds")]
            let ticks = ticks as f64;
            ticks / (begin.elapsed().as_secs_f64() * 250.0)
        };
        // A host that is busy makes one of several ticks now and then, but never more.
        let shares: Vec<f64> = (0..10).map(|_| share()).take_while(|s| *s < 0.9).collect();
        assert!(shares.len() < 10, "{irqchip:?}: {shares:?} of the ticks");
        let share = share();
        assert!(share < 1.1, "{irqchip:?}: {share} of the ticks");
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

    let Some(_turn) = turn("f17_every_idle_exit_blocks") else { return };
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
    let Some(_turn) = turn("f18_mechanism_follows_the_irqchip") else { return };
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

/// The kernel's own counter tells whether it polled, also on a busy host.
#[test]
fn kernel_halt_polling_follows_the_ceiling_at_run_time() {
    const TEST: &str = "kernel_halt_polling_follows_the_ceiling_at_run_time";
    let Some(_turn) = turn(TEST) else { return };
    for irqchip in [Irqchip::InKernel, Irqchip::Split] {
        let vm = running(VmConfig::new(Program::Idle, irqchip).with_tick_hz(1000));
        if vm.stats(0).is_none() {
            skipped::skip(TEST, "the kernel has no statistics of vCPUs");
            return;
        }
        let polls_with = |ceiling_ns| {
            vm.set_halt_poll_ns(ceiling_ns).unwrap();
            // The halt that is under way polls, or not, as before.
            std::thread::sleep(Duration::from_millis(20));
            let before = halt_polls(&vm);
            std::thread::sleep(Duration::from_millis(100));
            halt_polls(&vm) - before
        };
        for _ in 0..2 {
            // A ceiling above the tick's period: the window grows until it spans the halts.
            let polls = polls_with(4_000_000);
            assert!(polls > 0, "{irqchip:?} does not poll");
            assert_eq!(polls_with(0), 0, "{irqchip:?} goes on polling");
        }
        vm.stop().unwrap();
    }
}

/// `halt_attempted_poll` of vCPU 0, read as Documentation/virt/kvm/api.rst lays it out.
fn halt_polls(vm: &Vm) -> u64 {
    let file = vm.stats(0).unwrap();
    let bytes = |offset: u64, len: usize| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    };
    let word = |bytes: &[u8], at: usize| {
        u64::from(u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()))
    };
    // flags, name size, number of descriptors, offsets of ID, descriptors and data.
    let header = bytes(0, 24);
    let (name_size, count) = (word(&header, 4), word(&header, 8));
    let (descriptors, data) = (word(&header, 16), word(&header, 20));
    let size = 16 + name_size;
    for index in 0..count {
        let descriptor = bytes(descriptors + index * size, usize::try_from(size).unwrap());
        // flags, exponent and size, offset, bucket size, name.
        if descriptor[16..].starts_with(b"halt_attempted_poll\0") {
            let value = bytes(data + word(&descriptor, 8), 8);
            return u64::from_ne_bytes(value.try_into().unwrap());
        }
    }
    panic!("no halt_attempted_poll");
}

#[test]
fn halts_are_counted_and_the_handler_gets_each() {
    let Some(_turn) = turn("halts_are_counted_and_the_handler_gets_each") else { return };
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
    let Some(_turn) = turn("the_tick_can_be_changed_at_run_time") else { return };
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
            // Some may be on their way where the host is busy; fifteen would come in this time.
            until("no tick", &mailbox, || {
                let before = ticks();
                std::thread::sleep(Duration::from_millis(30));
                ticks() == before
            });
        }
        vm.stop().unwrap();
    }
}

#[test]
fn a_paused_vcpu_uses_no_cpu_and_forgets_no_interrupt() {
    let Some(_turn) = turn("a_paused_vcpu_uses_no_cpu_and_forgets_no_interrupt") else { return };
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
            // It says that it pauses just before it sleeps; a vCPU that spins uses all of the time.
            let used = vm.cpu_time(0).unwrap() - before;
            assert!(used < Duration::from_micros(500), "{irqchip:?}: {used:?}");
            vm.resume();
            until("an answer after the pause", &mailbox, || mailbox.answered() == round);
        }
        vm.pause().unwrap();
        vm.stop().unwrap();
    }
}

/// A vector that is injected must not be replaced by another before the guest took it.
#[test]
fn interrupts_from_two_sides_all_arrive() {
    let Some(_turn) = turn("interrupts_from_two_sides_all_arrive") else { return };
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Idle, irqchip));
        let (mailbox, interrupts) = (vm.mailbox(0).unwrap(), vm.interrupts());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for request in 1..=1000 {
                    mailbox.post(request);
                    interrupts.raise(0, Vector::Request).unwrap();
                    until("an answer", &mailbox, || mailbox.answered() == request);
                }
            });
            scope.spawn(|| {
                for round in 1..=1000 {
                    interrupts.raise(0, Vector::Tick).unwrap();
                    until("the tick", &mailbox, || mailbox.ticks.load(Ordering::Acquire) == round);
                }
            });
        });
        vm.stop().unwrap();
    }
}

/// Such a guest has to be interrupted, and that must work just before it is entered, too.
#[test]
fn interrupts_reach_a_guest_that_never_exits() {
    let Some(_turn) = turn("interrupts_reach_a_guest_that_never_exits") else { return };
    for irqchip in IRQCHIPS {
        let vm = running(VmConfig::new(Program::Count, irqchip));
        let (mailbox, interrupts) = (vm.mailbox(0).unwrap(), vm.interrupts());
        for round in (2..=200_u32).step_by(2) {
            for request in [round - 1, round] {
                mailbox.post(request);
                interrupts.raise(0, Vector::Request).unwrap();
                // Until the vCPU is on its way out of the guest, or in again.
                for _ in 0..10 * round {
                    std::hint::spin_loop();
                }
            }
            until("an answer", &mailbox, || mailbox.answered() == round);
        }
        vm.stop().unwrap();
    }
}
