// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The atomics the crate is built on: core's, or loom's when a model is checked.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
