// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The first instructions, and those of the interrupt and exception handlers.
//!
//! The two interrupt handlers are assembly, because every instruction counts where the host
//! interprets the guest's kernel mode (about 0.8 us each). Each comes twice, with and without the
//! end-of-interrupt write, so that no handler has to ask.

use crate::abi;
use core::arch::global_asm;

unsafe extern "C" {
    /// 32 handlers of [`EXCEPTION_STRIDE`] bytes each.
    pub fn exception_handlers();
    /// Answers a request; the VMM injected the vector.
    pub fn request_injected();
    /// Answers a request; the local APIC delivered it.
    pub fn request_local();
    /// Counts a tick; the VMM injected the vector.
    pub fn tick_injected();
    /// Counts a tick; the local APIC delivered it.
    pub fn tick_local();
    /// Gives the tick another period; the local APIC delivered it.
    pub fn set_tick_local();
    /// A spurious interrupt of the local APIC: nothing to do, nothing to acknowledge.
    pub fn spurious();
}

/// Distance between two of the [`exception_handlers`].
pub const EXCEPTION_STRIDE: u64 = 16;

// RDI: boot information. GS base: mailbox; the VMM gives its address in RSI as well.
global_asm!(
    ".globl _start",
    "_start:",
    "call {run}",
    "ud2",
    run = sym crate::run,
);

global_asm!(
    ".macro answer",
    "  mov eax, gs:[{request}]",
    "  mov gs:[{response}], eax",
    "  inc qword ptr gs:[{requests}]",
    ".endm",
    // IA32_X2APIC_EOI.
    ".macro end_of_interrupt",
    "  mov ecx, 0x80b",
    "  xor eax, eax",
    "  xor edx, edx",
    "  wrmsr",
    ".endm",
    ".balign 16",
    "request_injected:",
    "  push rax",
    "  answer",
    "  pop rax",
    "  iretq",
    ".balign 16",
    "request_local:",
    "  push rax",
    "  push rcx",
    "  push rdx",
    "  answer",
    "  end_of_interrupt",
    "  pop rdx",
    "  pop rcx",
    "  pop rax",
    "  iretq",
    ".balign 16",
    "tick_injected:",
    "  inc qword ptr gs:[{ticks}]",
    "  iretq",
    ".balign 16",
    "tick_local:",
    "  push rax",
    "  push rcx",
    "  push rdx",
    "  inc qword ptr gs:[{ticks}]",
    "  end_of_interrupt",
    "  pop rdx",
    "  pop rcx",
    "  pop rax",
    "  iretq",
    // IA32_X2APIC_INIT_COUNT, in nanoseconds (see apic.rs).
    ".balign 16",
    "set_tick_local:",
    "  push rax",
    "  push rcx",
    "  push rdx",
    "  mov eax, gs:[{tick_ns}]",
    "  mov gs:[{tick_ns_set}], eax",
    "  mov ecx, 0x838",
    "  xor edx, edx",
    "  wrmsr",
    "  end_of_interrupt",
    "  pop rdx",
    "  pop rcx",
    "  pop rax",
    "  iretq",
    ".balign 16",
    "spurious:",
    "  iretq",
    request = const abi::MAILBOX_REQUEST,
    response = const abi::MAILBOX_RESPONSE,
    requests = const abi::MAILBOX_REQUESTS,
    ticks = const abi::MAILBOX_TICKS,
    tick_ns = const abi::MAILBOX_TICK_NS,
    tick_ns_set = const abi::MAILBOX_TICK_NS_SET,
);

// An exception is the end: no register is saved. The vectors in the mask push an error code of
// their own; the others get a 0 in its place.
global_asm!(
    ".balign 16",
    "exception_handlers:",
    ".set vector, 0",
    ".rept 32",
    "  .balign 16",
    "  .if ((0x60227d00 >> vector) & 1) == 0",
    "    push 0",
    "  .endif",
    "  push vector",
    "  jmp exception_common",
    "  .set vector, vector + 1",
    ".endr",
    ".balign 16",
    "exception_common:",
    "  pop rdi",
    "  pop rsi",
    "  pop rdx",
    "  and rsp, -16",
    "  call {exception}",
    "  ud2",
    exception = sym super::idt::exception,
);
