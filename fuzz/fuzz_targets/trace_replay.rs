// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! [`fuzz_common::trace_replay`] on libFuzzer's bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_common::trace_replay::run(data));
