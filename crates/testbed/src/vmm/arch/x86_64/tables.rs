// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Page tables and segment descriptors.

use kvm_bindings::kvm_segment;
use vm_memory::{Bytes, GuestAddress};

use super::layout;
use crate::vmm::config::Privilege;
use crate::vmm::error::Error;
use crate::vmm::memory::Memory;

/// Present, writable, for user space too, accessed.
const TABLE: u64 = 0x27;
/// The same, dirty, and a page of 2 MiB: the CPU has nothing to write into it.
const PAGE: u64 = 0xe7;
const ENTRIES: u64 = 512;

/// Selector of the kernel's code segment; the guest's IDT uses it.
const KERNEL_CODE: u16 = 0x18;
const KERNEL_DATA: u16 = 0x20;
const USER_CODE: u16 = 0x0b;
const USER_DATA: u16 = 0x13;
/// In order of the selectors: null, user code and data, kernel code and data.
const DESCRIPTORS: [u64; 5] =
    [0, 0x00af_fb00_0000_ffff, 0x00cf_f300_0000_ffff, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
/// Last byte of the descriptor table.
pub(super) const GDT_LIMIT: u16 = 5 * 8 - 1;

/// Maps the first GiB one to one and writes the descriptors.
pub(in crate::vmm) fn write_tables(memory: &Memory) -> Result<(), Error> {
    let write = |address: u64, value: u64| {
        memory.write_obj(value, GuestAddress(address)).map_err(Error::AccessMemory)
    };
    write(layout::PML4, layout::PDPT | TABLE)?;
    write(layout::PDPT, layout::PD | TABLE)?;
    for entry in 0..ENTRIES {
        write(layout::PD + 8 * entry, (entry << 21) | PAGE)?;
    }
    for (address, descriptor) in (layout::GDT..).step_by(8).zip(DESCRIPTORS) {
        write(address, descriptor)?;
    }
    Ok(())
}

/// The code and data segments of a privilege level, as the descriptors say.
pub(super) fn segments(privilege: Privilege) -> (kvm_segment, kvm_segment) {
    let (code, data, dpl) = match privilege {
        Privilege::Kernel => (KERNEL_CODE, KERNEL_DATA, 0),
        Privilege::User => (USER_CODE, USER_DATA, 3),
    };
    let flat =
        kvm_segment { limit: 0xffff_ffff, present: 1, dpl, s: 1, g: 1, ..Default::default() };
    (
        kvm_segment { selector: code, type_: 11, l: 1, ..flat },
        kvm_segment { selector: data, type_: 3, db: 1, ..flat },
    )
}
