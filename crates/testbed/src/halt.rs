// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts: measured, recorded from the kernel, replayed, evaluated.

pub mod bench;
pub mod client;
pub mod comparison;
pub mod disturbance;
pub mod evaluate;
pub mod figures;
pub mod host;
pub mod kvm;
pub mod measure;
mod module_params;
pub mod plan;
pub mod policies;
pub mod record;
pub mod replay;
pub mod rows;
pub mod think;
pub mod threads;
pub mod tick;
mod trace_file;
pub mod usage;
pub mod vcpu;
