// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The one ID space of this crate: the position of a vCPU in its VM's table.

/// Most vCPUs that one VM can have (KVM's own limit on x86 is 4096).
pub const MAX_VCPUS: usize = 4096;

/// Position of a vCPU in its VM's table: dense, from 0, below [`MAX_VCPUS`].
///
/// Not an APIC ID, an MPIDR or a thread ID: those are other spaces with types of their own.
///
/// ```
/// use vcpu_state::VcpuIndex;
///
/// let index = VcpuIndex::new(70)?;
/// assert_eq!((index.get(), index.word(), index.bit()), (70, 1, 1 << 6));
/// assert!(VcpuIndex::new(4096).is_err());
/// # Ok::<(), vcpu_state::IndexError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuIndex(u16);

/// The number is not the index of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("vCPU index {index} is not below {limit}")]
#[non_exhaustive]
pub struct IndexError {
    /// What was asked for.
    pub index: usize,
    /// The first number that is too large.
    pub limit: usize,
}

impl VcpuIndex {
    /// Checks a number that comes from outside.
    ///
    /// # Errors
    ///
    /// [`IndexError`] from [`MAX_VCPUS`] on.
    pub const fn new(index: usize) -> Result<Self, IndexError> {
        if index < MAX_VCPUS {
            #[expect(clippy::cast_possible_truncation, reason = "below 4096")]
            Ok(Self(index as u16))
        } else {
            Err(IndexError { index, limit: MAX_VCPUS })
        }
    }

    /// The number, for indexing.
    #[inline]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    /// Which 64-bit word of a bitmap of vCPUs this vCPU is in.
    #[inline]
    pub const fn word(self) -> usize {
        self.get() / 64
    }

    /// The vCPU's bit within its [`word`](Self::word).
    #[inline]
    pub const fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }

    /// The vCPUs of a bitmap's word: bit `b` of word `w` is vCPU `64 * w + b`. Bits that no vCPU
    /// can have are left out.
    ///
    /// ```
    /// use vcpu_state::VcpuIndex;
    ///
    /// let found: Vec<usize> = VcpuIndex::in_word(1, 1 << 63 | 1).map(VcpuIndex::get).collect();
    /// assert_eq!(found, [64, 127]);
    /// assert_eq!(VcpuIndex::in_word(64, !0).count(), 0);
    /// ```
    pub fn in_word(word: usize, mut bits: u64) -> impl Iterator<Item = Self> {
        core::iter::from_fn(move || {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            let index = word.checked_mul(64)?.checked_add(bit)?;
            if bit < 64 { Self::new(index).ok() } else { None }
        })
    }

    /// The first `count` of them (at most [`MAX_VCPUS`]).
    pub(crate) fn first(
        count: usize,
    ) -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator + use<> {
        #[expect(clippy::cast_possible_truncation, reason = "at most 4096")]
        (0..count.min(MAX_VCPUS) as u16).map(Self)
    }
}
