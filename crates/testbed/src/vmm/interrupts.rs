// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Interrupts for the guest: through the kernel's controllers, or by a vector that the vCPU's loop
//! injects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kvm_ioctls::VmFd;

use super::abi::{VECTOR_REQUEST, VECTOR_SET_TICK, VECTOR_TICK};
use super::arch;
use super::error::Error;
use super::kick::Vcpus;

/// What the guest has handlers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vector {
    /// The periodic tick.
    Tick,
    /// A request in the mailbox.
    Request,
    /// Another period of the guest's own tick, in the mailbox; only where it has one.
    SetTick,
}

impl Vector {
    const BY_PRIORITY: [Self; 3] = [Self::Request, Self::Tick, Self::SetTick];

    /// The number on the guest's side.
    pub const fn number(self) -> u8 {
        match self {
            Self::Tick => VECTOR_TICK,
            Self::Request => VECTOR_REQUEST,
            Self::SetTick => VECTOR_SET_TICK,
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// Vectors that wait to be injected into one vCPU: an edge-triggered controller with a few lines.
#[derive(Debug, Default)]
pub(super) struct PendingVectors(AtomicU32);

impl PendingVectors {
    /// The next vector, without taking it.
    pub(super) fn next(&self) -> Option<Vector> {
        let pending = self.0.load(Ordering::Acquire);
        Vector::BY_PRIORITY.into_iter().find(|vector| pending & vector.bit() != 0)
    }

    /// It was injected, or is about to be. Whatever its sender wrote before is visible.
    pub(super) fn take(&self, vector: Vector) {
        self.0.fetch_and(!vector.bit(), Ordering::AcqRel);
    }

    fn set(&self, vector: Vector) {
        self.0.fetch_or(vector.bit(), Ordering::AcqRel);
    }
}

/// Raises interrupts of one VM, from any thread.
#[derive(Clone, Debug)]
pub struct Interrupts {
    vcpus: Arc<Vcpus>,
    delivery: Delivery,
}

#[derive(Clone, Debug)]
enum Delivery {
    /// `KVM_SIGNAL_MSI`; KVM wakes the vCPU.
    Kernel(Arc<VmFd>),
    /// The vCPU's loop looks here before each entry.
    Loop(Arc<[PendingVectors]>),
}

impl Interrupts {
    pub(super) fn by_kernel(vm: Arc<VmFd>, vcpus: Arc<Vcpus>) -> Self {
        Self { vcpus, delivery: Delivery::Kernel(vm) }
    }

    pub(super) fn by_loop(vcpus: Arc<Vcpus>) -> Self {
        let pending = (0..vcpus.table.len()).map(|_| PendingVectors::default()).collect();
        Self { vcpus, delivery: Delivery::Loop(pending) }
    }

    /// Raises `vector` on a vCPU. Edge-triggered: one that is pending already stays one. Whatever
    /// the caller wrote to guest memory before is there when the guest's handler runs.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchVcpu`], and [`Error::Kvm`] when the kernel's controller does not take it.
    pub fn raise(&self, index: usize, vector: Vector) -> Result<(), Error> {
        let vcpu = self.vcpus.index(index)?;
        match &self.delivery {
            Delivery::Kernel(vm) => arch::signal(vm, vcpu, vector.number()),
            Delivery::Loop(pending) => {
                if let Some(pending) = pending.get(index) {
                    pending.set(vector);
                }
                // After the vector: the loop takes the request first, then looks for vectors.
                self.vcpus.request_exit(vcpu);
                Ok(())
            }
        }
    }

    /// The vectors that a vCPU's loop has to inject itself.
    pub(super) fn pending(&self, index: usize) -> Option<&PendingVectors> {
        match &self.delivery {
            Delivery::Kernel(_) => None,
            Delivery::Loop(pending) => pending.get(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use vcpu_state::VcpuTable;

    use super::*;

    #[test]
    fn a_vector_waits_until_it_is_taken_and_is_one_however_often_it_was_raised() {
        let vcpus = Arc::new(Vcpus::new(VcpuTable::new(2).unwrap()));
        let interrupts = Interrupts::by_loop(vcpus.clone());
        let pending = interrupts.pending(1).unwrap();
        assert_eq!(pending.next(), None);
        for _ in 0..3 {
            interrupts.raise(1, Vector::Tick).unwrap();
        }
        interrupts.raise(1, Vector::Request).unwrap();
        for vector in [Vector::Request, Vector::Tick] {
            assert_eq!(pending.next(), Some(vector));
            pending.take(vector);
        }
        assert_eq!(pending.next(), None);
        assert_eq!(interrupts.pending(0).unwrap().next(), None, "of another vCPU");
    }
}
