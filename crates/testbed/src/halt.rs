// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts: measured, recorded from the kernel, replayed, evaluated.

pub mod bench;
pub mod evaluate;
pub mod record;
pub mod replay;
mod trace_file;
