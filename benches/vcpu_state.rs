// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Costs of `vcpu-state`'s hot paths.

use criterion::Criterion;

pub(crate) fn benches(_criterion: &mut Criterion) {}
