// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A vCPU, ready for the guest's first instruction.

use kvm_bindings::{
    CpuId, KVM_MAX_CPUID_ENTRIES, KVM_MP_STATE_RUNNABLE, kvm_dtable, kvm_mp_state, kvm_regs,
};
use kvm_ioctls::{Kvm, VcpuFd};
use vcpu_state::VcpuIndex;

use super::{layout, tables};
use crate::vmm::config::{HaltMechanism, VmConfig};
use crate::vmm::error::Error;

/// CR0: protected mode, x87 present, numeric errors, write protection, paging.
const CR0: u64 = 0x8005_0033;
/// CR4: physical address extension, SSE and its exceptions.
const CR4: u64 = 0x620;
/// EFER: long mode, enabled and active.
const EFER: u64 = 0x500;
/// RFLAGS: I/O privilege level 3 (ports work in user space), interrupts off.
const RFLAGS: u64 = 0x3002;
/// APIC base: address, enabled, x2APIC.
const X2APIC: u64 = 0xfee0_0c00;
/// APIC base: the bootstrap processor.
const BOOTSTRAP: u64 = 0x100;

/// Sets up everything that KVM has of a vCPU, to start at `entry`.
pub(in crate::vmm) fn setup_vcpu(
    kvm: &Kvm,
    vcpu: &VcpuFd,
    index: VcpuIndex,
    config: &VmConfig,
    entry: u64,
) -> Result<(), Error> {
    vcpu.set_cpuid2(&cpuid(kvm, index)?).map_err(Error::kvm("KVM_SET_CPUID2"))?;

    let mut sregs = vcpu.get_sregs().map_err(Error::kvm("KVM_GET_SREGS"))?;
    let (code, data) = tables::segments(config.privilege);
    sregs.cs = code;
    sregs.ds = data;
    sregs.es = data;
    sregs.fs = data;
    sregs.ss = data;
    sregs.gs = data;
    sregs.gs.base = layout::mailbox(index.get());
    sregs.gdt = kvm_dtable { base: layout::GDT, limit: tables::GDT_LIMIT, ..Default::default() };
    sregs.idt = kvm_dtable::default();
    sregs.cr0 = CR0;
    sregs.cr3 = layout::PML4;
    sregs.cr4 = CR4;
    sregs.efer = EFER;
    if config.halt_mechanism() == HaltMechanism::InKernel {
        sregs.apic_base = X2APIC | if index.get() == 0 { BOOTSTRAP } else { 0 };
    }
    vcpu.set_sregs(&sregs).map_err(Error::kvm("KVM_SET_SREGS"))?;

    let regs = kvm_regs {
        rip: entry,
        // As if called: the stack is off by a return address.
        rsp: layout::stack_top(index.get()) - 16,
        rdi: layout::BOOT_INFO,
        rsi: layout::mailbox(index.get()),
        rflags: RFLAGS,
        ..Default::default()
    };
    vcpu.set_regs(&regs).map_err(Error::kvm("KVM_SET_REGS"))?;

    if config.halt_mechanism() == HaltMechanism::InKernel {
        // All vCPUs start at once; none waits for a start-up interrupt.
        vcpu.set_mp_state(kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE })
            .map_err(Error::kvm("KVM_SET_MP_STATE"))?;
    }
    Ok(())
}

/// What KVM supports, with this vCPU's APIC ID, which is its index.
fn cpuid(kvm: &Kvm, index: VcpuIndex) -> Result<CpuId, Error> {
    let mut cpuid = kvm
        .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
        .map_err(Error::kvm("KVM_GET_SUPPORTED_CPUID"))?;
    let apic_id = u32::try_from(index.get()).unwrap_or(u32::MAX);
    for entry in cpuid.as_mut_slice() {
        match entry.function {
            1 => {
                entry.ebx = (entry.ebx & 0x00ff_ffff) | (apic_id << 24);
                // x2APIC.
                entry.ecx |= 1 << 21;
            }
            0xb | 0x1f => entry.edx = apic_id,
            _ => {}
        }
    }
    Ok(cpuid)
}
