// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The arithmetic of indices and bitmaps, at every edge.

#![cfg(not(loom))]
#![allow(missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use proptest::prelude::*;
use vcpu_state::{
    IndexError, MAX_VCPUS, NoObserver, OffCpu, OffCpuView, PreemptedIn, VcpuIndex, VcpuTable,
};

#[test]
fn word_and_bit_are_the_place_in_a_bitmap() {
    for number in 0..MAX_VCPUS {
        let index = VcpuIndex::new(number).unwrap();
        assert_eq!(index.get(), number);
        assert_eq!(index.word() * 64 + index.bit().trailing_zeros() as usize, number);
        assert_eq!(index.bit().count_ones(), 1);
    }
}

#[test]
fn indices_from_the_limit_on_are_refused() {
    for number in [MAX_VCPUS, MAX_VCPUS + 1, 1 << 16, (1 << 16) + 1, usize::MAX] {
        let error = VcpuIndex::new(number).unwrap_err();
        assert_eq!((error.index, error.limit), (number, MAX_VCPUS));
    }
}

#[test]
fn a_table_has_one_to_4096_vcpus() {
    for count in [1, 2, 63, 64, 65, 4095, 4096] {
        let table = VcpuTable::new(count).unwrap();
        assert_eq!(table.len(), count);
        assert_eq!(table.words(), count / 64 + usize::from(count % 64 != 0));
        assert_eq!(table.indices().len(), count);
        assert!(table.indices().map(VcpuIndex::get).eq(0..count));
        assert_eq!(table.index(count - 1).unwrap().get(), count - 1);
    }
    for count in [0, 4097, usize::MAX] {
        let error = VcpuTable::new(count).unwrap_err();
        assert_eq!(error.count, count);
        assert_eq!(error.to_string(), format!("a VM has 1 to 4096 vCPUs, not {count}"));
    }
}

/// An index is checked against `MAX_VCPUS`; each use, against the table.
#[test]
fn every_operation_refuses_a_vcpu_the_table_does_not_have() {
    let table = VcpuTable::new(65).unwrap();
    let beyond = VcpuIndex::new(65).unwrap();
    let refused = |error: IndexError| {
        assert_eq!((error.index, error.limit), (65, 65));
        assert_eq!(error.to_string(), "vCPU index 65 is not below 65");
    };
    refused(table.index(65).unwrap_err());
    refused(table.kick(beyond).unwrap_err());
    refused(table.request_exit(beyond).unwrap_err());
    refused(table.wake_word(beyond).map(|_| ()).unwrap_err());
    refused(table.loop_state(beyond).unwrap_err());
    refused(table.run_state(beyond, &NoObserver).unwrap_err());
    match table.attach(beyond).unwrap_err() {
        vcpu_state::AttachError::Index(error) => refused(error),
        other => panic!("{other}"),
    }
    assert!(table.snapshot().all(|vcpu| !vcpu.pending.any()), "nothing was changed");
}

/// Knows the vCPUs of a list.
struct Preempted(Vec<usize>);

impl OffCpuView for Preempted {
    fn state(&self, vcpu: VcpuIndex) -> OffCpu {
        match self.0.iter().position(|&listed| listed == vcpu.get()) {
            Some(place) if place % 2 == 0 => OffCpu::Preempted(PreemptedIn::Unknown),
            Some(_) => OffCpu::WokenWaiting,
            None if vcpu.get() % 2 == 0 => OffCpu::Running,
            None => OffCpu::Blocked,
        }
    }
}

proptest! {
    #[test]
    fn the_bits_of_a_word_are_its_vcpus(word in 0..70_usize, bits: u64) {
        let found: Vec<usize> = VcpuIndex::in_word(word, bits).map(VcpuIndex::get).collect();
        let expected: Vec<usize> = (0..64)
            .filter(|bit| bits >> bit & 1 == 1)
            .map(|bit| word * 64 + bit)
            .filter(|&index| index < MAX_VCPUS)
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn the_mask_of_a_view_says_what_its_states_say(
        mut listed in prop::collection::vec(0..MAX_VCPUS, 0..100),
    ) {
        listed.sort_unstable();
        listed.dedup();
        let view = Preempted(listed.clone());
        let found: Vec<usize> = (0..MAX_VCPUS / 64 + 2)
            .flat_map(|word| VcpuIndex::in_word(word, view.off_cpu_mask(word)))
            .map(VcpuIndex::get)
            .collect();
        prop_assert_eq!(&found, &listed);
        // References and owners answer as what they refer to.
        let shared: Arc<dyn OffCpuView> = Arc::new(Preempted(listed));
        prop_assert_eq!((&&shared).off_cpu_mask(63), view.off_cpu_mask(63));
    }
}

#[test]
fn words_that_no_vcpu_can_have_are_empty() {
    for word in [64, 65, usize::MAX / 64, usize::MAX / 64 + 1, usize::MAX] {
        assert_eq!(VcpuIndex::in_word(word, !0).count(), 0);
        assert_eq!(Preempted(vec![0, 4095]).off_cpu_mask(word), 0);
    }
}
