// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The driver, against a scripted source and clock, and against the real system calls.
#![cfg(all(feature = "std", not(loom)))]
#![allow(clippy::unwrap_used, reason = "a test, not only its functions")]

mod contention;
mod pairing;
mod polling;
mod scene;
mod signals;
mod sleeping;
mod sources;
