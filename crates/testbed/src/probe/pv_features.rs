// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Paravirtual features that KVM can offer to a guest.

use kvm_ioctls::Kvm;

use super::finding::Finding;

/// CPUID leaf with KVM's features; the bits are in EAX. From the kernel's documentation of KVM's
/// CPUID bits.
#[cfg(target_arch = "x86_64")]
const FEATURES: u32 = 0x4000_0001;
#[cfg(target_arch = "x86_64")]
const BITS: [(u32, &str); 9] = [
    (3, "pv_clocksource2"),
    (4, "pv_async_pf"),
    (5, "pv_steal_time"),
    (6, "pv_eoi"),
    (7, "pv_unhalt"),
    (9, "pv_tlb_flush"),
    (11, "pv_send_ipi"),
    (12, "pv_poll_control"),
    (13, "pv_sched_yield"),
];

/// What KVM_GET_SUPPORTED_CPUID has.
#[cfg(target_arch = "x86_64")]
pub(super) fn findings(kvm: &Kvm) -> Vec<Finding> {
    let cpuid = match kvm.get_supported_cpuid(kvm_bindings::KVM_MAX_CPUID_ENTRIES) {
        Ok(cpuid) => cpuid,
        Err(error) => {
            let why = format!("KVM_GET_SUPPORTED_CPUID failed: {error}");
            return BITS.map(|(_, name)| Finding::missing(name, &*why)).into();
        }
    };
    let features =
        cpuid.as_slice().iter().find(|entry| entry.function == FEATURES).map_or(0, |leaf| leaf.eax);
    BITS.map(|(bit, name)| {
        let told = format!("bit {bit} of CPUID {FEATURES:#x} in KVM_GET_SUPPORTED_CPUID");
        if features & (1 << bit) == 0 {
            Finding::missing(name, format!("not set: {told}"))
        } else {
            Finding::here(name, told)
        }
    })
    .into()
}

/// Other architectures tell by capabilities and device attributes.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn findings(_: &Kvm) -> Vec<Finding> {
    Vec::new()
}
