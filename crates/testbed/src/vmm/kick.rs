// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Gets a vCPU's thread out of whatever it is in: the guest, a halt in KVM, a halt in the VMM.
//!
//! A signal alone can come just before `KVM_RUN` and be gone by then. So its handler, on the vCPU's
//! own thread, sets `immediate_exit` in the shared `kvm_run`, which makes `KVM_RUN` return at once.
// UNSAFE: a signal handler that writes to `kvm_run`.
#![expect(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};

use halt_poll::wake_sleeper;
use kvm_ioctls::VcpuFd;
use vcpu_state::{Kick, LoopState, VcpuIndex, VcpuTable};
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

use super::error::Error;
use super::thread::{ThreadId, futex_wait, futex_wake};

thread_local! {
    /// `immediate_exit` of the vCPU that this thread runs.
    static IMMEDIATE_EXIT: Cell<*const AtomicU8> = const { Cell::new(ptr::null()) };
}

fn kick_signal() -> i32 {
    SIGRTMIN()
}

extern "C" fn on_kick(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let flag = IMMEDIATE_EXIT.get();
    if !flag.is_null() {
        // SAFETY: non-null only while the vCPU's `kvm_run` is mapped, see `RunFlag`.
        unsafe { &*flag }.store(1, Ordering::Relaxed);
    }
}

/// Gets a thread out of the guest, or keeps it from entering.
pub(super) fn signal(thread: ThreadId) -> io::Result<()> {
    thread.signal(kick_signal())
}

/// Makes the kick signal known to this process.
pub(super) fn install_handler() -> Result<(), Error> {
    register_signal_handler(kick_signal(), on_kick)
        .map_err(|error| Error::System { call: "sigaction", source: error.into() })
}

/// This thread runs that vCPU, says the value while it lives.
pub(super) struct RunFlag {
    flag: *const AtomicU8,
}

impl RunFlag {
    /// Takes the place of any earlier one of this thread. The vCPU must outlive it.
    pub(super) fn new(vcpu: &mut VcpuFd) -> Self {
        let flag = (&raw mut vcpu.get_kvm_run().immediate_exit).cast::<AtomicU8>().cast_const();
        IMMEDIATE_EXIT.set(flag);
        Self { flag }
    }

    /// Forgets a kick that has done its work. One that comes from now on ends the next `KVM_RUN`.
    pub(super) fn clear(&self) {
        // SAFETY: `kvm_run` stays mapped for as long as the vCPU lives, which outlives `self`.
        unsafe { &*self.flag }.store(0, Ordering::Relaxed);
    }
}

impl Drop for RunFlag {
    fn drop(&mut self) {
        IMMEDIATE_EXIT.set(ptr::null());
    }
}

/// All vCPUs of a VM, for whoever wants something of one.
#[derive(Debug)]
pub(super) struct Vcpus {
    pub(super) table: VcpuTable,
    /// Kernel IDs of the threads; 0: none.
    threads: Box<[AtomicI32]>,
    /// The VM ends: every loop ends at its next turn.
    ending: AtomicBool,
    /// 1: every loop pauses at its next turn, and sleeps on this.
    pausing: AtomicU32,
}

impl Vcpus {
    pub(super) fn new(table: VcpuTable) -> Self {
        let threads = (0..table.len()).map(|_| AtomicI32::new(0)).collect();
        Self { table, threads, ending: AtomicBool::new(false), pausing: AtomicU32::new(0) }
    }

    pub(super) fn index(&self, index: usize) -> Result<VcpuIndex, Error> {
        let count = self.table.len();
        self.table.index(index).map_err(|_| Error::NoSuchVcpu { index, count })
    }

    /// A vCPU's thread, while it runs.
    pub(super) fn thread(&self, index: usize) -> Option<ThreadId> {
        ThreadId::from_raw(self.threads.get(index)?.load(Ordering::Acquire))
    }

    /// The calling thread runs `index` from now on, or no longer.
    pub(super) fn set_thread(&self, index: usize, thread: Option<ThreadId>) {
        if let Some(slot) = self.threads.get(index) {
            slot.store(thread.map_or(0, ThreadId::get), Ordering::Release);
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Has the vCPU's loop look at what the caller has for it, as soon as possible.
    pub(super) fn request_exit(&self, index: VcpuIndex) {
        match self.table.request_exit(index) {
            Ok(Kick::WakeSleeper) => {
                if let Ok(word) = self.table.wake_word(index) {
                    wake_sleeper(word);
                }
            }
            Ok(Kick::InGuest) => self.signal(index),
            // Pending already or seen before the next entry; the index is of this table.
            _ => {}
        }
    }

    /// Ends all loops. Safe to call again and again until they have ended.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.resume();
        for index in self.table.indices() {
            self.request_exit(index);
            // Whoever was told to signal for an earlier request may not have done so yet.
            if self.table.loop_state(index) == Ok(LoopState::InGuest) {
                self.signal(index);
            }
        }
    }

    /// Has all loops pause at their next turn.
    pub(super) fn pause(&self) {
        self.pausing.store(1, Ordering::Release);
        for index in self.table.indices() {
            self.request_exit(index);
        }
    }

    /// Lets all loops go on.
    pub(super) fn resume(&self) {
        self.pausing.store(0, Ordering::Release);
        futex_wake(&self.pausing);
    }

    pub(super) fn is_pausing(&self) -> bool {
        self.pausing.load(Ordering::Acquire) != 0
    }

    /// Sleeps until the pause is over.
    pub(super) fn sleep_while_pausing(&self) -> io::Result<()> {
        while self.is_pausing() {
            futex_wait(&self.pausing, 1)?;
        }
        Ok(())
    }

    /// Gets the vCPU's thread out of the guest, or keeps it from entering; no more than that.
    pub(super) fn signal(&self, index: VcpuIndex) {
        if let Some(thread) = self.thread(index.get()) {
            // Fails only for a thread that has ended meanwhile.
            drop(signal(thread));
        }
    }
}
