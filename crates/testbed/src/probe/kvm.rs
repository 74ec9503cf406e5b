// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What KVM says of itself.

use std::fs;
use std::path::Path;

use kvm_bindings as kvm;
use kvm_ioctls::Kvm;

use super::finding::Finding;
use super::pv_features;

/// The stable version of KVM's interface; anything else is no KVM.
const API_VERSION: i32 = 12;

/// Capabilities that the project's crates use, or look for.
const CAPABILITIES: [(u32, &str); 19] = [
    (kvm::KVM_CAP_IRQCHIP, "cap_irqchip"),
    (kvm::KVM_CAP_MP_STATE, "cap_mp_state"),
    (kvm::KVM_CAP_IRQFD, "cap_irqfd"),
    (kvm::KVM_CAP_IOEVENTFD, "cap_ioeventfd"),
    (kvm::KVM_CAP_TSC_DEADLINE_TIMER, "cap_tsc_deadline_timer"),
    (kvm::KVM_CAP_SIGNAL_MSI, "cap_signal_msi"),
    (kvm::KVM_CAP_READONLY_MEM, "cap_readonly_mem"),
    (kvm::KVM_CAP_SPLIT_IRQCHIP, "cap_split_irqchip"),
    (kvm::KVM_CAP_X2APIC_API, "cap_x2apic_api"),
    (kvm::KVM_CAP_IMMEDIATE_EXIT, "cap_immediate_exit"),
    (kvm::KVM_CAP_X86_DISABLE_EXITS, "cap_x86_disable_exits"),
    (kvm::KVM_CAP_HALT_POLL, "cap_halt_poll"),
    (kvm::KVM_CAP_STEAL_TIME, "cap_steal_time"),
    (kvm::KVM_CAP_X86_USER_SPACE_MSR, "cap_x86_user_space_msr"),
    (kvm::KVM_CAP_X86_MSR_FILTER, "cap_x86_msr_filter"),
    (kvm::KVM_CAP_BINARY_STATS_FD, "cap_binary_stats_fd"),
    (kvm::KVM_CAP_SYNC_REGS, "cap_sync_regs"),
    (kvm::KVM_CAP_NR_VCPUS, "cap_nr_vcpus"),
    (kvm::KVM_CAP_MAX_VCPUS, "cap_max_vcpus"),
];

/// Modules that make KVM work, and what with.
const BACK_ENDS: [(&str, &str, &str); 3] =
    [("kvm_intel", "VT-x", "vmx"), ("kvm_amd", "SVM", "svm"), ("kvm_pvm", "software", "")];

/// All that needs no guest.
pub(super) fn findings() -> Vec<Finding> {
    let kvm = match Kvm::new() {
        Ok(kvm) => kvm,
        Err(error) => return vec![Finding::missing("kvm", format!("/dev/kvm: {error}")), kind()],
    };
    let version = kvm.get_api_version();
    if version < API_VERSION {
        let why = format!("/dev/kvm says API version {version}, {API_VERSION} is wanted");
        return vec![Finding::missing("kvm", why), kind()];
    }
    let mut findings =
        vec![Finding::here("kvm", "API version of /dev/kvm").value(i64::from(version)), kind()];
    let vm = kvm.create_vm();
    findings.push(match &vm {
        Ok(_) => Finding::here("kvm_create_vm", "KVM_CREATE_VM"),
        Err(error) => Finding::missing("kvm_create_vm", format!("KVM_CREATE_VM failed: {error}")),
    });
    // A VM knows better what it can than the device does.
    findings.extend(CAPABILITIES.map(|(number, name)| {
        let value = match &vm {
            Ok(vm) => vm.check_extension_raw(number.into()),
            Err(_) => kvm.check_extension_raw(number.into()),
        };
        let told = format!("KVM_CHECK_EXTENSION of {number}");
        if value > 0 {
            Finding::here(name, told).value(i64::from(value))
        } else {
            Finding::missing(name, format!("{told} says {value}"))
        }
    }));
    findings.extend(pv_features::findings(&kvm));
    findings
}

/// What KVM runs guests with, and whether this host is a guest itself.
fn kind() -> Finding {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flag = |name: &str| {
        cpuinfo
            .lines()
            .find(|line| line.starts_with("flags"))
            .is_some_and(|line| line.split_whitespace().any(|flag| flag == name))
    };
    let module = BACK_ENDS.iter().find(|(name, ..)| Path::new("/sys/module").join(name).is_dir());
    let nested = flag("hypervisor");
    let Some((name, kind, cpu_flag)) = module else {
        let flags = if flag("vmx") || flag("svm") { "the CPU could" } else { "no vmx or svm flag" };
        return Finding::missing(
            "kvm_kind",
            format!("none of the modules kvm_intel, kvm_amd and kvm_pvm is there ({flags})"),
        );
    };
    let software = cpu_flag.is_empty();
    let value = match (software, nested) {
        (true, _) => (*kind).to_owned(),
        (false, false) => format!("hardware {kind}"),
        (false, true) => format!("nested {kind}"),
    };
    let cpu =
        if nested { "the CPU's hypervisor flag: a guest itself" } else { "no hypervisor flag" };
    Finding::here("kvm_kind", format!("module {name}; {cpu}")).value(value)
}
