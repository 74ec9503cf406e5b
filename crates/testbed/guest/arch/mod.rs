// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! One module per architecture; each offers the same functions.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
