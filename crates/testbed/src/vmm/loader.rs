// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Puts the guest's image and its boot information into memory.

use std::io::Cursor;

use linux_loader::loader::{Elf, KernelLoader};
use vm_memory::{Bytes, GuestAddress};

use super::abi::{self, BootInfo};
use super::arch::layout;
use super::config::{HaltMechanism, Privilege, VmConfig};
use super::error::Error;
use super::memory::Memory;

/// The guest, as build.rs made it.
const GUEST: &[u8] = include_bytes!(env!("GUEST_ELF"));

/// Loads the guest; returns the address of its first instruction.
pub(super) fn load(memory: &Memory) -> Result<u64, Error> {
    let loaded = Elf::load(&**memory, None, &mut Cursor::new(GUEST), None).map_err(Error::Load)?;
    Ok(loaded.kernel_load.0)
}

/// Tells the guest what it is for.
pub(super) fn write_boot_info(memory: &Memory, config: &VmConfig) -> Result<(), Error> {
    let local = config.halt_mechanism() == HaltMechanism::InKernel;
    let info = BootInfo {
        magic: abi::MAGIC,
        version: abi::VERSION,
        program: config.program as u32,
        local_irqchip: local.into(),
        tick_ns: if local { 1_000_000_000_u32.checked_div(config.tick_hz).unwrap_or(0) } else { 0 },
        privileged: (config.privilege == Privilege::Kernel).into(),
        vcpus: u32::try_from(config.vcpus).unwrap_or(u32::MAX),
    };
    memory.write_obj(info.words(), GuestAddress(layout::BOOT_INFO)).map_err(Error::AccessMemory)
}
