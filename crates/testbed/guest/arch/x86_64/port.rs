// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Port I/O. Works at CPL 3 too: the VMM starts the guest with IOPL 3.

use core::arch::asm;

/// Writes a byte.
pub fn write_u8(port: u16, value: u8) {
    // SAFETY: no memory is touched; whatever a device does about it, the VMM emulates.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

/// Writes 32 bits.
pub fn write_u32(port: u16, value: u32) {
    // SAFETY: as above.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack)) };
}
