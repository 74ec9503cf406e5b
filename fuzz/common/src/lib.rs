// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the fuzz targets do with their bytes, one module per target.
//!
//! Each module reads its input from raw bytes, runs the shipped code and a naive model or an
//! oracle on it, and panics where they differ. Its `seeds` are inputs written by hand; they are
//! committed under `fuzz/corpus`, and `cargo test -p fuzz-common` replays all that is there.
#![forbid(unsafe_code)]

pub mod adaptive_policy;
pub mod halt_driver;
pub mod halt_trace;
mod kernel_model;
pub mod kernel_policy;
pub mod seed;
pub mod trace_replay;
pub mod vcpu_table;
