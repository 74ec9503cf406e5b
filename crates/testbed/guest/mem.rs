// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The memory functions that the compiler may call, byte by byte: `core` does not bring them on a
//! target that has a C library.

/// # Safety
///
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    for at in 0..len {
        // SAFETY: in bounds of both, says the caller. Volatile, lest this become a call of itself.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
    to
}

/// # Safety
///
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    for at in 0..len {
        // SAFETY: in bounds, says the caller. Volatile, lest this become a call of itself.
        unsafe { to.add(at).write_volatile(byte as u8) };
    }
    to
}
