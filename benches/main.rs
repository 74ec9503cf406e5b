// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Hot-path costs in nanoseconds, one module per crate: `cargo bench --bench main`.

use criterion::{criterion_group, criterion_main};

mod halt_poll;
mod vcpu_state;

criterion_group!(benches, vcpu_state::benches, halt_poll::benches);
criterion_main!(benches);
