// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! When what is measured: phases, repeats and their order.
//!
//! A repeat goes through the four kinds of phase; in each, all rows have their turn one after the
//! other, in an order drawn anew every time. So what is compared was measured within seconds, and
//! a disturbance that comes and goes hits no row more than others.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::rows::ALWAYS_NS;
use super::think::{PAUSE_MAX, Think};

/// What a vCPU does in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Nothing: it halts without a timer.
    Idle,
    /// It halts, and a timer interrupts it 250 times a second.
    Tick,
    /// It answers a client.
    Serve(Think),
}

impl Phase {
    /// All kinds, in the order of a repeat.
    pub const ALL: [Self; 4] =
        [Self::Idle, Self::Tick, Self::Serve(Think::Steady), Self::Serve(Think::Bursty)];

    /// In progress messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Tick => "idle at 250 Hz",
            Self::Serve(think) => think.name(),
        }
    }

    /// Share of a repeat's time, in tenths: an idle vCPU shows soon what it costs, bursts need
    /// their number.
    const fn tenths(self) -> u32 {
        match self {
            Self::Idle => 1,
            Self::Tick => 3,
            Self::Serve(Think::Steady) => 2,
            Self::Serve(Think::Bursty) => 4,
        }
    }
}

/// Repeats that medians are to be taken over.
pub const WANTED_REPEATS: u32 = 5;
/// Shortest time for the four phases of a row in one repeat.
const SHORTEST_TURN: Duration = Duration::from_millis(200);
/// Time for them when there is enough: more time gives more repeats, not longer phases. Short, because
/// hosts have slow spells of a second or so (another guest on the core's other hardware thread) that
/// no counter shows: they have to hit all rows alike.
const USUAL_TURN: Duration = Duration::from_millis(250);
/// Longest run that is accepted: a day.
const LONGEST_RUN: Duration = Duration::from_secs(86_400);

/// The time asked for cannot be planned.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Not even one repeat fits.
    #[error(
        "{seconds} s is too short: {rows} rows need {needed} s for one repeat, {advised} s for {WANTED_REPEATS}"
    )]
    TooShort {
        /// What was asked for.
        seconds: f64,
        /// Rows to measure.
        rows: u32,
        /// Least for one repeat, in seconds.
        needed: f64,
        /// Least for medians over [`WANTED_REPEATS`], in seconds.
        advised: f64,
    },
    /// Not a time, or more than a day.
    #[error("{seconds} s is not between 0 and {} s", LONGEST_RUN.as_secs())]
    OutOfRange {
        /// What was asked for.
        seconds: f64,
    },
}

/// A run, cut into phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    rows: u32,
    repeats: u32,
    turn: Duration,
    seed: u64,
}

impl Plan {
    /// Divides `seconds` over `rows` rows. `seed` decides orders and think times.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooShort`] when no repeat fits. Fewer than [`WANTED_REPEATS`] are accepted:
    /// the caller warns ([`is_short`](Self::is_short)).
    pub fn new(seconds: f64, rows: u32, seed: u64) -> Result<Self, PlanError> {
        if !(0.0..=LONGEST_RUN.as_secs_f64()).contains(&seconds) {
            return Err(PlanError::OutOfRange { seconds });
        }
        let time = Duration::from_secs_f64(seconds);
        let rows = rows.max(1);
        let fit = |turn: Duration| {
            let repeats = time.as_nanos() / (turn * rows).as_nanos();
            u32::try_from(repeats).unwrap_or(u32::MAX)
        };
        let repeats = match fit(USUAL_TURN) {
            many if many >= WANTED_REPEATS => many,
            _ => fit(SHORTEST_TURN).min(WANTED_REPEATS),
        };
        if repeats == 0 {
            let needed = (SHORTEST_TURN * rows).as_secs_f64();
            let advised = needed * f64::from(WANTED_REPEATS);
            return Err(PlanError::TooShort { seconds, rows, needed, advised });
        }
        Ok(Self { rows, repeats, turn: time / (rows * repeats), seed })
    }

    /// How often everything is measured.
    pub const fn repeats(&self) -> u32 {
        self.repeats
    }

    /// Whether medians are over fewer repeats than they should.
    pub const fn is_short(&self) -> bool {
        self.repeats < WANTED_REPEATS
    }

    /// Time, in seconds, that would give [`WANTED_REPEATS`].
    pub fn seconds_wanted(&self) -> f64 {
        (SHORTEST_TURN * self.rows * WANTED_REPEATS).as_secs_f64()
    }

    /// How long it takes to measure everything once.
    pub fn repeat(&self) -> Duration {
        self.turn * self.rows
    }

    /// Phases in the whole run.
    pub const fn phases(&self) -> u64 {
        self.rows as u64 * self.repeats as u64 * Phase::ALL.len() as u64
    }

    /// How long the vCPU does the same before it is measured: the policies learn, caches warm up.
    pub fn warm_up(&self, phase: Phase) -> Duration {
        self.whole(phase) / 4
    }

    /// How long a phase is measured.
    pub fn measured(&self, phase: Phase) -> Duration {
        self.whole(phase) - self.warm_up(phase)
    }

    /// No halt is longer, unless the host takes its time: an idle phase or a pause of the client.
    pub fn longest_halt(&self) -> Duration {
        self.whole(Phase::Idle).max(PAUSE_MAX)
    }

    /// The whole run.
    pub fn total(&self) -> Duration {
        self.turn * self.rows * self.repeats
    }

    fn whole(&self, phase: Phase) -> Duration {
        self.turn * phase.tenths() / 10
    }

    /// The order in which the rows (by index) take their turns.
    pub fn order(&self, repeat: u32, phase: Phase) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.rows as usize).collect();
        order.shuffle(&mut StdRng::seed_from_u64(self.seed_of(repeat, phase)));
        order
    }

    /// The seed of a phase's think times: the same for all rows.
    pub fn seed_of(&self, repeat: u32, phase: Phase) -> u64 {
        let kind = Phase::ALL.iter().position(|other| *other == phase).unwrap_or(0) as u64;
        self.seed ^ (u64::from(repeat) << 8) ^ kind.rotate_right(8)
    }
}

// `always` covers every halt: no phase is longer than its window, whatever the time asked for.
const _: () = assert!(USUAL_TURN.as_nanos() * 2 < ALWAYS_NS as u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_fill_the_time_asked_for() {
        for (seconds, rows) in [(60.0, 8), (60.0, 5), (10.0, 8), (2.0, 8), (600.0, 8)] {
            let plan = Plan::new(seconds, rows, 1).unwrap();
            let all: Duration = Phase::ALL
                .iter()
                .map(|phase| (plan.warm_up(*phase) + plan.measured(*phase)) * rows * plan.repeats())
                .sum();
            assert!((all.as_secs_f64() - seconds).abs() < 0.01 * seconds, "{plan:?}: {all:?}");
            assert!((plan.total().as_secs_f64() - seconds).abs() < 0.01 * seconds);
        }
    }

    #[test]
    fn medians_have_their_repeats_as_soon_as_there_is_time() {
        assert_eq!(Plan::new(60.0, 8, 1).unwrap().repeats(), 30);
        assert_eq!(Plan::new(8.0, 8, 1).unwrap().repeats(), WANTED_REPEATS);
        let short = Plan::new(7.9, 8, 1).unwrap();
        assert!(short.is_short());
        assert_eq!(short.repeats(), 4);
    }

    #[test]
    fn too_short_a_run_is_refused_with_what_it_takes() {
        let error = Plan::new(1.0, 8, 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 s is too short: 8 rows need 1.6 s for one repeat, 8 s for 5"
        );
        for nonsense in [f64::NAN, -1.0, f64::INFINITY, 1e9] {
            assert!(matches!(Plan::new(nonsense, 8, 1), Err(PlanError::OutOfRange { .. })));
        }
    }

    #[test]
    fn always_covers_every_phase() {
        for tenths in 16..20_000 {
            let plan = Plan::new(f64::from(tenths) / 10.0, 8, 1).unwrap();
            for phase in Phase::ALL {
                assert!(plan.whole(phase).as_nanos() < u128::from(ALWAYS_NS));
            }
        }
    }

    #[test]
    fn every_row_has_one_turn_and_the_order_changes() {
        let plan = Plan::new(60.0, 8, 1).unwrap();
        let mut firsts = std::collections::HashSet::new();
        for repeat in 0..plan.repeats() {
            for phase in Phase::ALL {
                let order = plan.order(repeat, phase);
                assert_eq!(order, plan.order(repeat, phase));
                firsts.insert(order[0]);
                let mut sorted = order;
                sorted.sort_unstable();
                assert_eq!(sorted, (0..8).collect::<Vec<_>>());
            }
        }
        assert!(firsts.len() > 4, "always the same rows first: {firsts:?}");
    }

    #[test]
    fn think_times_differ_between_repeats() {
        let plan = Plan::new(60.0, 8, 1).unwrap();
        let mut seeds = std::collections::HashSet::new();
        for repeat in 0..plan.repeats() {
            for phase in Phase::ALL {
                assert!(seeds.insert(plan.seed_of(repeat, phase)));
            }
        }
    }
}
