// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Interrupts, with the kernel's controllers and without.
// UNSAFE: KVM_INTERRUPT, which kvm-ioctls lacks.
#![expect(unsafe_code)]

use std::io;

use kvm_bindings::{KVM_CAP_SPLIT_IRQCHIP, KVMIO, kvm_enable_cap, kvm_interrupt, kvm_msi};
use kvm_ioctls::{VcpuFd, VmFd};
use vcpu_state::VcpuIndex;
use vmm_sys_util::ioctl::ioctl_with_ref;
use vmm_sys_util::ioctl_iow_nr;

use super::layout;
use crate::vmm::config::Irqchip;
use crate::vmm::error::Error;

ioctl_iow_nr!(KVM_INTERRUPT, KVMIO, 0x86, kvm_interrupt);

/// Lines of the I/O APIC that user space would have, were there one.
const IOAPIC_LINES: u64 = 24;
/// Where message-signalled interrupts are written to.
const MSI_ADDRESS: u32 = 0xfee0_0000;

/// Makes what the VM needs before its first vCPU.
pub(in crate::vmm) fn create_irqchip(vm: &VmFd, irqchip: Irqchip) -> Result<(), Error> {
    vm.set_identity_map_address(layout::IDENTITY_MAP)
        .map_err(Error::kvm("KVM_SET_IDENTITY_MAP_ADDR"))?;
    vm.set_tss_address(layout::TSS).map_err(Error::kvm("KVM_SET_TSS_ADDR"))?;
    match irqchip {
        Irqchip::InKernel => vm.create_irq_chip().map_err(Error::kvm("KVM_CREATE_IRQCHIP")),
        Irqchip::Split => {
            let mut cap = kvm_enable_cap { cap: KVM_CAP_SPLIT_IRQCHIP, ..Default::default() };
            cap.args[0] = IOAPIC_LINES;
            vm.enable_cap(&cap).map_err(Error::kvm("KVM_CAP_SPLIT_IRQCHIP"))
        }
        Irqchip::UserSpace => Ok(()),
    }
}

/// Raises `vector` through the kernel's local APIC of that vCPU.
pub(in crate::vmm) fn signal(vm: &VmFd, vcpu: VcpuIndex, vector: u8) -> Result<(), Error> {
    let apic_id = u32::try_from(vcpu.get()).unwrap_or(u32::MAX);
    let msi = kvm_msi {
        // Fixed delivery, edge-triggered, to one physical APIC ID (below 64, `layout` says).
        address_lo: MSI_ADDRESS | (apic_id << 12),
        data: vector.into(),
        ..Default::default()
    };
    vm.signal_msi(msi).map(drop).map_err(Error::kvm("KVM_SIGNAL_MSI"))
}

/// Whether the guest can take an interrupt right now.
pub(in crate::vmm) fn can_inject(vcpu: &mut VcpuFd) -> bool {
    let run = vcpu.get_kvm_run();
    run.ready_for_interrupt_injection != 0 && run.if_flag != 0
}

/// Whether the guest has its interrupts on.
pub(in crate::vmm) fn interrupts_enabled(vcpu: &mut VcpuFd) -> bool {
    vcpu.get_kvm_run().if_flag != 0
}

/// Asks for an exit as soon as the guest can take an interrupt, or no longer.
pub(in crate::vmm) fn request_window(vcpu: &mut VcpuFd, wanted: bool) {
    vcpu.get_kvm_run().request_interrupt_window = wanted.into();
}

/// Has the guest take `vector` at its next entry. No other can be injected before that: KVM would
/// forget this one.
pub(in crate::vmm) fn inject(vcpu: &mut VcpuFd, vector: u8) -> io::Result<()> {
    vcpu.get_kvm_run().ready_for_interrupt_injection = 0;
    let interrupt = kvm_interrupt { irq: vector.into() };
    // SAFETY: the ioctl reads a kvm_interrupt, and `vcpu` is a vCPU.
    let result = unsafe { ioctl_with_ref(vcpu, KVM_INTERRUPT(), &interrupt) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
