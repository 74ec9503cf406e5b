// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The VMM and its guest, on real KVM.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

#[path = "vmm/garbage.rs"]
mod garbage;
#[path = "vmm/halts.rs"]
mod halts;
#[path = "vmm/kvm.rs"]
mod kvm;
#[path = "vmm/lifecycle.rs"]
mod lifecycle;
