// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Keeps what different threads write off each other's cache lines.

use core::ops::Deref;

/// A value that shares no cache line with its neighbours.
///
/// The alignment is what the hardware moves at once, which can be more than one line:
///
/// * x86-64: 128 bytes. Lines have 64, but from Sandy Bridge on the spatial prefetcher of the L2
///   cache fetches the other line of an aligned pair too (Intel 64 and IA-32 Architectures
///   Optimization Reference Manual, "Data Prefetching",
///   <https://www.intel.com/content/www/us/en/developer/articles/technical/intel-sdm.html>), so a
///   neighbour's writes would steal ours; folly measured it and pads the same way
///   (<https://github.com/facebook/folly/blob/main/folly/lang/Align.h>).
/// * aarch64: 128 bytes. Lines have 64 on most cores and 128 on some; `CTR_EL0` tells, but only at
///   run time. crossbeam chose the same, for the same reasons
///   (<https://docs.rs/crossbeam-utils/latest/crossbeam_utils/struct.CachePadded.html>).
/// * elsewhere: 64 bytes.
#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), repr(align(128)))]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), repr(align(64)))]
#[derive(Debug, Default)]
pub(crate) struct CachePadded<T>(pub(crate) T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::CachePadded;

    #[test]
    fn neighbours_share_no_pair_of_lines() {
        let pair = [CachePadded(0_u8), CachePadded(1_u8)];
        let distance = (&raw const pair[1]).addr() - (&raw const pair[0]).addr();
        let lines =
            if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) { 128 } else { 64 };
        assert_eq!(distance, lines);
        assert_eq!((&raw const pair[0]).addr() % lines, 0);
    }
}
