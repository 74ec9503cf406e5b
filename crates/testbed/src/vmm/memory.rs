// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Guest memory: one region, mapped and given to KVM.
// UNSAFE: KVM is told the address of memory that we mapped.
#![expect(unsafe_code)]

use std::sync::Arc;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, MmapRegion};

use super::arch::layout;
use super::error::Error;

/// The guest's memory, shared with whoever looks into it.
pub(super) type Memory = Arc<GuestMemoryMmap<()>>;

/// Maps the guest's memory, all of it zero.
pub(super) fn map() -> Result<Memory, Error> {
    let range = (GuestAddress(layout::MEMORY_START), layout::MEMORY_SIZE);
    GuestMemoryMmap::from_ranges(&[range]).map(Arc::new).map_err(Error::MapMemory)
}

/// Gives it to the VM. The caller keeps `memory` for as long as a vCPU may run.
pub(super) fn register(vm: &VmFd, memory: &Memory) -> Result<(), Error> {
    for (slot, region) in (0..).zip(memory.iter()) {
        let mapping: &MmapRegion<()> = region;
        let slot = kvm_userspace_memory_region {
            slot,
            flags: 0,
            guest_phys_addr: region.start_addr().0,
            memory_size: region.len(),
            userspace_addr: mapping.as_ptr() as u64,
        };
        // SAFETY: the mapping is `memory_size` bytes long, and outlives the VM's vCPUs: `Vm` drops
        // the memory last, and each vCPU's thread holds it until it has closed its vCPU or given it
        // back to the `Vm`.
        unsafe { vm.set_user_memory_region(slot) }
            .map_err(Error::kvm("KVM_SET_USER_MEMORY_REGION"))?;
    }
    Ok(())
}
