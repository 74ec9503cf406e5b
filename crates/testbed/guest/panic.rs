// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! A panic says where and ends the VM.

use crate::{abi, arch, console};
use core::panic::PanicInfo;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    console::print("guest panic at ");
    if let Some(location) = info.location() {
        console::print(location.file());
        console::print(" line ");
        console::print_hex(location.line().into());
    }
    console::print("\n");
    arch::exit(abi::STATUS_PANIC)
}
