// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! [`fuzz_common::halt_trace`] on libFuzzer's bytes.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz_common::halt_trace::run(data));
