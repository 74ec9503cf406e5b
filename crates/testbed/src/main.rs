// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The testbed's command line.

fn main() {}
