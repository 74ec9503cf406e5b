// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halt polling for VMMs.

#![cfg_attr(not(feature = "std"), no_std)]
#![deny(missing_docs)]

mod halt;
mod policy;

pub use halt::Halt;
pub use policy::Policy;
