// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The local APIC, which the VMM has put into x2APIC mode already.

use crate::abi::VECTOR_TICK;
use core::arch::asm;

/// Vector of the spurious interrupt: its low four bits are set, as old APICs want.
pub const VECTOR_SPURIOUS: u8 = 0x3f;

const MSR_SPURIOUS: u32 = 0x80f;
const MSR_TIMER: u32 = 0x832;
const MSR_INITIAL_COUNT: u32 = 0x838;
const MSR_DIVIDE: u32 = 0x83e;

/// SPIV: the APIC is enabled by software.
const ENABLED: u64 = 1 << 8;
/// LVT timer: periodic mode.
const PERIODIC: u64 = 1 << 17;
/// Divide configuration: by 1.
const DIVIDE_BY_1: u64 = 0b1011;
/// KVM's APIC timer counts nanoseconds, unless the VMM says otherwise
/// (KVM_CAP_X86_APIC_BUS_CYCLES_NS).
const NS_PER_COUNT: u32 = 1;

/// Lets interrupts through.
pub fn enable() {
    write_msr(MSR_SPURIOUS, ENABLED | u64::from(VECTOR_SPURIOUS));
}

/// Starts a periodic tick, or makes it possible to start it later if `period_ns` is 0.
pub fn start_timer(period_ns: u32) {
    write_msr(MSR_DIVIDE, DIVIDE_BY_1);
    write_msr(MSR_TIMER, PERIODIC | u64::from(VECTOR_TICK));
    write_msr(MSR_INITIAL_COUNT, (period_ns / NS_PER_COUNT).into());
}

fn write_msr(msr: u32, value: u64) {
    // SAFETY: only registers of the local APIC are written; no memory changes.
    unsafe {
        asm!(
            "wrmsr",
            in("ecx") msr,
            in("eax") value as u32,
            in("edx") (value >> 32) as u32,
            options(nomem, nostack),
        );
    }
}
