// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The best fixed threshold in hindsight.

/// The cheapest fixed threshold for a set of halts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestFixed {
    /// The smallest such threshold, in nanoseconds; 0: never poll.
    pub threshold_ns: u64,
    /// What it costs, in nanoseconds.
    pub cost_ns: u128,
}

/// Tries every threshold that can be best: 0 and each halt's length. Exact; sorts the halts.
pub fn best_fixed(halts: &mut [u64], block_cost_ns: u32) -> BestFixed {
    halts.sort_unstable();
    let block = u128::from(block_cost_ns);
    let count = halts.len() as u128;
    let mut best = BestFixed { threshold_ns: 0, cost_ns: u128::MAX };
    // A threshold serves halts as long as itself by polling, so it counts with the last of equals.
    let (mut sum, mut served) = (0_u128, 0_u128);
    let zeros = halts.partition_point(|halt| *halt == 0) as u128;
    let never = (count - zeros) * block;
    if never < best.cost_ns {
        best.cost_ns = never;
    }
    for (index, &halt) in halts.iter().enumerate() {
        sum += u128::from(halt);
        served += 1;
        if halts.get(index + 1) == Some(&halt) {
            continue;
        }
        let cost = sum + (count - served) * (u128::from(halt) + block);
        if cost < best.cost_ns {
            best = BestFixed { threshold_ns: halt, cost_ns: cost };
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::evaluate::{Recorded, run};

    fn cost_of(threshold: u32, halts: &[u64], block: u32) -> u128 {
        let mut policy = halt_poll::Fixed::new(threshold);
        run(&mut policy, &mut Recorded::new(halts), block, &mut Vec::new()).cost_ns
    }

    proptest! {
        /// The sweep finds what trying every threshold one after another finds.
        #[test]
        fn the_sweep_is_exact(
            halts in proptest::collection::vec(0_u64..60, 0..40),
            block in 0_u32..50,
        ) {
            let naive = (0..=60).map(|threshold| (cost_of(threshold, &halts, block), threshold)).min();
            let (cost_ns, threshold) = naive.unwrap();
            let best = best_fixed(&mut halts.clone(), block);
            prop_assert_eq!(best, BestFixed { threshold_ns: threshold.into(), cost_ns });
        }
    }

    #[test]
    fn the_longest_halts_do_not_overflow() {
        let mut halts = vec![u64::MAX; 3];
        assert_eq!(best_fixed(&mut halts, u32::MAX).cost_ns, 3 * u128::from(u32::MAX));
    }
}
