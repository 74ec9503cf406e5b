// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What the vCPU loops of one VM say of themselves, for anyone to read and to kick.

use alloc::boxed::Box;
use core::fmt;
use core::ops::Deref;

use crate::cache_padded::CachePadded;
use crate::sync::{AtomicU32, Ordering, fence};
use crate::{
    IndexError, Kick, LoopState, MAX_VCPUS, OffCpuView, Pending, RunState, VcpuIndex, WakeWord,
};

/// The loops' half of every vCPU's state, with its kick: one cache-padded slot per vCPU.
///
/// Each field has one writer, the thread that [attached](Self::attach) to the slot; the kick is the
/// exception: kickers set it, the owner clears it. Nothing blocks, allocates or panics but
/// [`new`](Self::new), which allocates.
///
/// ```
/// use vcpu_state::{Kick, LoopState, NoObserver, RunState, VcpuTable};
///
/// let table = VcpuTable::new(2)?;
/// let index = table.index(1)?;
///
/// let mut vcpu = table.attach(index)?; // on the vCPU's thread
/// if !vcpu.enter().exit_request() {
///     // KVM_RUN. Meanwhile, on another thread:
///     assert_eq!(table.kick(index)?, Kick::InGuest);
///     assert_eq!(table.run_state(index, &NoObserver)?, RunState::InGuest);
/// }
/// vcpu.leave();
///
/// vcpu.begin_halt();
/// assert!(vcpu.wake_word().take(), "the kick waited for the halt");
/// vcpu.end_halt();
///
/// drop(vcpu);
/// assert_eq!(table.loop_state(index)?, LoopState::Offline);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VcpuTable {
    slots: Box<[CachePadded<Slot>]>,
}

#[derive(Debug, Default)]
struct Slot {
    wake: WakeWord,
    /// A [`LoopState`]. Written by the owner alone.
    state: AtomicU32,
    /// 1 while there is an owner. Set by whoever becomes it, cleared by the owner.
    claimed: AtomicU32,
}

/// A table has from 1 to [`MAX_VCPUS`] vCPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a VM has 1 to {MAX_VCPUS} vCPUs, not {count}")]
#[non_exhaustive]
pub struct CountError {
    /// What was asked for.
    pub count: usize,
}

/// Why a vCPU's loop could not be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The table has no such vCPU.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Another thread runs this vCPU.
    #[error("vCPU {} has an owner already", index.get())]
    AlreadyAttached {
        /// The vCPU.
        index: VcpuIndex,
    },
}

impl Slot {
    /// Release: who reads the state sees what the owner did before it said so.
    #[inline]
    fn say(&self, state: LoopState) {
        self.state.store(state.to_raw(), Ordering::Release);
    }

    #[inline]
    fn said(&self) -> LoopState {
        LoopState::from_raw(self.state.load(Ordering::Acquire))
    }

    /// `posted` ends with a fence that pairs with the one of `enter`.
    #[inline]
    fn in_guest_or(&self, posted: Kick) -> Kick {
        if posted == Kick::Stored && self.said() == LoopState::InGuest {
            Kick::InGuest
        } else {
            posted
        }
    }
}

impl VcpuTable {
    /// A table of `count` vCPUs, all [`Offline`](LoopState::Offline).
    ///
    /// # Errors
    ///
    /// [`CountError`] for 0 and for more than [`MAX_VCPUS`].
    pub fn new(count: usize) -> Result<Self, CountError> {
        if count == 0 || count > MAX_VCPUS {
            return Err(CountError { count });
        }
        Ok(Self { slots: (0..count).map(|_| CachePadded::default()).collect() })
    }

    /// How many vCPUs there are: at least one.
    #[expect(clippy::len_without_is_empty, reason = "a table is never empty")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many 64-bit words a bitmap of these vCPUs has.
    pub fn words(&self) -> usize {
        self.len().div_ceil(64)
    }

    /// Checks a number that comes from outside against this table.
    ///
    /// # Errors
    ///
    /// [`IndexError`] from [`len`](Self::len) on.
    pub fn index(&self, index: usize) -> Result<VcpuIndex, IndexError> {
        match VcpuIndex::new(index) {
            Ok(checked) if index < self.len() => Ok(checked),
            _ => Err(IndexError { index, limit: self.len() }),
        }
    }

    /// All vCPUs, in order.
    pub fn indices(
        &self,
    ) -> impl ExactSizeIterator<Item = VcpuIndex> + DoubleEndedIterator + use<> {
        VcpuIndex::first(self.len())
    }

    /// Claims the loop of a vCPU: the owner says what it does. For an owner that keeps the table
    /// alive, see [`VcpuOwner::attach`].
    ///
    /// # Errors
    ///
    /// As [`VcpuOwner::attach`].
    pub fn attach(&self, index: VcpuIndex) -> Result<VcpuOwner<&Self>, AttachError> {
        VcpuOwner::attach(self, index)
    }

    /// Kicks a vCPU: ends its halt, or the next one. It sticks until a halt takes it, also while
    /// the vCPU runs, is paused or is offline; any number of kicks before that are one wake-up.
    /// Whatever the caller wrote before is visible to the owner once it took the kick.
    ///
    /// The answer is what is left to do. A running vCPU needs nothing: a kick does not interrupt
    /// the guest.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the table has no such vCPU.
    #[inline]
    pub fn kick(&self, index: VcpuIndex) -> Result<Kick, IndexError> {
        let slot = self.slot(index)?;
        Ok(slot.in_guest_or(slot.wake.kick()))
    }

    /// Asks a vCPU's thread back into the VMM, to look at what the caller has for it (an interrupt
    /// to inject, a pause): ends a halt, and is seen by the next [`enter`](VcpuOwner::enter). It
    /// sticks until [taken](VcpuOwner::take_exit_request).
    ///
    /// [`Kick::InGuest`]: send the thread a signal that gets it out of `KVM_RUN`, also if it has not
    /// got there yet (a handler that sets `immediate_exit`, or a signal that is unblocked in the
    /// guest only). One requester alone is told so, so that a guest is not flooded with signals;
    /// the others get [`Kick::Coalesced`]. If that one is preempted before its signal, the vCPU
    /// runs on until then: who cannot wait looks at [`loop_state`](Self::loop_state) and signals
    /// again while it is [`InGuest`](LoopState::InGuest).
    ///
    /// ```
    /// use vcpu_state::{Kick, VcpuTable};
    ///
    /// let table = VcpuTable::new(1)?;
    /// let index = table.index(0)?;
    /// let mut vcpu = table.attach(index)?;
    /// assert_eq!(table.request_exit(index)?, Kick::Stored, "the loop is in the VMM");
    /// assert!(vcpu.enter().exit_request(), "and finds it before the guest runs");
    /// vcpu.leave();
    /// assert!(vcpu.take_exit_request());
    ///
    /// assert!(!vcpu.enter().any());
    /// assert_eq!(table.request_exit(index)?, Kick::InGuest, "send a signal");
    /// assert_eq!(table.request_exit(index)?, Kick::Coalesced, "it is on its way");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the table has no such vCPU.
    #[inline]
    pub fn request_exit(&self, index: VcpuIndex) -> Result<Kick, IndexError> {
        let slot = self.slot(index)?;
        Ok(slot.in_guest_or(slot.wake.request_exit()))
    }

    /// The vCPU's wake word, to kick it or to wake it by.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the table has no such vCPU.
    #[inline]
    pub fn wake_word(&self, index: VcpuIndex) -> Result<&WakeWord, IndexError> {
        Ok(&self.slot(index)?.wake)
    }

    /// What the vCPU's loop said last.
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the table has no such vCPU.
    #[inline]
    pub fn loop_state(&self, index: VcpuIndex) -> Result<LoopState, IndexError> {
        Ok(self.slot(index)?.said())
    }

    /// What the vCPU does: its loop's word and the observer's, [united](RunState::new).
    ///
    /// # Errors
    ///
    /// [`IndexError`] if the table has no such vCPU.
    #[inline]
    pub fn run_state(
        &self,
        index: VcpuIndex,
        view: &(impl OffCpuView + ?Sized),
    ) -> Result<RunState, IndexError> {
        Ok(RunState::new(self.loop_state(index)?, view.state(index)))
    }

    /// What is known of every vCPU, for a report on a guest that hangs. Each vCPU is read at its
    /// own moment.
    pub fn snapshot(&self) -> impl ExactSizeIterator<Item = VcpuSnapshot> + DoubleEndedIterator {
        self.indices().zip(&self.slots).map(|(index, slot)| VcpuSnapshot {
            index,
            state: slot.said(),
            pending: slot.wake.pending(),
            sleeping: slot.wake.is_sleeping(),
        })
    }

    #[inline]
    fn slot(&self, index: VcpuIndex) -> Result<&Slot, IndexError> {
        match self.slots.get(index.get()) {
            Some(slot) => Ok(slot),
            None => Err(IndexError { index: index.get(), limit: self.slots.len() }),
        }
    }
}

impl fmt::Debug for VcpuTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.snapshot()).finish()
    }
}

/// One vCPU in a [snapshot](VcpuTable::snapshot).
///
/// ```
/// use vcpu_state::{NoObserver, RunState, VcpuTable};
///
/// let table = VcpuTable::new(2)?;
/// let _ = table.kick(table.index(1)?)?;
/// let kicked: Vec<usize> = table
///     .snapshot()
///     .filter(|vcpu| vcpu.pending.kick() && vcpu.run_state(&NoObserver) == RunState::Offline)
///     .map(|vcpu| vcpu.index.get())
///     .collect();
/// assert_eq!(kicked, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct VcpuSnapshot {
    /// Which vCPU.
    pub index: VcpuIndex,
    /// What its loop said last.
    pub state: LoopState,
    /// The kick and the exit request that wait for it.
    pub pending: Pending,
    /// Whether its thread sleeps, or is about to, until a kick.
    pub sleeping: bool,
}

impl VcpuSnapshot {
    /// The state of [`VcpuTable::run_state`], of the moment of the snapshot for the loop's half.
    pub fn run_state(&self, view: &(impl OffCpuView + ?Sized)) -> RunState {
        RunState::new(self.state, view.state(self.index))
    }
}

/// A vCPU's own loop: the one writer of its state.
///
/// Dropping it says [`Offline`](LoopState::Offline) and lets another thread attach; kicks that are
/// pending stay. It can be sent to the thread that runs the vCPU; it cannot be cloned, and its
/// methods take `&mut self`, so there is one writer at any time. `T` has to give the same table
/// whenever it is dereferenced, as `&VcpuTable` and `Arc<VcpuTable>` do; if it does not, methods may
/// panic. An owner that is forgotten (`mem::forget`) keeps the vCPU claimed for good.
///
/// ```
/// use std::sync::Arc;
/// use vcpu_state::{LoopState, VcpuOwner, VcpuTable};
///
/// let table = Arc::new(VcpuTable::new(2)?);
/// let index = table.index(0)?;
/// let mut vcpu = VcpuOwner::attach(Arc::clone(&table), index)?;
/// std::thread::spawn(move || {
///     let _ = vcpu.enter();
///     vcpu.leave();
/// })
/// .join()
/// .unwrap();
/// assert_eq!(table.loop_state(index)?, LoopState::Offline, "the thread ended");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Two threads cannot both say what the vCPU does:
///
/// ```compile_fail,E0499
/// # let table = vcpu_state::VcpuTable::new(1).unwrap();
/// let mut vcpu = table.attach(table.index(0).unwrap()).unwrap();
/// std::thread::scope(|scope| {
///     scope.spawn(|| vcpu.leave());
///     scope.spawn(|| vcpu.leave());
/// });
/// ```
#[derive(Debug)]
pub struct VcpuOwner<T: Deref<Target = VcpuTable>> {
    table: T,
    index: VcpuIndex,
}

impl<T: Deref<Target = VcpuTable>> VcpuOwner<T> {
    /// Claims the loop of a vCPU, which starts [`InVmm`](LoopState::InVmm).
    ///
    /// # Errors
    ///
    /// [`AttachError::Index`] if the table has no such vCPU, [`AttachError::AlreadyAttached`] while
    /// it has an owner.
    pub fn attach(table: T, index: VcpuIndex) -> Result<Self, AttachError> {
        let slot = table.slot(index)?;
        // Acquire: what the previous owner did is over.
        slot.claimed
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .map_err(|_| AttachError::AlreadyAttached { index })?;
        // The previous owner may have unwound out of its sleep.
        slot.wake.end_sleep();
        slot.say(LoopState::InVmm);
        Ok(Self { table, index })
    }

    /// Which vCPU this is.
    #[inline]
    pub fn index(&self) -> VcpuIndex {
        self.index
    }

    /// The table it is in.
    #[inline]
    pub fn table(&self) -> &T {
        &self.table
    }

    /// Says that the guest is about to run, and only then looks what is pending: a requester either
    /// sees [`InGuest`](LoopState::InGuest), or its request is in the answer.
    ///
    /// An [exit request](Pending::exit_request) in it: [`leave`](Self::leave) again, and handle it.
    /// A [kick](Pending::kick) is for the next halt; a VMM that kicks for other reasons too looks
    /// at it here.
    #[inline]
    pub fn enter(&mut self) -> Pending {
        let slot = self.slot();
        slot.say(LoopState::InGuest);
        // Pairs with the fence of `WakeWord::post`.
        fence(Ordering::SeqCst);
        slot.wake.pending()
    }

    /// Says that the guest exited, and the VMM handles it.
    #[inline]
    pub fn leave(&mut self) {
        self.slot().say(LoopState::InVmm);
    }

    /// Says that the guest halted. To wait, poll and sleep on [`wake_word`](Self::wake_word).
    #[inline]
    pub fn begin_halt(&mut self) {
        self.slot().say(LoopState::Halted);
    }

    /// Says that the halt is over.
    #[inline]
    pub fn end_halt(&mut self) {
        self.slot().say(LoopState::InVmm);
    }

    /// Says that the thread gives its CPU away.
    #[inline]
    pub fn begin_yield(&mut self) {
        self.slot().say(LoopState::Yielding);
    }

    /// Says that the thread has its CPU back.
    #[inline]
    pub fn end_yield(&mut self) {
        self.slot().say(LoopState::InVmm);
    }

    /// Says that the VMM paused the vCPU. Who reads [`Paused`](LoopState::Paused) sees whatever
    /// this thread wrote before.
    pub fn pause(&mut self) {
        self.slot().say(LoopState::Paused);
    }

    /// Says that the pause is over.
    pub fn resume(&mut self) {
        self.slot().say(LoopState::InVmm);
    }

    /// What is pending, without entering.
    #[inline]
    pub fn pending(&self) -> Pending {
        self.wake_word().pending()
    }

    /// Consumes the pending exit request; says whether there was one. Take it first and look at
    /// what it was for after that, or a request in between is overlooked.
    #[inline]
    pub fn take_exit_request(&mut self) -> bool {
        self.slot().wake.take_exit_request()
    }

    /// Consumes the pending kick, as a halt does; says whether there was a reason to end one
    /// ([`WakeWord::take`]).
    #[inline]
    pub fn take_kick(&mut self) -> bool {
        self.slot().wake.take()
    }

    /// What this vCPU halts on.
    #[inline]
    pub fn wake_word(&self) -> &WakeWord {
        &self.slot().wake
    }

    #[inline]
    fn slot(&self) -> &Slot {
        // In range: `attach` checked, and tables do not shrink.
        &self.table.slots[self.index.get()]
    }
}

impl<T: Deref<Target = VcpuTable>> Drop for VcpuOwner<T> {
    fn drop(&mut self) {
        let slot = self.slot();
        slot.say(LoopState::Offline);
        slot.claimed.store(0, Ordering::Release);
    }
}
