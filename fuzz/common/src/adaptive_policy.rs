// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `Adaptive` against its promises, whatever halts and parameters come.
//!
//! * No window above the ceiling as it is now, nor above 32 times the cost B of blocking.
//! * With halts as a driver reports them: the bound on the polled share of time in every interval,
//!   and the bound on the cost against that of knowing the future.

use std::collections::VecDeque;

use arbitrary::{Result, Unstructured};
use halt_poll::{Adaptive, AdaptiveParams, Halt, Policy, Share, SharedAdaptiveParams, Weight};

use crate::seed::{Bytes, Seed};

/// Inputs end after this many halts, so that each one is quick.
const MOST_HALTS: u32 = 20_000;
/// The share is checked over intervals of up to this many halts.
const INTERVALS: usize = 32;

/// What comes next.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// Halts alike, one after the other.
    Halts { length: Length, gap_ns: u64, times: u8 },
    /// Somebody changes a parameter.
    Change(Change),
    /// The clock goes back between two halts; whatever is promised still is.
    Back { by_ns: u64 },
    /// A halt that no driver would report, and time that goes anywhere.
    Nonsense { now_ns: u64, halt_ns: u64, polled_ns: u64, flags: u8 },
}

/// How long a halt takes until its wake-up.
#[derive(Clone, Copy, Debug)]
pub enum Length {
    /// This many nanoseconds.
    Absolute(u64),
    /// The window and this: what hurts most is one nanosecond more.
    Window(i8),
    /// The cost of blocking and this.
    BlockCost(i8),
}

/// A parameter that somebody changes.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    BlockCost(u32),
    Latency(u32),
    Weight(u16),
    Ceiling(u32),
    Share(u32),
}

impl Event {
    fn read(input: &mut Unstructured<'_>) -> Result<Self> {
        let kind: u8 = input.arbitrary()?;
        Ok(match kind % 8 {
            6 => Self::Change(Change::read(input)?),
            7 if kind & 0x80 != 0 => Self::Back { by_ns: magnitude(input)? },
            7 => Self::Nonsense {
                now_ns: input.arbitrary()?,
                halt_ns: input.arbitrary()?,
                polled_ns: input.arbitrary()?,
                flags: input.arbitrary()?,
            },
            how => Self::Halts {
                length: match how {
                    0..=3 => Length::Absolute(magnitude(input)?),
                    4 => Length::Window(input.arbitrary()?),
                    _ => Length::BlockCost(input.arbitrary()?),
                },
                gap_ns: magnitude(input)?,
                times: input.arbitrary()?,
            },
        })
    }
}

impl Change {
    fn read(input: &mut Unstructured<'_>) -> Result<Self> {
        let kind: u8 = input.arbitrary()?;
        Ok(match kind % 5 {
            0 => Self::BlockCost(input.arbitrary()?),
            1 => Self::Latency(input.arbitrary()?),
            2 => Self::Weight(input.arbitrary()?),
            3 => Self::Ceiling(input.arbitrary()?),
            _ => Self::Share(input.arbitrary::<u32>()? % 1_100_000),
        })
    }
}

/// A number of any magnitude below 2^40, from three bytes.
fn magnitude(input: &mut Unstructured<'_>) -> Result<u64> {
    let (mantissa, exponent): (u16, u8) = (input.arbitrary()?, input.arbitrary()?);
    Ok(u64::from(mantissa) << (exponent % 25))
}

/// The costs since the parameters changed last.
#[derive(Debug)]
struct Costs {
    block_cost: u64,
    /// The ceiling allows what the bound needs, and no share forbids it.
    bounded: bool,
    /// By how many B the cost may pass 2.05 times the optimum.
    allowance: u64,
    cost: u128,
    optimum: u128,
}

impl Costs {
    fn begin(params: &AdaptiveParams, allowance: u64) -> Self {
        let block_cost = params.effective_block_cost_ns();
        let bounded = params.ceiling_ns >= block_cost && params.max_polled_share == Share::ALL;
        Self { block_cost: block_cost.into(), bounded, allowance, cost: 0, optimum: 0 }
    }

    fn add(&mut self, length: u64, window: u64) {
        let cost = if length <= window { length } else { window + self.block_cost };
        self.cost += u128::from(cost);
        self.optimum += u128::from(length.min(self.block_cost));
    }

    fn check(&self) {
        let bound = 205 * self.optimum + 100 * u128::from(self.allowance * self.block_cost);
        assert!(
            !self.bounded || 100 * self.cost <= bound,
            "above 2.05 times the optimum: {self:?}"
        );
    }
}

/// What was polled lately, for the bound on the share.
#[derive(Debug, Default)]
struct Polls {
    /// When each poll began, by a clock that only goes on, and how long it was.
    latest: VecDeque<(u128, u64)>,
    clock_ns: u128,
}

impl Polls {
    fn check(&self, params: &AdaptiveParams) {
        let share = u128::from(params.max_polled_share.as_ppm());
        let longest = longest_window(params);
        let mut polled = 0;
        // Backwards from now: intervals that begin with each of the latest polls.
        for &(begin, length) in self.latest.iter().rev() {
            polled += u128::from(length);
            let time = self.clock_ns - begin + 10_000_000;
            let bound = share * time + 1_000_000 * u128::from(longest);
            assert!(polled * 1_000_000 <= bound, "share: {polled} ns in {time} ns: {params:?}");
        }
    }
}

fn longest_window(params: &AdaptiveParams) -> u64 {
    (32 * u64::from(params.effective_block_cost_ns())).min(params.ceiling_ns.into())
}

/// The world of one vCPU.
struct World<'a> {
    shared: &'a SharedAdaptiveParams,
    params: AdaptiveParams,
    policy: Adaptive<&'a SharedAdaptiveParams>,
    now_ns: u64,
    costs: Costs,
    polls: Polls,
    /// Every halt so far was one that a driver reports.
    honest: bool,
    halts: u32,
}

impl World<'_> {
    fn apply(&mut self, change: Change) {
        match change {
            Change::BlockCost(ns) => {
                self.shared.set_block_cost_ns(ns);
                self.params.block_cost_ns = ns;
            }
            Change::Latency(ns) => {
                self.shared.set_latency_ns(ns);
                self.params.latency_ns = ns;
            }
            Change::Weight(percent) => {
                self.shared.set_latency_weight(Weight::percent(percent));
                self.params.latency_weight = Weight::percent(percent);
            }
            Change::Ceiling(ns) => {
                self.shared.set_ceiling_ns(ns);
                self.params.ceiling_ns = ns;
            }
            Change::Share(ppm) => match Share::from_ppm(ppm) {
                Ok(share) => {
                    self.shared.set_max_polled_share(share);
                    self.params.max_polled_share = share;
                }
                Err(error) => assert!(ppm > 1_000_000, "{error}"),
            },
        }
        // From a later halt on: 64 B; and one window may have been decided for another B.
        self.costs = Costs::begin(&self.params, 64 + 32);
        self.polls.latest.clear();
    }

    /// Asks for the window, and looks at it.
    fn window(&mut self) -> u64 {
        let window = u64::from(self.policy.window(self.now_ns));
        assert!(window <= u64::from(self.params.ceiling_ns), "{window}: {:?}", self.params);
        assert!(window <= longest_window(&self.params), "{window}: {:?}", self.params);
        window
    }

    fn halt(&mut self, length: Length, gap_ns: u64) {
        let start = self.now_ns;
        let window = self.window();
        let length = match length {
            Length::Absolute(ns) => ns,
            Length::Window(offset) => window.saturating_add_signed(offset.into()),
            Length::BlockCost(offset) => self.costs.block_cost.saturating_add_signed(offset.into()),
        };
        #[expect(clippy::cast_possible_truncation, reason = "it came as a u32")]
        let halt = if length <= window {
            Halt::polled(start, window as u32, length)
        } else {
            // It goes on later by the latency.
            let woken = length + u64::from(self.params.latency_ns);
            Halt::slept(start, window as u32, window, woken)
        };
        self.policy.record(&halt);
        self.halts += 1;
        if self.honest {
            self.costs.add(length, window);
            self.costs.check();
            if self.polls.latest.len() == INTERVALS {
                self.polls.latest.pop_front();
            }
            self.polls.latest.push_back((self.polls.clock_ns, halt.polled_ns));
            self.polls.check(&self.params);
        }
        let passed = halt.halt_ns + gap_ns;
        self.now_ns = self.now_ns.wrapping_add(passed);
        self.polls.clock_ns += u128::from(passed);
    }

    /// Nothing is promised of halts that cannot be but the ceiling, and that it survives.
    fn nonsense(&mut self, now_ns: u64, halt_ns: u64, polled_ns: u64, flags: u8) {
        self.honest = false;
        self.now_ns = now_ns;
        let window = if flags & 1 == 0 { self.window() } else { 0 };
        let mut halt = Halt::slept(now_ns ^ u64::from(flags), 0, polled_ns, halt_ns);
        halt.window_ns = u32::try_from(window ^ (halt_ns >> 40)).unwrap_or(u32::MAX);
        (halt.slept, halt.valid) = (flags & 2 == 0, flags & 4 == 0);
        halt.contended = flags & 8 != 0;
        for _ in 0..=flags >> 6 {
            self.policy.record(&halt);
        }
        self.halts += 1;
    }
}

/// Runs one input.
///
/// # Panics
///
/// Where the policy breaks one of its promises.
pub fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let params = AdaptiveParams::default();
    let shared = SharedAdaptiveParams::new(params);
    let mut world = World {
        shared: &shared,
        params,
        policy: Adaptive::new(&shared),
        now_ns: 0,
        costs: Costs::begin(&params, 4),
        polls: Polls::default(),
        honest: true,
        halts: 0,
    };
    while !input.is_empty() && world.halts < MOST_HALTS {
        let Ok(event) = Event::read(&mut input) else { break };
        match event {
            Event::Halts { length, gap_ns, times } => {
                (0..=times).for_each(|_| world.halt(length, gap_ns));
            }
            Event::Change(change) => world.apply(change),
            Event::Back { by_ns } => world.now_ns = world.now_ns.saturating_sub(by_ns),
            Event::Nonsense { now_ns, halt_ns, polled_ns, flags } => {
                world.nonsense(now_ns, halt_ns, polled_ns, flags);
            }
        }
    }
}

/// Inputs that reach what is worth reaching.
pub fn seeds() -> Vec<Seed> {
    // Mantissa and exponent of a magnitude.
    let number = |bytes: Bytes, mantissa: u16, exponent: u8| {
        let [low, high] = mantissa.to_le_bytes();
        bytes.u8(low).u8(high).u8(exponent)
    };
    let halts = |mantissa: u16, exponent: u8, times: u8| {
        let length = number(Bytes::default().u8(0), mantissa, exponent);
        number(length, 1_000, 4).u8(times)
    };
    let relative = |kind: u8, offset: i8, times: u8| {
        number(Bytes::default().u8(kind).u8(offset.to_le_bytes()[0]), 1_000, 4).u8(times)
    };
    let change = |kind: u8, value: u32| Bytes::default().u8(6).u8(kind).u32(value);
    let weight = |percent: u16| {
        let [low, high] = percent.to_le_bytes();
        Bytes::default().u8(6).u8(2).u8(low).u8(high)
    };
    let back = |mantissa: u16, exponent: u8| number(Bytes::default().u8(0x87), mantissa, exponent);
    let nonsense = |now: u64, halt: u64, polled: u64, flags: u8| {
        Bytes::default().u8(7).u64(now).u64(halt).u64(polled).u8(flags)
    };
    let all =
        |parts: &[Bytes]| parts.iter().fold(Bytes::default(), |bytes, part| bytes.repeat(1, part));
    vec![
        Bytes::default().named("empty"),
        all(&[halts(2_000, 1, 200), halts(4_000, 10, 200), halts(2_000, 1, 200)]).named("phases"),
        // Just above every window: what a policy that learns fears most.
        all(&[relative(4, 1, 255), relative(4, 1, 255), relative(4, 0, 255), relative(4, 1, 255)])
            .named("just_above_the_window"),
        all(&[relative(5, 0, 255), relative(5, 1, 255), relative(5, -1, 255)])
            .named("around_the_block_cost"),
        Bytes::default()
            .repeat(8, &all(&[halts(2_000, 1, 60), relative(4, 1, 4)]))
            .named("lulled_then_hurt"),
        all(&[halts(9_000, 0, 50), change(3, 0), halts(9_000, 0, 5), change(3, 5_000)])
            .repeat(1, &halts(9_000, 0, 50))
            .named("ceiling_0_and_back"),
        all(&[change(4, 50_000), relative(4, 1, 255), relative(4, 0, 255), halts(2_000, 1, 255)])
            .named("a_share_of_5_percent"),
        all(&[change(4, 50_000), halts(4_000, 0, 255), change(4, 1_000_000), halts(4_000, 0, 99)])
            .repeat(1, &all(&[change(4, 0), halts(4_000, 0, 9)]))
            .named("shares_change"),
        Bytes::default()
            .repeat(1, &change(4, 50_000))
            .repeat(9, &all(&[halts(4_000, 0, 99), back(60_000, 12)]))
            .named("a_share_and_a_clock_that_goes_back"),
        all(&[change(0, 0), change(1, 0), relative(4, 1, 20), change(0, 1), relative(4, 1, 20)])
            .named("blocking_is_free"),
        all(&[change(0, u32::MAX), weight(u16::MAX), change(1, u32::MAX), change(3, u32::MAX)])
            .repeat(1, &all(&[relative(4, 1, 20), halts(u16::MAX, 24, 20)]))
            .named("everything_is_huge"),
        all(&[change(0, 50_000), relative(4, 1, 90), change(0, 100), relative(4, 1, 90)])
            .named("block_cost_changes"),
        all(&[nonsense(u64::MAX, u64::MAX, u64::MAX, 0), nonsense(0, 0, u64::MAX, 0xC3)])
            .repeat(1, &all(&[nonsense(5, 1, 0, 8), relative(4, 1, 20), change(4, 10)]))
            .repeat(1, &all(&[nonsense(u64::MAX, 7, 9, 2), nonsense(3, 7, u64::MAX, 4)]))
            .named("nonsense"),
    ]
}
