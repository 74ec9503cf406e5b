// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `VcpuTable` on one thread against a naive model: what each answer has to be when calls do not
//! overlap. What happens when they do is for the loom models.

use arbitrary::{Result, Unstructured};
use vcpu_state::{
    AttachError, Kick, LoopState, MAX_VCPUS, NoObserver, RunState, VcpuOwner, VcpuTable,
};

use crate::seed::{Bytes, Seed};

/// Something that somebody does to a vCPU.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Attach,
    Detach,
    Kick,
    RequestExit,
    TakeKick,
    TakeExitRequest,
    BeginSleep,
    EndSleep,
    /// The owner says what it does.
    Say(LoopState),
}

impl Call {
    fn read(input: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match input.arbitrary::<u8>()? % 16 {
            0 => Self::Attach,
            1 => Self::Detach,
            2 | 3 => Self::Kick,
            4 | 5 => Self::RequestExit,
            6 => Self::TakeKick,
            7 => Self::TakeExitRequest,
            8 => Self::BeginSleep,
            9 => Self::EndSleep,
            10 | 11 => Self::Say(LoopState::InGuest),
            12 => Self::Say(LoopState::Halted),
            13 => Self::Say(LoopState::Yielding),
            14 => Self::Say(LoopState::Paused),
            _ => Self::Say(LoopState::InVmm),
        })
    }
}

/// One vCPU as it should be.
#[derive(Clone, Debug)]
struct Model {
    owned: bool,
    state: LoopState,
    kick: bool,
    exit: bool,
    sleeping: bool,
}

impl Model {
    /// What a kicker is told if `was_pending` says whether the same was pending before.
    fn answer(&self, was_pending: bool) -> Kick {
        if self.sleeping {
            Kick::WakeSleeper
        } else if was_pending {
            Kick::Coalesced
        } else if self.state == LoopState::InGuest {
            Kick::InGuest
        } else {
            Kick::Stored
        }
    }
}

/// Runs one input.
///
/// # Panics
///
/// Where the code under test and the model differ.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let count = usize::from(input.arbitrary::<u8>().unwrap_or(0));
    let Ok(table) = VcpuTable::new(count) else {
        assert!(count == 0 || count > MAX_VCPUS);
        return;
    };
    assert_eq!((table.len(), table.words()), (count, count.div_ceil(64)));
    let offline = Model {
        owned: false,
        state: LoopState::Offline,
        kick: false,
        exit: false,
        sleeping: false,
    };
    let mut models = vec![offline; count];
    let mut owners: Vec<Option<VcpuOwner<&VcpuTable>>> = (0..count).map(|_| None).collect();

    while !input.is_empty() {
        let number = usize::from(input.arbitrary::<u8>().unwrap_or(0));
        let Ok(call) = Call::read(&mut input) else { break };
        let Ok(index) = table.index(number) else {
            assert!(number >= count);
            continue;
        };
        let (model, owner) = (&mut models[number], &mut owners[number]);
        match call {
            Call::Attach => match table.attach(index) {
                Ok(new) => {
                    assert!(!model.owned, "two owners of {index:?}");
                    *owner = Some(new);
                    (model.owned, model.state, model.sleeping) = (true, LoopState::InVmm, false);
                }
                Err(AttachError::AlreadyAttached { .. }) => assert!(model.owned),
                Err(error) => panic!("{error}"),
            },
            Call::Detach => {
                if owner.take().is_some() {
                    (model.owned, model.state) = (false, LoopState::Offline);
                }
            }
            Call::Kick => {
                let answer = model.answer(model.kick);
                model.kick = true;
                assert_eq!(table.kick(index), Ok(answer), "{model:?}");
            }
            Call::RequestExit => {
                let answer = model.answer(model.exit);
                model.exit = true;
                assert_eq!(table.request_exit(index), Ok(answer), "{model:?}");
            }
            _ => {
                if let Some(owner) = owner {
                    act(owner, call, model);
                }
            }
        }
        check(&table, &models);
    }
}

/// What only an owner does.
fn act(owner: &mut VcpuOwner<&VcpuTable>, call: Call, model: &mut Model) {
    match call {
        Call::TakeKick => {
            // An exit request is a reason to end a halt too, and stays.
            assert_eq!(owner.take_kick(), model.kick || model.exit);
            model.kick = false;
        }
        Call::TakeExitRequest => {
            assert_eq!(owner.take_exit_request(), model.exit);
            model.exit = false;
        }
        Call::BeginSleep => {
            model.sleeping = !(model.kick || model.exit);
            assert_eq!(owner.wake_word().begin_sleep(), model.sleeping);
        }
        Call::EndSleep => {
            owner.wake_word().end_sleep();
            model.sleeping = false;
        }
        Call::Say(state) => {
            match state {
                LoopState::InGuest => {
                    let pending = owner.enter();
                    assert_eq!((pending.kick(), pending.exit_request()), (model.kick, model.exit));
                }
                LoopState::Halted => owner.begin_halt(),
                LoopState::Yielding => owner.begin_yield(),
                LoopState::Paused => owner.pause(),
                // The four ways back say the same.
                _ => match model.state {
                    LoopState::Halted => owner.end_halt(),
                    LoopState::Yielding => owner.end_yield(),
                    LoopState::Paused => owner.resume(),
                    _ => owner.leave(),
                },
            }
            model.state = state;
        }
        Call::Attach | Call::Detach | Call::Kick | Call::RequestExit => {}
    }
}

/// Every vCPU is as its model says: a call changes nobody else's state.
fn check(table: &VcpuTable, models: &[Model]) {
    for (snapshot, model) in table.snapshot().zip(models) {
        assert_eq!(snapshot.state, model.state, "{snapshot:?} {model:?}");
        assert_eq!(snapshot.pending.kick(), model.kick, "{snapshot:?} {model:?}");
        assert_eq!(snapshot.pending.exit_request(), model.exit, "{snapshot:?} {model:?}");
        assert_eq!(snapshot.sleeping, model.sleeping, "{snapshot:?} {model:?}");
        let expected = match model.state {
            LoopState::InGuest => RunState::InGuest,
            LoopState::InVmm => RunState::InVmm,
            LoopState::Halted => RunState::Halted,
            LoopState::Yielding => RunState::Yielding,
            LoopState::Paused => RunState::Paused,
            _ => RunState::Offline,
        };
        assert_eq!(table.run_state(snapshot.index, &NoObserver), Ok(expected));
    }
}

/// Inputs that reach what is worth reaching.
pub fn seeds() -> Vec<Seed> {
    let calls = |vcpus: u8, vcpu: u8, calls: &[u8]| {
        calls.iter().fold(Bytes::default().u8(vcpus), |bytes, call| bytes.u8(vcpu).u8(*call))
    };
    vec![
        Bytes::default().u8(0).named("no_vcpus"),
        calls(2, 1, &[0, 10, 2, 2, 15, 12, 8, 6, 8, 2, 9, 6, 15, 1, 2]).named("kick_in_a_halt"),
        calls(1, 0, &[0, 2, 4, 6, 6, 8, 7, 7, 8, 9]).named("exit_request_outlives_a_kick"),
        calls(1, 0, &[0, 10, 4, 4, 15, 7, 14, 15, 13, 15]).named("exit_request_in_the_guest"),
        calls(1, 0, &[0, 0, 8, 1, 2, 0, 6, 1, 1]).named("a_new_owner_is_awake"),
        calls(200, 255, &[0, 2]).named("no_such_vcpu"),
        calls(65, 64, &[0, 12, 8, 4, 2, 9]).named("second_word"),
    ]
}
