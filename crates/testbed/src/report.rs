// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! How results leave the testbed.

pub mod destination;
pub mod diagnostic;
pub mod html;
pub mod json;
pub mod plot;
pub mod progress;
pub mod table;
