// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Inputs written by hand.

/// One input with the name of its file in the corpus.
#[derive(Debug)]
pub struct Seed {
    /// Says what it shows.
    pub name: &'static str,
    /// What the target reads.
    pub bytes: Vec<u8>,
}

/// Writes what `arbitrary::Unstructured` reads back: integers, little-endian, front to back.
#[derive(Clone, Debug, Default)]
pub struct Bytes(Vec<u8>);

impl Bytes {
    /// One byte more.
    #[must_use]
    pub fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// Four bytes more.
    #[must_use]
    pub fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Eight bytes more.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// All of `other`, `times` times.
    #[must_use]
    pub fn repeat(mut self, times: usize, other: &Self) -> Self {
        self.0.extend(other.0.repeat(times));
        self
    }

    /// The input, named.
    #[must_use]
    pub fn named(self, name: &'static str) -> Seed {
        Seed { name, bytes: self.0 }
    }
}
