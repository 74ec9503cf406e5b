// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Random sequences of every operation against a naive model: protects what each answers and what
//! it leaves alone.

#![cfg(not(loom))]
#![allow(missing_docs, clippy::unwrap_used)]

use proptest::prelude::*;
use vcpu_state::{
    AttachError, Kick, LoopState, OffCpu, OffCpuView, PreemptedIn, RunState, VcpuIndex, VcpuOwner,
    VcpuTable,
};

/// One vCPU as one would write it without threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Naive {
    owned: bool,
    state: LoopState,
    kick: bool,
    exit: bool,
    sleeping: bool,
}

impl Naive {
    fn post(&mut self, exit: bool) -> Kick {
        let bit = if exit { &mut self.exit } else { &mut self.kick };
        let before = std::mem::replace(bit, true);
        match (self.sleeping, before, self.state) {
            (true, ..) => Kick::WakeSleeper,
            (_, true, _) => Kick::Coalesced,
            (_, _, LoopState::InGuest) => Kick::InGuest,
            _ => Kick::Stored,
        }
    }

    /// The table in the documentation of `RunState::new`, the other way round.
    fn run_state(&self, off_cpu: OffCpu) -> RunState {
        let runs = matches!(self.state, LoopState::InGuest | LoopState::InVmm);
        match off_cpu {
            OffCpu::Preempted(within) if runs => RunState::Preempted(within),
            OffCpu::Blocked if runs => RunState::Blocked,
            OffCpu::WokenWaiting if runs || self.state == LoopState::Halted => {
                RunState::WokenWaiting
            }
            _ => match self.state {
                LoopState::Offline => RunState::Offline,
                LoopState::InGuest => RunState::InGuest,
                LoopState::InVmm => RunState::InVmm,
                LoopState::Yielding => RunState::Yielding,
                LoopState::Halted => RunState::Halted,
                LoopState::Paused => RunState::Paused,
                other => panic!("{other:?} is not in the model"),
            },
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Attach,
    Detach,
    Enter,
    Leave,
    BeginHalt,
    EndHalt,
    BeginYield,
    EndYield,
    Pause,
    Resume,
    TakeKick,
    TakeExitRequest,
    BeginSleep,
    EndSleep,
    Kick,
    KickWord,
    RequestExit,
    Observe(OffCpu),
}

fn off_cpu() -> impl Strategy<Value = OffCpu> {
    prop_oneof![
        Just(OffCpu::Unknown),
        Just(OffCpu::Running),
        Just(OffCpu::Blocked),
        Just(OffCpu::WokenWaiting),
        Just(OffCpu::Preempted(PreemptedIn::Unknown)),
        Just(OffCpu::Preempted(PreemptedIn::Kernel)),
        Just(OffCpu::Preempted(PreemptedIn::User)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        1 => Just(Op::Attach),
        1 => Just(Op::Detach),
        1 => Just(Op::Enter),
        1 => Just(Op::Leave),
        1 => Just(Op::BeginHalt),
        1 => Just(Op::EndHalt),
        1 => Just(Op::BeginYield),
        1 => Just(Op::EndYield),
        1 => Just(Op::Pause),
        1 => Just(Op::Resume),
        1 => Just(Op::TakeKick),
        1 => Just(Op::TakeExitRequest),
        1 => Just(Op::BeginSleep),
        1 => Just(Op::EndSleep),
        3 => Just(Op::Kick),
        1 => Just(Op::KickWord),
        2 => Just(Op::RequestExit),
        2 => off_cpu().prop_map(Op::Observe),
    ]
}

/// Sizes around the edges of words and of the table.
fn count() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(1_usize),
        Just(2),
        Just(63),
        Just(64),
        Just(65),
        Just(100),
        Just(4095),
        Just(4096)
    ]
}

/// Says the same of everybody.
struct Everybody(OffCpu);

impl OffCpuView for Everybody {
    fn state(&self, _vcpu: VcpuIndex) -> OffCpu {
        self.0
    }
}

fn apply<'a>(
    table: &'a VcpuTable,
    index: VcpuIndex,
    owner: &mut Option<VcpuOwner<&'a VcpuTable>>,
    naive: &mut Naive,
    op: Op,
) -> Result<(), TestCaseError> {
    // What anyone may do.
    match op {
        Op::Attach => {
            match table.attach(index) {
                Ok(new) => {
                    prop_assert!(!naive.owned);
                    *owner = Some(new);
                    *naive =
                        Naive { owned: true, state: LoopState::InVmm, sleeping: false, ..*naive };
                }
                Err(error) => {
                    prop_assert!(naive.owned);
                    let refused = AttachError::AlreadyAttached { index };
                    prop_assert_eq!(error, refused);
                }
            }
            return Ok(());
        }
        Op::Kick => {
            prop_assert_eq!(table.kick(index), Ok(naive.post(false)));
            return Ok(());
        }
        Op::KickWord => {
            // A wake word knows no guest.
            let expected = match naive.post(false) {
                Kick::InGuest => Kick::Stored,
                other => other,
            };
            prop_assert_eq!(table.wake_word(index).unwrap().kick(), expected);
            return Ok(());
        }
        Op::RequestExit => {
            prop_assert_eq!(table.request_exit(index), Ok(naive.post(true)));
            return Ok(());
        }
        Op::Observe(off_cpu) => {
            prop_assert_eq!(
                table.run_state(index, &Everybody(off_cpu)),
                Ok(naive.run_state(off_cpu))
            );
            return Ok(());
        }
        _ => {}
    }
    // What the owner may do.
    let Some(vcpu) = owner else { return Ok(()) };
    match op {
        Op::Detach => {
            *owner = None;
            naive.owned = false;
            naive.state = LoopState::Offline;
        }
        Op::Enter => {
            naive.state = LoopState::InGuest;
            let pending = vcpu.enter();
            prop_assert_eq!(pending.kick(), naive.kick);
            prop_assert_eq!(pending.exit_request(), naive.exit);
            prop_assert_eq!(pending.any(), naive.kick || naive.exit);
        }
        Op::Leave => {
            vcpu.leave();
            naive.state = LoopState::InVmm;
        }
        Op::BeginHalt => {
            vcpu.begin_halt();
            naive.state = LoopState::Halted;
        }
        Op::EndHalt => {
            vcpu.end_halt();
            naive.state = LoopState::InVmm;
        }
        Op::BeginYield => {
            vcpu.begin_yield();
            naive.state = LoopState::Yielding;
        }
        Op::EndYield => {
            vcpu.end_yield();
            naive.state = LoopState::InVmm;
        }
        Op::Pause => {
            vcpu.pause();
            naive.state = LoopState::Paused;
        }
        Op::Resume => {
            vcpu.resume();
            naive.state = LoopState::InVmm;
        }
        Op::TakeKick => {
            prop_assert_eq!(vcpu.take_kick(), naive.kick || naive.exit);
            naive.kick = false;
        }
        Op::TakeExitRequest => {
            prop_assert_eq!(vcpu.take_exit_request(), naive.exit);
            naive.exit = false;
        }
        Op::BeginSleep => {
            naive.sleeping = !(naive.kick || naive.exit);
            prop_assert_eq!(vcpu.wake_word().begin_sleep(), naive.sleeping);
        }
        Op::EndSleep => {
            vcpu.wake_word().end_sleep();
            naive.sleeping = false;
        }
        other => panic!("{other:?} is handled above"),
    }
    Ok(())
}

proptest! {
    #[test]
    fn answers_as_the_naive_model_does(
        count in count(),
        ops in prop::collection::vec((0..3_usize, op()), 1..200),
    ) {
        let table = VcpuTable::new(count).unwrap();
        // The ends and the middle; the same vCPU in small tables.
        let mut places: Vec<usize> = vec![0, count / 2, count - 1];
        places.dedup();
        let mut vcpus: Vec<_> = places
            .iter()
            .map(|&place| (table.index(place).unwrap(), None, Naive::default()))
            .collect();
        let used = vcpus.len();
        for (which, op) in ops {
            let (index, owner, naive) = &mut vcpus[which % used];
            apply(&table, *index, owner, naive, op)?;
        }
        // Nothing was said of the others, and of these what the model says.
        prop_assert_eq!(table.snapshot().len(), count);
        for (position, said) in table.snapshot().enumerate() {
            prop_assert_eq!(said.index.get(), position);
            let naive = vcpus
                .iter()
                .find(|(index, ..)| *index == said.index)
                .map(|(_, _, naive)| *naive)
                .unwrap_or_default();
            prop_assert_eq!(said.state, naive.state);
            prop_assert_eq!(said.pending.kick(), naive.kick);
            prop_assert_eq!(said.pending.exit_request(), naive.exit);
            prop_assert_eq!(said.sleeping, naive.sleeping);
        }
    }
}
