// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The project's chores.

fn main() {}
