// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! How a test says that this host lacks what it needs.
//!
//! libtest knows "passed" and "failed" only. A test that cannot run here calls [`skip`] and
//! returns: the reason goes to standard error and, under `cargo xtask test`, into the file that
//! [`LOG_VARIABLE`] names, from which xtask prints the summary of skipped tests at its end.
//!
//! ```
//! fn real_kvm_is_used() {
//!     if std::fs::File::open("/dev/kvm").is_err() {
//!         skipped::skip("real_kvm_is_used", "/dev/kvm cannot be opened");
//!         return;
//!     }
//!     // ...
//! }
//! # real_kvm_is_used();
//! ```

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

/// Environment variable that names the file skipped tests are appended to, one per line.
pub const LOG_VARIABLE: &str = "SKIPPED_TESTS_LOG";

/// Reports that `test` did not run, and why (one line, what is missing).
///
/// # Panics
///
/// If the log file that [`LOG_VARIABLE`] names cannot be written: a skip that nobody sees would be
/// a test that cannot fail.
#[expect(clippy::print_stderr, reason = "the report is the purpose")]
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED {test}: {}\n", reason.replace('\n', " "));
    eprint!("{line}");
    let Some(path) = std::env::var_os(LOG_VARIABLE).map(PathBuf::from) else { return };
    let written = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .and_then(|mut log| log.write_all(line.as_bytes()));
    if let Err(error) = written {
        panic!("the skip of {test} cannot be logged to {}: {error}", path.display());
    }
}
