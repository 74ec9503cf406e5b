// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! criterion benchmarks of the workspace: `cargo bench --bench main`. Nothing to link against.
