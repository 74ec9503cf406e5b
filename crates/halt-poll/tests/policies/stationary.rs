// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `Adaptive` against the best fixed threshold in hindsight, on what does not change.
//!
//! halt-trace has the large suite; this one is here so that the crate can be judged by itself.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small, positive")]

use halt_poll::{Adaptive, AdaptiveParams};

use crate::{cost_of, play};

const HALTS: usize = 10_000;

/// Marsaglia's xorshift64*.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Log-uniform.
    fn scale(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.unit())
    }
}

/// A family's name, and a way to draw one member and then its lengths.
type Draw = Box<dyn FnMut(&mut Random) -> f64>;
type Family = (&'static str, fn(&mut Random) -> Draw);

const FAMILIES: [Family; 6] = [
    ("constant", |random| {
        let x = random.scale(1e3, 5e6);
        Box::new(move |_| x)
    }),
    ("uniform", |random| {
        let (low, high) = (random.scale(1.0, 1e4), random.scale(1e4, 1e6));
        Box::new(move |random| low + (high - low) * random.unit())
    }),
    ("exponential", |random| {
        let mean = random.scale(1e3, 5e6);
        Box::new(move |random| -mean * (1.0 - random.unit()).ln())
    }),
    ("bimodal", |random| {
        let (short, long) = (random.scale(500.0, 4e4), random.scale(2e4, 5e6));
        let (share, width) = (random.unit(), 0.2 * random.unit());
        Box::new(move |random| {
            let mode = if random.unit() < share { short } else { long };
            mode * (1.0 + width * (random.unit() - 0.5))
        })
    }),
    ("heavy-tailed", |random| {
        let (least, tail) = (random.scale(100.0, 5e4), 0.4 + 2.6 * random.unit());
        Box::new(move |random| (least * (1.0 - random.unit()).powf(-1.0 / tail)).min(1e10))
    }),
    ("250 Hz", |random| {
        let jitter = 1e5 * random.unit();
        Box::new(move |random| 4e6 - jitter * random.unit())
    }),
];

/// The cost of the best fixed threshold: one of the lengths, or 0.
fn best_fixed(lengths: &[u64], block_cost: u64) -> u64 {
    let mut sorted = lengths.to_vec();
    sorted.sort_unstable();
    let count = sorted.len() as u64;
    let mut best = count * block_cost;
    let mut shorter = 0;
    for (i, &x) in (1..).zip(&sorted) {
        shorter += x;
        if sorted.get(i as usize) != Some(&x) {
            best = best.min(shorter + (count - i) * (x + block_cost));
        }
    }
    best
}

#[test]
fn stationary_halts_cost_at_most_5_percent_more_than_under_the_best_fixed_threshold() {
    let mut ratios = Vec::new();
    for (family, member) in FAMILIES {
        for seed in 1..=30u64 {
            let random = &mut Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut draw = member(random);
            let lengths: Vec<u64> =
                (0..HALTS).map(|_| (draw(random).round() as u64).max(1)).collect();
            let block_cost = [5_000, 20_000, 50_000][seed as usize % 3];
            let params = AdaptiveParams {
                block_cost_ns: block_cost,
                latency_ns: 0,
                ceiling_ns: u32::MAX,
                ..AdaptiveParams::default()
            };
            let windows = play(&mut Adaptive::new(params), lengths.iter().copied());
            let cost: u64 = windows
                .iter()
                .zip(&lengths)
                .map(|(&window, &x)| cost_of(window, x, block_cost.into()))
                .sum();
            let ratio = cost as f64 / best_fixed(&lengths, block_cost.into()) as f64;
            assert!(ratio <= 1.05, "{family}, seed {seed}: {ratio:.4}");
            ratios.push(ratio);
        }
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let p95 = ratios[ratios.len() * 95 / 100];
    assert!(p95 <= 1.02, "95th percentile {p95:.4}");
}
