// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Threads at full speed, on real memory: protects what the loom models cannot reach (long runs,
//! the compiler's and this CPU's own reordering). Nobody makes a system call to wait but yield.

#![cfg(not(loom))]
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vcpu_state::{IndexError, Kick, VcpuIndex, VcpuOwner, VcpuTable};

/// Kicks and exit requests in total, roughly.
const KICKS: u64 = 2_000_000;
/// Rounds in step, for each hand-shake, unless the host is so busy that they take too long.
const RACES: u64 = 1_000_000;
const RACE_TIME: Duration = Duration::from_secs(4);
const BURST: u64 = 32;
/// Far beyond what the run takes: only a lost wake-up gets here.
const HANG: Duration = Duration::from_secs(120);

/// What a sleeper and a guest wait for: not the wake word, but to be told. A kicker that does not
/// tell leaves them waiting.
#[derive(Default)]
struct Told(AtomicBool);

impl Told {
    fn tell(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn wait(&self, what: &str, table: &VcpuTable) {
        yield_until(what, table, || self.0.swap(false, Ordering::Acquire));
    }
}

fn yield_until(what: &str, table: &VcpuTable, done: impl Fn() -> bool) {
    let mut started = None;
    loop {
        for _ in 0..10_000 {
            if done() {
                return;
            }
            thread::yield_now();
        }
        let started = *started.get_or_insert_with(Instant::now);
        assert!(started.elapsed() < HANG, "{what} waits for ever: {table:?}");
    }
}

/// One kind of kicker: it says how many kicks it sent, and waits from time to time until the loop
/// has seen that.
#[derive(Default)]
struct Stream {
    sent: AtomicU64,
    seen: AtomicU64,
}

impl Stream {
    /// The loop: after a wake-up, looks at what it was for.
    fn look(&self) {
        self.seen.store(self.sent.load(Ordering::Relaxed), Ordering::Release);
    }
}

struct Vm {
    table: VcpuTable,
    vcpu: VcpuIndex,
    /// The futex of a halted vCPU, and the signal to a running one.
    wake: Told,
    signal: Told,
    kicks: Stream,
    requests: Stream,
    stop: AtomicBool,
    /// The number of the last request, once it is known.
    last: AtomicU64,
}

impl Vm {
    fn arrive(&self, kick: Kick, wants_exit: bool) {
        match kick {
            Kick::WakeSleeper => self.wake.tell(),
            Kick::InGuest if wants_exit => self.signal.tell(),
            _ => {}
        }
    }

    fn kick_many(&self) {
        for kick in 1..=KICKS / 2 {
            self.kicks.sent.store(kick, Ordering::Relaxed);
            self.arrive(self.table.kick(self.vcpu).unwrap(), false);
            if kick % BURST == 0 {
                yield_until("a kicker", &self.table, || {
                    self.kicks.seen.load(Ordering::Acquire) >= kick
                });
            }
        }
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Until the kicker is done: who else gets the vCPU out of the guest?
    fn request_many(&self) {
        for request in 1.. {
            let last = self.stop.load(Ordering::Relaxed);
            if last {
                self.last.store(request, Ordering::Relaxed);
            }
            self.requests.sent.store(request, Ordering::Relaxed);
            self.arrive(self.table.request_exit(self.vcpu).unwrap(), true);
            if last || request % BURST == 0 {
                yield_until("a requester", &self.table, || {
                    self.requests.seen.load(Ordering::Acquire) >= request
                });
            }
            if last {
                return;
            }
        }
    }

    /// Runs the guest until it is signalled, unless somebody wants it out already.
    fn run(&self, owner: &mut VcpuOwner<&VcpuTable>) {
        if !owner.enter().exit_request() {
            self.signal.wait("a guest", &self.table);
        }
        owner.leave();
        if owner.take_exit_request() {
            self.requests.look();
        }
    }

    fn halt(&self, owner: &mut VcpuOwner<&VcpuTable>) {
        owner.begin_halt();
        while !owner.wake_word().take() {
            if owner.wake_word().begin_sleep() {
                self.wake.wait("a halted vCPU", &self.table);
                owner.wake_word().end_sleep();
            }
        }
        owner.end_halt();
        self.kicks.look();
    }
}

/// F61 under load: 2 million kicks and requests, none of which may be lost. Fails if a kick that
/// finds a sleeper, or a request that finds the guest, does not say so.
#[test]
fn f61_millions_of_kicks_and_requests_arrive() {
    let table = VcpuTable::new(1).unwrap();
    let vm = Vm {
        vcpu: table.index(0).unwrap(),
        table,
        wake: Told::default(),
        signal: Told::default(),
        kicks: Stream::default(),
        requests: Stream::default(),
        stop: AtomicBool::new(false),
        last: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let kicker = scope.spawn(|| vm.kick_many());
        let requester = scope.spawn(|| vm.request_many());
        let mut owner = vm.table.attach(vm.vcpu).unwrap();
        let mut rounds = 0_u64;
        loop {
            vm.run(&mut owner);
            rounds += 1;
            let last = vm.last.load(Ordering::Relaxed);
            if last != 0 && vm.requests.seen.load(Ordering::Relaxed) == last {
                break;
            }
            vm.halt(&mut owner);
        }
        kicker.join().unwrap();
        requester.join().unwrap();
        assert!(rounds >= KICKS / 2 / BURST, "a wake-up for each burst at least: {rounds}");
    });
}

/// Two threads in step, a few nanoseconds apart, so that they meet in the middle of a hand-shake.
struct Step {
    arrived: [AtomicU64; 2],
}

impl Step {
    fn meet(&self, me: usize, round: u64, table: &VcpuTable) {
        self.arrived[me].store(round, Ordering::Release);
        let met = || self.arrived[1 - me].load(Ordering::Acquire) >= round;
        for _ in 0..1000 {
            if met() {
                return;
            }
            spin_loop();
        }
        yield_until("a thread in step", table, met);
    }

    /// Another distance each round (xorshift).
    fn skew(seed: &mut u64) {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        for _ in 0..*seed % 512 {
            black_box(());
        }
    }
}

/// Races `say_and_look` of the owner with `kick`, and hands both outcomes to `check`.
fn race<T>(
    say_and_look: impl Fn(&mut VcpuOwner<&VcpuTable>) -> T,
    kick: fn(&VcpuTable, VcpuIndex) -> Result<Kick, IndexError>,
    check: impl Fn(&mut VcpuOwner<&VcpuTable>, T, Kick),
) {
    let table = VcpuTable::new(1).unwrap();
    let index = table.index(0).unwrap();
    let step = Step { arrived: [AtomicU64::new(0), AtomicU64::new(0)] };
    let answer = Mutex::new(None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let (start, mut seed) = (Instant::now(), 0x9e37_79b9_7f4a_7c15);
            for round in 0.. {
                step.meet(0, 2 * round + 1, &table);
                Step::skew(&mut seed);
                let kick = kick(&table, index).unwrap();
                let last = round == RACES || start.elapsed() > RACE_TIME;
                *answer.lock().unwrap() = Some((kick, last));
                step.meet(0, 2 * round + 2, &table);
                if last {
                    return;
                }
            }
        });
        let mut owner = table.attach(index).unwrap();
        let mut seed = 0xd1b5_4a32_d192_ed03;
        for round in 0.. {
            step.meet(1, 2 * round + 1, &table);
            Step::skew(&mut seed);
            let found = say_and_look(&mut owner);
            step.meet(1, 2 * round + 2, &table);
            let (kick, last) = answer.lock().unwrap().take().unwrap();
            check(&mut owner, found, kick);
            if last {
                return;
            }
        }
    });
}

/// Fails without the fence of `enter` (seen on x86-64).
#[test]
fn a_request_and_an_entry_do_not_miss_each_other() {
    race(
        |owner| owner.enter().exit_request(),
        VcpuTable::request_exit,
        |owner, found, kick| {
            assert!(found || kick == Kick::InGuest, "{kick:?}: the guest runs on");
            owner.leave();
            assert!(owner.take_exit_request());
        },
    );
}

/// Fails without the fence of `begin_sleep` (seen on x86-64).
#[test]
fn a_kick_and_a_sleep_do_not_miss_each_other() {
    race(
        |owner| owner.wake_word().begin_sleep(),
        VcpuTable::kick,
        |owner, sleeps, kick| {
            assert!(!sleeps || kick == Kick::WakeSleeper, "{kick:?}: sleeps for ever");
            owner.wake_word().end_sleep();
            assert!(owner.take_kick());
        },
    );
}
