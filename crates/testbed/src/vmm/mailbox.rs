// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The VMM's view of a vCPU's mailbox in guest memory.
// UNSAFE: a mailbox is read and written in place, shared with the guest.
#![expect(unsafe_code)]

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use vm_memory::{GuestAddress, GuestMemoryBackend};

use super::abi::{self, Mailbox};
use super::arch::layout;
use super::error::Error;
use super::memory::Memory;

/// A vCPU's mailbox, shared with the guest: nothing in it is to be trusted.
#[derive(Clone)]
pub struct SharedMailbox {
    mailbox: NonNull<Mailbox>,
    /// Keeps the mapping alive.
    _memory: Memory,
}

// SAFETY: the mailbox consists of atomics, the memory is shared by an Arc.
unsafe impl Send for SharedMailbox {}
// SAFETY: as above.
unsafe impl Sync for SharedMailbox {}

impl SharedMailbox {
    pub(super) fn new(memory: &Memory, index: usize) -> Result<Self, Error> {
        let address = GuestAddress(layout::mailbox(index));
        let slice = memory.get_slice(address, size_of::<Mailbox>()).map_err(Error::AccessMemory)?;
        let pointer = slice.ptr_guard_mut().as_ptr().cast::<Mailbox>();
        match NonNull::new(pointer) {
            Some(mailbox) if mailbox.is_aligned() => Ok(Self { mailbox, _memory: memory.clone() }),
            _ => Err(Error::Unsupported("guest memory is not aligned to a page")),
        }
    }

    /// Writes a request for the guest; raise [`Vector::Request`](super::Vector::Request) next.
    #[inline]
    pub fn post(&self, request: u32) {
        self.request.store(request, Ordering::Release);
    }

    /// The request that the guest answered last.
    #[inline]
    pub fn answered(&self) -> u32 {
        self.response.load(Ordering::Acquire)
    }

    /// Whether the vCPU is set up: its program runs.
    pub fn is_ready(&self) -> bool {
        self.stage.load(Ordering::Acquire) == abi::STAGE_READY
    }
}

impl Deref for SharedMailbox {
    type Target = Mailbox;

    #[inline]
    fn deref(&self) -> &Mailbox {
        // SAFETY: the pointer is aligned, in bounds and kept mapped by `_memory`; any bytes make a
        // mailbox, and what the guest changes meanwhile are atomics.
        unsafe { self.mailbox.as_ref() }
    }
}

impl fmt::Debug for SharedMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
