// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Halts recorded from the kernel's tracepoints.
