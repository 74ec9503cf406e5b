// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the VMM and its guest agree on. Both sides compile this one file.
//!
//! Registers at the guest's entry are the architecture module's business; it passes on the
//! guest-physical address of the [`BootInfo`], the vCPU's index, and the address of the vCPU's
//! [`Mailbox`].

use core::mem::{align_of, offset_of, size_of};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// [`BootInfo::magic`].
pub const MAGIC: u32 = u32::from_le_bytes(*b"vcsc");
/// [`BootInfo::version`]: changes with every change of this file's layout.
pub const VERSION: u32 = 1;

/// What the VM is for. Written by the VMM before the first vCPU runs, then read-only.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`VERSION`].
    pub version: u32,
    /// One of the `PROGRAM_` constants.
    pub program: u32,
    /// 1: interrupts come from a local interrupt controller that the guest drives and acknowledges
    /// itself; 0: the VMM injects vectors, and nothing is acknowledged.
    pub local_irqchip: u32,
    /// First period of the guest's own tick in nanoseconds; 0: tickless, or the VMM injects the
    /// tick.
    pub tick_ns: u32,
    /// How many vCPUs the VM has.
    pub vcpus: u32,
    /// 1: the guest runs in its kernel mode; 0: in user mode, where it cannot set anything up.
    pub privileged: u32,
}

impl BootInfo {
    /// The same as it lies in memory.
    pub const fn words(self) -> [u32; 7] {
        let Self { magic, version, program, local_irqchip, tick_ns, vcpus, privileged } = self;
        [magic, version, program, local_irqchip, tick_ns, vcpus, privileged]
    }
}

/// Enables interrupts and halts for ever. The handlers answer requests and count ticks.
pub const PROGRAM_IDLE: u32 = 0;
/// Prints [`HELLO`] and ends with status 0.
pub const PROGRAM_HELLO: u32 = 1;
/// Increments [`Mailbox::count`] for ever, in kernel mode with interrupts on.
pub const PROGRAM_COUNT: u32 = 2;
/// Writes to [`PORT_DOORBELL`] for ever, and increments [`Mailbox::count`] each time.
pub const PROGRAM_DOORBELL: u32 = 3;
/// Makes one hypercall that changes nothing and ends with status 0.
pub const PROGRAM_HYPERCALL: u32 = 4;
/// Executes an undefined instruction: the guest reports the exception.
pub const PROGRAM_UNDEFINED: u32 = 5;
/// Breaks its own exception handling, then faults.
pub const PROGRAM_TRIPLE_FAULT: u32 = 6;
/// Writes to a port that no device is at.
pub const PROGRAM_UNKNOWN_PORT: u32 = 7;
/// Halts with interrupts off: only the VMM can end this.
pub const PROGRAM_HALT_FOR_EVER: u32 = 8;
/// Panics: the guest reports where.
pub const PROGRAM_PANIC: u32 = 9;
/// Reads memory that does not exist.
pub const PROGRAM_UNKNOWN_MEMORY: u32 = 10;
/// Executes a 16-byte compare-and-exchange and ends with status 0.
pub const PROGRAM_CMPXCHG16B: u32 = 11;

/// What [`PROGRAM_HELLO`] prints.
pub const HELLO: &str = "hello from the guest\n";

/// What a vCPU and the VMM tell each other. One cache line per direction and purpose.
/// The gaps are atomics, too: a guest may write to them while the VMM looks.
#[repr(C, align(256))]
#[derive(Debug, Default)]
pub struct Mailbox {
    /// VMM: number of the newest request; the interrupt follows.
    pub request: AtomicU32,
    /// VMM: the period that the guest's own tick shall have, in nanoseconds; 0: none.
    pub tick_ns: AtomicU32,
    _to_guest: [AtomicU32; 14],
    /// Guest: the request that its interrupt handler saw last.
    pub response: AtomicU32,
    /// Guest: the [`tick_ns`](Self::tick_ns) that its handler saw last.
    pub tick_ns_set: AtomicU32,
    _to_host: [AtomicU32; 14],
    /// Guest: a `STAGE_` constant.
    pub stage: AtomicU32,
    _stage: AtomicU32,
    /// Guest: request interrupts handled.
    pub requests: AtomicU64,
    /// Guest: tick interrupts handled.
    pub ticks: AtomicU64,
    /// Guest: counter of [`PROGRAM_COUNT`] and [`PROGRAM_DOORBELL`].
    pub count: AtomicU64,
}

/// The vCPU has not got to the guest's Rust code.
pub const STAGE_RESET: u32 = 0;
/// The vCPU is set up and its program begins: interrupts reach it from now on.
pub const STAGE_READY: u32 = 1;

/// Offset of [`Mailbox::request`], for assembly.
pub const MAILBOX_REQUEST: usize = offset_of!(Mailbox, request);
/// Offset of [`Mailbox::tick_ns`], for assembly.
pub const MAILBOX_TICK_NS: usize = offset_of!(Mailbox, tick_ns);
/// Offset of [`Mailbox::tick_ns_set`], for assembly.
pub const MAILBOX_TICK_NS_SET: usize = offset_of!(Mailbox, tick_ns_set);
/// Offset of [`Mailbox::response`], for assembly.
pub const MAILBOX_RESPONSE: usize = offset_of!(Mailbox, response);
/// Offset of [`Mailbox::requests`], for assembly.
pub const MAILBOX_REQUESTS: usize = offset_of!(Mailbox, requests);
/// Offset of [`Mailbox::ticks`], for assembly.
pub const MAILBOX_TICKS: usize = offset_of!(Mailbox, ticks);
/// Offset of [`Mailbox::count`], for assembly.
pub const MAILBOX_COUNT: usize = offset_of!(Mailbox, count);

const _: () = assert!(size_of::<Mailbox>() == 256 && align_of::<Mailbox>() == 256);
const _: () = assert!(MAILBOX_RESPONSE == 64 && offset_of!(Mailbox, stage) == 128);
const _: () = assert!(size_of::<BootInfo>() == 28);

/// Vector of the tick.
pub const VECTOR_TICK: u8 = 0x30;
/// Vector of a request.
pub const VECTOR_REQUEST: u8 = 0x31;
/// Vector of a change of the tick's period, where the guest has a tick of its own.
pub const VECTOR_SET_TICK: u8 = 0x32;

/// First port of the serial device (an 8250).
pub const PORT_SERIAL: u16 = 0x3f8;
/// A 32-bit write ends the vCPU with that status.
pub const PORT_EXIT: u16 = 0x501;
/// An 8-bit write does nothing but leave the guest.
pub const PORT_DOORBELL: u16 = 0x510;
/// A port that no device is at.
pub const PORT_NOBODY: u16 = 0x666;
/// An address that no memory and no device is at.
pub const ADDRESS_NOBODY: u64 = 0x3000_0000;

/// Status at [`PORT_EXIT`]: all is well.
pub const STATUS_OK: u32 = 0;
/// Status: the guest panicked; the serial output says where.
pub const STATUS_PANIC: u32 = 0x100;
/// Status: the boot information is not of this version.
pub const STATUS_BAD_BOOT_INFO: u32 = 0x101;
/// Status: exception `status - STATUS_EXCEPTION`; the serial output says where.
pub const STATUS_EXCEPTION: u32 = 0x200;
