// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Every interleaving, and every reordering that the memory model allows, of small scenes with the
//! shipped code: `RUSTFLAGS="--cfg loom" cargo test -p vcpu-state --release --test loom`.
//!
//! loom treats sequentially consistent accesses as acquire and release ones; the code relies on
//! `fence(SeqCst)` alone, which loom models. A scene in which somebody sleeps for ever is reported
//! as a deadlock. Each scene was seen to fail under the change of the code that its comment names.

#![cfg(loom)]
#![allow(missing_docs, clippy::unwrap_used)]

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use vcpu_state::{
    Kick, LoopState, NoObserver, RunState, VcpuIndex, VcpuOwner, VcpuTable, WakeWord,
};

/// Three threads have too many interleavings to try all: those with at most two preemptions (a
/// blocked thread's switch is none) find every change that the scenes are there to find.
fn model_of_three(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(scene);
}

/// What the kernel's futex does, and no more: looks at the word and goes to sleep in one step as
/// seen by a waker. The load may be as stale as the memory model permits.
#[derive(Default)]
struct Futex {
    bucket: Mutex<()>,
    sleepers: Condvar,
}

impl Futex {
    fn wait(&self, word: &WakeWord) {
        let bucket = self.bucket.lock().unwrap();
        if word.word().load(Ordering::Relaxed) == 0 {
            drop(self.sleepers.wait(bucket).unwrap());
        }
    }

    fn wake(&self) {
        let _bucket = self.bucket.lock().unwrap();
        self.sleepers.notify_one();
    }

    /// Acts on the answer to a kick as a kicker has to.
    fn arrive(&self, kick: Kick) {
        if kick == Kick::WakeSleeper {
            self.wake();
        }
    }
}

/// One vCPU and what its threads share.
struct Scene {
    table: VcpuTable,
    futex: Futex,
    /// What kickers write before they kick: one cell each.
    data: [AtomicUsize; 2],
}

fn scene() -> Arc<Scene> {
    Arc::new(Scene {
        table: VcpuTable::new(1).unwrap(),
        futex: Futex::default(),
        data: [AtomicUsize::new(0), AtomicUsize::new(0)],
    })
}

fn vcpu() -> VcpuIndex {
    VcpuIndex::new(0).unwrap()
}

impl Scene {
    fn attach(&self) -> VcpuOwner<&VcpuTable> {
        self.table.attach(vcpu()).unwrap()
    }

    fn publish(&self, cell: usize) {
        self.data[cell].store(1, Ordering::Relaxed);
    }

    fn published(&self, cell: usize) -> bool {
        self.data[cell].load(Ordering::Relaxed) == 1
    }

    fn kick(&self) -> Kick {
        self.table.kick(vcpu()).unwrap()
    }

    fn request_exit(&self) -> Kick {
        self.table.request_exit(vcpu()).unwrap()
    }

    /// Halts, as a driver without polling does, until a kick was taken.
    fn halt(&self, owner: &mut VcpuOwner<&VcpuTable>) {
        owner.begin_halt();
        while !owner.wake_word().take() {
            if owner.wake_word().begin_sleep() {
                self.futex.wait(owner.wake_word());
                owner.wake_word().end_sleep();
            }
        }
        owner.end_halt();
    }
}

/// Fails without the fence in `post` and without that in `begin_sleep`.
#[test]
fn f61_a_kick_ends_the_halt_whenever_it_comes() {
    loom::model(|| {
        let scene = scene();
        let kicker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.futex.arrive(scene.kick()))
        };
        let mut owner = scene.attach();
        scene.halt(&mut owner);
        assert!(!owner.pending().any());
        kicker.join().unwrap();
    });
}

/// The sleeper cannot look at the word itself, as a futex does: it waits to be told (an eventfd, a
/// thread that parks). Fails as above, and if `begin_sleep` looks before it announces.
#[test]
fn f68_a_sleeper_that_looks_at_nothing_is_told() {
    loom::model(|| {
        let scene = scene();
        let told = Arc::new((Mutex::new(false), Condvar::new()));
        let kicker = {
            let (scene, told) = (Arc::clone(&scene), Arc::clone(&told));
            thread::spawn(move || {
                if scene.kick() == Kick::WakeSleeper {
                    *told.0.lock().unwrap() = true;
                    told.1.notify_one();
                }
            })
        };
        let owner = scene.attach();
        if owner.wake_word().begin_sleep() {
            let mut woken = told.0.lock().unwrap();
            while !*woken {
                woken = told.1.wait(woken).unwrap();
            }
            owner.wake_word().end_sleep();
        }
        assert!(owner.wake_word().take());
        kicker.join().unwrap();
    });
}

/// F68: what was pending before the waiter armed is found after it.
#[test]
fn f68_a_kick_to_a_running_vcpu_ends_its_next_halt() {
    loom::model(|| {
        let scene = scene();
        let kicker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.futex.arrive(scene.kick()))
        };
        let mut owner = scene.attach();
        let _ = owner.enter();
        owner.leave();
        scene.halt(&mut owner);
        kicker.join().unwrap();
    });
}

/// Fails if a kick that finds one pending does nothing but a load (its data is published to
/// nobody), and if `take` or `post` is relaxed.
#[test]
fn f62_two_kicks_coalesce_and_the_data_of_both_is_seen() {
    model_of_three(|| {
        let scene = scene();
        let kickers = [0, 1].map(|cell| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.publish(cell);
                scene.futex.arrive(scene.kick());
            })
        });
        let mut owner = scene.attach();
        let mut halts = 0;
        while !(scene.published(0) && scene.published(1)) {
            scene.halt(&mut owner);
            halts += 1;
        }
        assert!(halts <= 2, "more wake-ups than kicks");
        for kicker in kickers {
            kicker.join().unwrap();
        }
    });
}

/// The first kicker stores its kick and is preempted for good before it wakes anybody. Fails if a
/// coalesced kick does not look for a sleeper, or looks without the fence.
#[test]
fn a_stalled_kicker_does_not_hold_up_the_next_one() {
    model_of_three(|| {
        let scene = scene();
        let stalled = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                let _ = scene.kick();
            })
        };
        let kicker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.publish(0);
                scene.futex.arrive(scene.kick());
            })
        };
        let mut owner = scene.attach();
        while !scene.published(0) {
            scene.halt(&mut owner);
        }
        stalled.join().unwrap();
        kicker.join().unwrap();
    });
}

/// Fails without the fence in `enter`, without that in `post`, and if `enter` looks before it says.
#[test]
fn a_request_finds_the_guest_or_the_guest_finds_it() {
    loom::model(|| {
        let scene = scene();
        let requester = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.publish(0);
                scene.request_exit()
            })
        };
        let mut owner = scene.attach();
        let found = owner.enter().exit_request();
        if found {
            owner.leave();
            assert!(owner.take_exit_request());
            assert!(scene.published(0));
        }
        let answer = requester.join().unwrap();
        assert!(found || answer == Kick::InGuest, "{answer:?}: the guest runs on");
    });
}

/// As above for kicks, of VMMs that look at them before they enter.
#[test]
fn a_kick_finds_the_guest_or_the_guest_finds_it() {
    loom::model(|| {
        let scene = scene();
        let kicker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.kick())
        };
        let mut owner = scene.attach();
        let found = owner.enter().kick();
        let answer = kicker.join().unwrap();
        assert!(found || answer == Kick::InGuest, "{answer:?}: the guest runs on");
        assert!(owner.take_kick());
    });
}

/// Fails if a coalesced request answers `InGuest` too.
#[test]
fn a_running_guest_gets_one_signal_for_two_requests() {
    model_of_three(|| {
        let scene = scene();
        let requesters = [0, 1].map(|_| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.request_exit())
        });
        let mut owner = scene.attach();
        let found = owner.enter().exit_request();
        let signals = requesters
            .map(|requester| requester.join().unwrap())
            .iter()
            .filter(|&&answer| answer == Kick::InGuest)
            .count();
        assert!(signals <= 1, "{signals} signals");
        assert!(found || signals == 1, "the guest runs on");
    });
}

/// Fails if kicks and requests coalesce with each other.
#[test]
fn a_kick_does_not_swallow_a_request() {
    model_of_three(|| {
        let scene = scene();
        let kicker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.kick())
        };
        let requester = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.request_exit())
        };
        let mut owner = scene.attach();
        let found = owner.enter().exit_request();
        let _ = kicker.join().unwrap();
        let answer = requester.join().unwrap();
        assert!(found || answer == Kick::InGuest, "{answer:?}: the guest runs on");
        assert!(owner.take_exit_request());
        assert!(owner.pending().kick(), "the kick waits for a halt");
    });
}

/// Fails if a halt takes the exit request with the kick.
#[test]
fn a_request_ends_a_halt_and_outlives_it() {
    loom::model(|| {
        let scene = scene();
        let requester = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.futex.arrive(scene.request_exit()))
        };
        let mut owner = scene.attach();
        scene.halt(&mut owner);
        assert!(owner.enter().exit_request());
        owner.leave();
        assert!(owner.take_exit_request());
        requester.join().unwrap();
    });
}

/// A request that comes while the previous one is handled is not lost with it: the owner takes,
/// looks, and enters. Fails if `take_exit_request` is relaxed or clears after the look.
#[test]
fn a_request_during_the_handling_of_another_is_kept() {
    model_of_three(|| {
        let scene = scene();
        let requesters = [0, 1].map(|cell| {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.publish(cell);
                scene.request_exit()
            })
        });
        let mut owner = scene.attach();
        let mut seen = [false; 2];
        // Enters until nothing is pending; then the guest runs, and a signal has to be on its way
        // for whatever was not seen.
        while owner.enter().exit_request() {
            owner.leave();
            assert!(owner.take_exit_request());
            seen = [scene.published(0), scene.published(1)];
        }
        let answers = requesters.map(|requester| requester.join().unwrap());
        let signalled = answers.contains(&Kick::InGuest);
        assert!(seen == [true; 2] || signalled, "{seen:?} {answers:?}: the guest runs on");
    });
}

/// What `WakeSource::is_pending` promises. Fails if `pending` or `post` is relaxed.
#[test]
fn who_sees_a_kick_sees_its_data_before_taking_it() {
    loom::model(|| {
        let scene = scene();
        let kicker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || {
                scene.publish(0);
                scene.kick()
            })
        };
        let owner = scene.attach();
        if owner.wake_word().is_kicked() {
            assert!(scene.published(0));
        }
        let _ = kicker.join().unwrap();
    });
}

/// Fails if the state is stored or loaded relaxed.
#[test]
fn who_sees_the_pause_sees_what_came_before_it() {
    loom::model(|| {
        let scene = scene();
        let observer = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || match scene.table.run_state(vcpu(), &NoObserver).unwrap() {
                RunState::Paused => assert!(scene.published(0)),
                state => assert!([RunState::Offline, RunState::InVmm].contains(&state)),
            })
        };
        let mut owner = scene.attach();
        scene.publish(0);
        owner.pause();
        observer.join().unwrap();
    });
}

/// Two threads count the times they owned the vCPU, with plain loads and stores. Fails if the claim
/// is not a compare-and-exchange, or if it or its release is relaxed.
#[test]
fn a_vcpu_has_one_owner_at_a_time() {
    loom::model(|| {
        let scene = scene();
        let work = |scene: &Scene| {
            let Ok(_owner) = scene.table.attach(vcpu()) else { return 0 };
            let before = scene.data[0].load(Ordering::Relaxed);
            scene.data[0].store(before + 1, Ordering::Relaxed);
            1
        };
        let other = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || work(&scene))
        };
        let owned = work(&scene) + other.join().unwrap();
        assert!(owned >= 1);
        assert_eq!(scene.data[0].load(Ordering::Relaxed), owned);
        assert_eq!(scene.table.loop_state(vcpu()).unwrap(), LoopState::Offline);
    });
}

/// Fails if attaching or detaching clears what is pending.
#[test]
fn a_kick_outlives_a_change_of_owners() {
    loom::model(|| {
        let scene = scene();
        let kicker = {
            let scene = Arc::clone(&scene);
            thread::spawn(move || scene.futex.arrive(scene.kick()))
        };
        let mut first = scene.attach();
        let _ = first.enter();
        drop(first);
        let mut second = scene.attach();
        scene.halt(&mut second);
        kicker.join().unwrap();
    });
}
