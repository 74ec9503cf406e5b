// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What one thread can see of a table: owners, kicks that stick, the union of the two halves.

#![cfg(not(loom))]
#![allow(missing_docs, clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use vcpu_state::{
    AttachError, Kick, LoopState, NoObserver, OffCpu, OffCpuView, PreemptedIn, RunState, VcpuIndex,
    VcpuOwner, VcpuTable,
};

fn one() -> (VcpuTable, VcpuIndex) {
    (VcpuTable::new(1).unwrap(), VcpuIndex::new(0).unwrap())
}

#[test]
fn a_second_owner_is_refused_until_the_first_is_gone() {
    let table = VcpuTable::new(2).unwrap();
    let (zero, one) = (table.index(0).unwrap(), table.index(1).unwrap());
    let first = table.attach(zero).unwrap();
    let error = table.attach(zero).unwrap_err();
    assert!(matches!(error, AttachError::AlreadyAttached { index, .. } if index == zero));
    assert_eq!(error.to_string(), "vCPU 0 has an owner already");
    assert_eq!(table.loop_state(zero), Ok(LoopState::InVmm), "the refused one changed nothing");
    assert!(table.attach(one).is_ok(), "another vCPU is not concerned");
    drop(first);
    assert_eq!(table.loop_state(zero), Ok(LoopState::Offline));
    assert_eq!(table.attach(zero).unwrap().index(), zero);
}

#[test]
fn an_owner_keeps_its_table_alive_and_goes_to_its_thread() {
    let (table, index) = one();
    let table = Arc::new(table);
    let mut owner = VcpuOwner::attach(Arc::clone(&table), index).unwrap();
    drop(table);
    std::thread::spawn(move || {
        let _ = owner.enter();
        assert_eq!(owner.table().kick(index), Ok(Kick::InGuest));
        assert!(owner.take_kick());
    })
    .join()
    .unwrap();
    let (table, index) = one();
    assert!(VcpuOwner::attach(Rc::new(table), index).is_ok());
}

/// Fails if `Drop` is left out, or `attach` leaves the sleep of an unwound owner.
#[test]
fn an_owner_that_unwinds_out_of_a_sleep_leaves_nothing_behind() {
    let (table, index) = one();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let owner = table.attach(index).unwrap();
        assert!(owner.wake_word().begin_sleep());
        panic!("in the middle of it");
    }));
    assert!(unwound.is_err());
    assert_eq!(table.loop_state(index), Ok(LoopState::Offline));
    let _owner = table.attach(index).unwrap();
    assert_eq!(table.kick(index), Ok(Kick::Stored), "nobody sleeps");
}

#[test]
fn f61_a_kick_sticks_whatever_the_vcpu_does() {
    let (table, index) = one();
    let pending = || table.snapshot().next().unwrap().pending.kick();
    assert_eq!(table.kick(index), Ok(Kick::Stored));
    assert!(pending(), "offline");
    let mut owner = table.attach(index).unwrap();
    assert!(owner.enter().kick(), "said on entry");
    owner.leave();
    owner.pause();
    owner.resume();
    owner.begin_yield();
    owner.end_yield();
    assert!(!owner.take_exit_request());
    drop(owner);
    let mut owner = table.attach(index).unwrap();
    owner.begin_halt();
    assert!(!owner.wake_word().begin_sleep(), "the halt does not sleep");
    assert!(owner.wake_word().take());
    owner.end_halt();
    assert!(!pending());
}

#[test]
fn f62_any_number_of_kicks_are_one_wake_up() {
    let (table, index) = one();
    let mut owner = table.attach(index).unwrap();
    let _ = owner.enter();
    assert_eq!(table.kick(index), Ok(Kick::InGuest));
    for _ in 0..1000 {
        assert_eq!(table.kick(index), Ok(Kick::Coalesced));
    }
    owner.leave();
    assert!(owner.wake_word().take());
    assert!(!owner.wake_word().take());
    assert!(owner.wake_word().begin_sleep(), "the next halt sleeps");
}

/// Fails if kicks and exit requests coalesce with each other.
#[test]
fn a_kick_that_waits_for_a_halt_does_not_swallow_a_request_to_exit() {
    let (table, index) = one();
    let mut owner = table.attach(index).unwrap();
    assert_eq!(table.kick(index), Ok(Kick::Stored));
    let pending = owner.enter();
    assert!(pending.kick() && !pending.exit_request(), "the guest may run");
    assert_eq!(table.request_exit(index), Ok(Kick::InGuest), "a signal is due");
    assert_eq!(table.request_exit(index), Ok(Kick::Coalesced), "one");
    assert_eq!(table.kick(index), Ok(Kick::Coalesced), "a kick does not undo it");
    owner.leave();
    assert!(owner.take_exit_request());
    assert!(!owner.take_exit_request());
    assert!(owner.take_kick(), "the kick is still there");
    assert!(!owner.pending().any());
}

#[test]
fn every_kicker_is_told_to_wake_a_sleeper() {
    let (table, index) = one();
    let owner = table.attach(index).unwrap();
    assert!(owner.wake_word().begin_sleep());
    assert_eq!(table.kick(index), Ok(Kick::WakeSleeper));
    assert_eq!(table.kick(index), Ok(Kick::WakeSleeper), "the first may have been preempted");
    assert_eq!(table.request_exit(index), Ok(Kick::WakeSleeper));
    owner.wake_word().end_sleep();
    assert_eq!(table.kick(index), Ok(Kick::Coalesced), "awake");
}

struct Everybody(OffCpu);

impl OffCpuView for Everybody {
    fn state(&self, _vcpu: VcpuIndex) -> OffCpu {
        self.0
    }
}

/// The whole truth table of `RunState::new`, through the table: a column per observer's word.
#[test]
fn the_run_state_is_the_union_of_both_halves() {
    use PreemptedIn::{Kernel, Unknown, User};
    let columns = [
        OffCpu::Unknown,
        OffCpu::Running,
        OffCpu::Preempted(Unknown),
        OffCpu::Preempted(Kernel),
        OffCpu::Preempted(User),
        OffCpu::WokenWaiting,
        OffCpu::Blocked,
    ];
    let all = |state: RunState| [state; 7];
    let running = |state: RunState| {
        [
            state,
            state,
            RunState::Preempted(Unknown),
            RunState::Preempted(Kernel),
            RunState::Preempted(User),
            RunState::WokenWaiting,
            RunState::Blocked,
        ]
    };
    let mut halted = all(RunState::Halted);
    halted[5] = RunState::WokenWaiting;

    let (table, index) = one();
    let check = |row: [RunState; 7]| {
        for (off_cpu, expected) in columns.into_iter().zip(row) {
            assert_eq!(table.run_state(index, &Everybody(off_cpu)), Ok(expected), "{off_cpu:?}");
        }
        assert_eq!(table.run_state(index, &NoObserver), Ok(row[0]), "the loop's word");
    };
    check(all(RunState::Offline));
    let mut owner = table.attach(index).unwrap();
    check(running(RunState::InVmm));
    let _ = owner.enter();
    check(running(RunState::InGuest));
    owner.leave();
    check(running(RunState::InVmm));
    owner.begin_yield();
    check(all(RunState::Yielding));
    owner.end_yield();
    owner.begin_halt();
    check(halted);
    owner.end_halt();
    check(running(RunState::InVmm));
    owner.pause();
    check(all(RunState::Paused));
    owner.resume();
    check(running(RunState::InVmm));
    drop(owner);
    check(all(RunState::Offline));
}

/// F67: a guest that hangs has to be explained from one print.
#[test]
fn f67_the_dump_shows_state_kick_and_sleep_of_every_vcpu() {
    let table = VcpuTable::new(3).unwrap();
    let mut running = table.attach(table.index(0).unwrap()).unwrap();
    let mut halted = table.attach(table.index(2).unwrap()).unwrap();
    let _ = running.enter();
    halted.begin_halt();
    assert!(halted.wake_word().begin_sleep());
    assert_eq!(table.kick(halted.index()), Ok(Kick::WakeSleeper));
    let preempted = Everybody(OffCpu::Preempted(PreemptedIn::Kernel));
    let dump: Vec<_> = table
        .snapshot()
        .map(|vcpu| {
            let RunState::Preempted(_) = vcpu.run_state(&preempted) else {
                return (vcpu.index.get(), false, vcpu.pending.kick(), vcpu.sleeping);
            };
            (vcpu.index.get(), true, vcpu.pending.kick(), vcpu.sleeping)
        })
        .collect();
    assert_eq!(dump, [(0, true, false, false), (1, false, false, false), (2, false, true, true)]);
    let print = format!("{table:?}");
    for part in ["InGuest", "Offline", "Halted", "sleeping: true", "kick: true"] {
        assert!(print.contains(part), "{part} is not in {print}");
    }
}
