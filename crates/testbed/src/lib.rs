// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A small VMM with its own guest that measures the scheduling crates on this host.

pub mod cli;
pub mod halt;
pub mod probe;
pub mod report;
pub mod vmm;

/// The project's README promises that its code compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
