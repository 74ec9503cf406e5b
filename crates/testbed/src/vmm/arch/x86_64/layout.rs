// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Where what is in guest memory. The guest's linker script puts its image at 1 MiB.

use crate::vmm::abi::Mailbox;

/// First address of the one memory region.
pub(in crate::vmm) const MEMORY_START: u64 = 0;
/// Its size in bytes: small, so that a VM starts fast, and a multiple of the page tables' 2 MiB.
pub(in crate::vmm) const MEMORY_SIZE: usize = 4 << 20;
/// Most vCPUs of a VM: mailboxes and stacks have their place.
pub(in crate::vmm) const MAX_VCPUS: usize = 64;

/// Top-level page table.
pub(super) const PML4: u64 = 0x1000;
/// Second-level page table.
pub(super) const PDPT: u64 = 0x2000;
/// Third-level page table, of 2 MiB pages.
pub(super) const PD: u64 = 0x3000;
/// Segment descriptors.
pub(super) const GDT: u64 = 0x4000;
/// The boot information.
pub(in crate::vmm) const BOOT_INFO: u64 = 0x5000;
/// The mailboxes, one after the other.
const MAILBOXES: u64 = 0x6000;
/// The stacks, one after the other.
const STACKS: u64 = 0x20_0000;
/// Size of each.
const STACK_SIZE: u64 = 0x4000;
/// KVM on VT-x without "unrestricted guest" wants three pages and one more; out of the way.
pub(super) const TSS: usize = 0xfffb_d000;
/// See [`TSS`].
pub(super) const IDENTITY_MAP: u64 = 0xfffb_c000;

/// Address of a vCPU's mailbox.
pub(in crate::vmm) const fn mailbox(index: usize) -> u64 {
    MAILBOXES + (index * size_of::<Mailbox>()) as u64
}

/// Address just above a vCPU's stack.
pub(super) const fn stack_top(index: usize) -> u64 {
    STACKS + (index as u64 + 1) * STACK_SIZE
}

const _: () = assert!(mailbox(MAX_VCPUS) <= 0x10_0000);
const _: () = assert!(stack_top(MAX_VCPUS - 1) <= MEMORY_SIZE as u64);
