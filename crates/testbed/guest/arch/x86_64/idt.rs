// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The interrupt descriptor table. All vCPUs share one; each writes the same values into it, so
//! that none waits for another.

use super::entry;
use crate::abi::{self, VECTOR_REQUEST, VECTOR_SET_TICK, VECTOR_TICK};
use crate::console;
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// Highest vector in use, plus one.
const VECTORS: usize = super::apic::VECTOR_SPURIOUS as usize + 1;
/// Code segment of the VMM's GDT.
const CODE_SELECTOR: u64 = 0x18;

static TABLE: [[AtomicU64; 2]; VECTORS] = [const { [const { AtomicU64::new(0) }; 2] }; VECTORS];

#[repr(C, packed)]
struct Pointer {
    limit: u16,
    base: u64,
}

/// Fills the table and makes this vCPU use it.
pub fn load(local_irqchip: bool) {
    let exceptions = entry::exception_handlers as *const () as u64;
    for vector in 0..32 {
        set_gate(vector, exceptions + vector as u64 * entry::EXCEPTION_STRIDE);
    }
    let (request, tick): (unsafe extern "C" fn(), unsafe extern "C" fn()) = if local_irqchip {
        (entry::request_local, entry::tick_local)
    } else {
        (entry::request_injected, entry::tick_injected)
    };
    set_gate(VECTOR_REQUEST.into(), request as *const () as u64);
    set_gate(VECTOR_TICK.into(), tick as *const () as u64);
    set_gate(VECTOR_SET_TICK.into(), entry::set_tick_local as *const () as u64);
    set_gate(super::apic::VECTOR_SPURIOUS.into(), entry::spurious as *const () as u64);

    let pointer =
        Pointer { limit: (size_of_val(&TABLE) - 1) as u16, base: (&raw const TABLE) as u64 };
    // SAFETY: the table is static and its gates lead to handlers.
    unsafe { asm!("lidt [{}]", in(reg) &pointer, options(readonly, nostack)) };
}

/// A present 64-bit interrupt gate of DPL 0.
fn set_gate(vector: usize, handler: u64) {
    let low =
        (handler & 0xffff) | CODE_SELECTOR << 16 | 0x8e00 << 32 | ((handler >> 16) & 0xffff) << 48;
    if let Some([first, second]) = TABLE.get(vector) {
        second.store(handler >> 32, Ordering::Relaxed);
        first.store(low, Ordering::Relaxed);
    }
}

/// Called by the exception handlers: says what happened and ends the vCPU.
pub extern "C" fn exception(vector: u64, error_code: u64, rip: u64) -> ! {
    console::print("guest exception ");
    console::print_hex(vector);
    console::print(" error ");
    console::print_hex(error_code);
    console::print(" at ");
    console::print_hex(rip);
    console::print("\n");
    super::exit(abi::STATUS_EXCEPTION + vector as u32)
}
