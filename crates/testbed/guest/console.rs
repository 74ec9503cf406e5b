// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Text for whoever reads the VM's serial output. No `core::fmt`: it is large, and interpreted
//! slowly where the host cannot run the guest's kernel mode natively.

use crate::arch;

/// Prints `text`.
pub fn print(text: &str) {
    for byte in text.bytes() {
        arch::write_serial(byte);
    }
}

/// Prints `value` as 16 hexadecimal digits.
pub fn print_hex(value: u64) {
    print("0x");
    for shift in (0..16).rev() {
        let digit = (value >> (4 * shift)) as u8 & 0xf;
        arch::write_serial(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}
