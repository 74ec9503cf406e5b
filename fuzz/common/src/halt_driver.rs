// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `HaltPoller` on a scripted world: clock, wake source, contention and policy are the input's.
//!
//! Whatever they do, one window is answered by one record, exactly one wake-up is consumed by a
//! halt that ends with one and none by another, polling keeps to its window, and the halt ends.

use std::cell::RefCell;

use arbitrary::{Result, Unstructured};
use halt_poll::{Clock, Contention, Halt, HaltEnd, HaltPoller, Policy};
use vcpu_state::{BlockEnd, WakeSource};

use crate::seed::{Bytes, Seed};

/// After this many sleeps of one halt the wake-up comes, so that every halt ends.
const MOST_SLEEPS: u32 = 8;

/// What the world does during one halt.
#[derive(Clone, Copy, Debug)]
struct Script {
    window_ns: u16,
    timeout_ns: Option<u16>,
    /// How far the clock goes at each reading; 0: it stands still.
    tick_ns: u8,
    /// At this reading the clock goes back once; 0: never.
    back_at: u8,
    /// The wake-up comes at this look; a look beyond it in vain.
    wake_at_look: u16,
    /// Somebody else takes the first wake-up between our look and our take.
    stolen: bool,
    /// Somebody wants the CPU at this question; 0: nobody.
    contended_at: u8,
    /// How the sleeps end, four bits each.
    sleeps: u32,
}

impl Script {
    fn read(input: &mut Unstructured<'_>) -> Result<Self> {
        let flags: u8 = input.arbitrary()?;
        let timeout: u16 = input.arbitrary()?;
        Ok(Self {
            // Small, so that a poll by a clock that stands still takes no time.
            window_ns: input.arbitrary::<u16>()? & 0xfff,
            timeout_ns: (flags & 1 != 0).then_some(timeout),
            tick_ns: input.arbitrary()?,
            back_at: if flags & 2 == 0 { 0 } else { input.arbitrary()? },
            wake_at_look: input.arbitrary()?,
            stolen: flags & 4 != 0,
            contended_at: if flags & 8 == 0 { 0 } else { input.arbitrary()? },
            sleeps: input.arbitrary()?,
        })
    }
}

/// The world and what it saw.
#[derive(Debug)]
struct World {
    script: Script,
    now_ns: u64,
    pending: bool,
    readings: u32,
    looks: u32,
    questions: u32,
    sleeps: u32,
    taken: u32,
    slept: bool,
    last_end: Option<BlockEnd>,
    failed: bool,
    windows: u32,
    recorded: Vec<Halt>,
}

impl World {
    fn begin(script: Script, now_ns: u64) -> Self {
        Self {
            script,
            now_ns,
            pending: false,
            readings: 0,
            looks: 0,
            questions: 0,
            sleeps: 0,
            taken: 0,
            slept: false,
            last_end: None,
            failed: false,
            windows: 0,
            recorded: Vec::new(),
        }
    }

    /// Whether the clock did what clocks do.
    fn clock_is_sane(&self) -> bool {
        self.script.tick_ns > 0 && self.script.back_at == 0
    }
}

/// The one handle that plays every part.
#[derive(Clone, Copy, Debug)]
struct Handle<'a>(&'a RefCell<World>);

impl Clock for Handle<'_> {
    fn now_ns(&self) -> u64 {
        let mut world = self.0.borrow_mut();
        world.readings += 1;
        world.now_ns =
            if world.script.back_at > 0 && world.readings == u32::from(world.script.back_at) {
                world.now_ns.saturating_sub(100_000)
            } else {
                world.now_ns + u64::from(world.script.tick_ns)
            };
        world.now_ns
    }
}

impl Contention for Handle<'_> {
    fn wants_cpu(&mut self, _now_ns: u64) -> bool {
        let mut world = self.0.borrow_mut();
        world.questions += 1;
        let at = u32::from(world.script.contended_at);
        assert!(at == 0 || world.questions <= at, "polls on though the CPU is wanted");
        world.questions == at
    }
}

impl WakeSource for Handle<'_> {
    type Error = ();

    fn is_pending(&self) -> bool {
        let mut world = self.0.borrow_mut();
        world.looks += 1;
        if world.looks == u32::from(world.script.wake_at_look) {
            world.pending = true;
        }
        world.pending
    }

    fn take(&self) -> bool {
        let mut world = self.0.borrow_mut();
        let taken = std::mem::take(&mut world.pending) && !world.script.stolen;
        world.script.stolen = false;
        world.taken += u32::from(taken);
        taken
    }

    fn block(&self, timeout_ns: Option<u64>) -> std::result::Result<BlockEnd, ()> {
        let mut world = self.0.borrow_mut();
        assert_ne!(timeout_ns, Some(0), "sleeps with no time left");
        assert_eq!(timeout_ns.is_some(), world.script.timeout_ns.is_some());
        assert_eq!(world.taken, 0, "sleeps with a wake-up in its hands");
        if world.sleeps == 0 {
            check_window_was_used(&world);
        }
        let kind = (world.script.sleeps >> (4 * (world.sleeps % 8))) & 15;
        world.sleeps += 1;
        let late = world.sleeps >= MOST_SLEEPS;
        let end = match (kind, timeout_ns) {
            _ if world.pending => BlockEnd::NotSlept,
            _ if late => {
                (world.pending, world.script.stolen) = (true, false);
                BlockEnd::Woken
            }
            (0..=5, _) => {
                world.pending = true;
                BlockEnd::Woken
            }
            (6..=7, _) => BlockEnd::Woken,
            (8..=9, _) => BlockEnd::Interrupted,
            (10..=12, Some(timeout)) => {
                world.now_ns += timeout;
                BlockEnd::TimedOut
            }
            (10..=12, None) => BlockEnd::TimedOut,
            _ => {
                world.failed = true;
                return Err(());
            }
        };
        world.slept |= end != BlockEnd::NotSlept;
        world.last_end = Some(end);
        Ok(end)
    }
}

impl Policy for Handle<'_> {
    fn window(&mut self, _now_ns: u64) -> u32 {
        let mut world = self.0.borrow_mut();
        world.windows += 1;
        world.script.window_ns.into()
    }

    fn record(&mut self, halt: &Halt) {
        self.0.borrow_mut().recorded.push(*halt);
    }
}

/// The halt sleeps for the first time: it polled as long as it was to, or had a reason not to.
fn check_window_was_used(world: &World) {
    let script = world.script;
    let budget = script.timeout_ns.map_or(script.window_ns, |ns| ns.min(script.window_ns));
    let wanted = script.contended_at > 0 && world.questions == u32::from(script.contended_at);
    if world.clock_is_sane() && !wanted {
        // The first reading is the begin.
        let polled = u64::from(world.readings - 1) * u64::from(script.tick_ns);
        assert!(polled >= u64::from(budget), "slept after {polled} ns of {budget}: {world:?}");
    }
}

/// Runs one input.
///
/// # Panics
///
/// Where the driver breaks one of its promises.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let mut now_ns = 1_000_000;
    while !input.is_empty() {
        let Ok(script) = Script::read(&mut input) else { break };
        let world = RefCell::new(World::begin(script, now_ns));
        let handle = Handle(&world);
        let mut poller = HaltPoller::new(handle).with_clock(handle).with_contention(handle);
        let halted = match script.timeout_ns {
            None => poller.halt(&handle),
            Some(timeout_ns) => poller.halt_for(&handle, timeout_ns.into()),
        };
        let counters = *poller.counters();
        let world = world.borrow();

        assert_eq!((world.windows, world.recorded.len()), (1, 1), "{world:?}");
        let halt = world.recorded[0];
        match halted {
            Ok(halted) => {
                assert_eq!(halted.halt, halt, "the policy saw another halt");
                check_end(&world, halted.end, &halt);
            }
            Err(()) => assert!(world.failed && world.taken == 0, "{world:?}"),
        }
        check_halt(&world, &halt);
        assert_eq!(counters.attempted, u64::from(script.window_ns > 0));
        assert_eq!(counters.wakeup, u64::from(halt.slept));
        now_ns = world.now_ns;
    }
}

fn check_end(world: &World, end: HaltEnd, halt: &Halt) {
    assert_eq!(world.taken, u32::from(end == HaltEnd::Woken), "{end:?} {world:?}");
    assert_eq!(halt.valid, end != HaltEnd::TimedOut);
    match end {
        HaltEnd::Interrupted => assert_eq!(world.last_end, Some(BlockEnd::Interrupted)),
        HaltEnd::TimedOut => {
            let timeout = world.script.timeout_ns.expect("a time-out without one");
            let said = world.last_end == Some(BlockEnd::TimedOut);
            assert!(said || halt.halt_ns >= timeout.into(), "{world:?}");
        }
        _ => {}
    }
}

fn check_halt(world: &World, halt: &Halt) {
    let script = world.script;
    assert_eq!(halt.window_ns, script.window_ns.into());
    assert_eq!(halt.slept, world.slept || world.failed, "{world:?}");
    let wanted = script.contended_at > 0 && world.questions == u32::from(script.contended_at);
    assert_eq!(halt.contended, wanted, "{world:?}");
    if script.window_ns == 0 {
        assert_eq!(halt.polled_ns, 0);
    }
    if world.clock_is_sane() {
        assert!(halt.polled_ns <= halt.halt_ns, "{halt:?}");
        // It stops at the first reading at or after the window's end.
        let most = u64::from(script.window_ns) + u64::from(script.tick_ns);
        assert!(halt.polled_ns < most, "{halt:?} {script:?}");
    }
}

/// Inputs that reach what is worth reaching.
pub fn seeds() -> Vec<Seed> {
    let u16 = |bytes: Bytes, value: u16| {
        let [low, high] = value.to_le_bytes();
        bytes.u8(low).u8(high)
    };
    // flags, time-out, window, tick, [back], wake, [contended], sleeps
    let script = |flags: u8, timeout: u16, window: u16, tick: u8, wake: u16, sleeps: u32| {
        let bytes = u16(u16(Bytes::default().u8(flags), timeout), window).u8(tick);
        let bytes = if flags & 2 == 0 { bytes } else { bytes.u8(5) };
        let bytes = u16(bytes, wake);
        let bytes = if flags & 8 == 0 { bytes } else { bytes.u8(3) };
        bytes.u32(sleeps)
    };
    vec![
        script(0, 0, 1_000, 10, 1, 0).named("woken_already"),
        script(0, 0, 1_000, 10, 50, 0).named("woken_while_polling"),
        script(0, 0, 1_000, 10, 0, 0).named("woken_while_asleep"),
        script(0, 0, 0, 10, 0, 0).named("no_window"),
        script(0, 0, 100, 10, 12, 0).named("woken_after_the_last_look"),
        script(0, 0, 100, 10, 0, 0x0666).named("sleeps_that_end_without_reason"),
        script(0, 0, 100, 10, 0, 8).named("interrupted"),
        script(1, 500, 100, 10, 0, 10).named("timed_out"),
        script(1, 50, 1_000, 10, 0, 0).named("timed_out_while_polling"),
        script(1, 0, 1_000, 10, 0, 0).named("no_time_at_all"),
        script(0, 0, 100, 10, 0, 13).named("sleep_fails"),
        script(2, 0, 1_000, 10, 0, 0).named("clock_goes_back"),
        script(0, 0, 1_000, 0, 0, 0).named("clock_stands_still"),
        script(4, 0, 1_000, 10, 50, 0x6).named("wake_up_stolen"),
        script(8, 0, 1_000, 10, 0, 0).named("cpu_wanted"),
    ]
}
