// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `cargo xtask loom`: the models of the lock-free code. They compile the shipped code under
//! `cfg(loom)`, optimised (loom explores thousands of interleavings), in a target folder of their
//! own, since the flag would rebuild everything.

use crate::session::Session;

/// The crates with models: in their `tests/loom.rs`.
const CRATES: [&str; 2] = ["vcpu-state", "halt-poll"];

pub(crate) fn steps(session: &mut Session) {
    for name in CRATES {
        let mut flags = std::env::var_os("RUSTFLAGS").unwrap_or_default();
        flags.push(" --cfg loom");
        let mut command = session.workspace.cargo(["test", "--release", "--test", "loom"]);
        command
            .args(["--package", name, "--target-dir"])
            .arg(session.workspace.target.join("loom"))
            .env("RUSTFLAGS", flags.to_string_lossy().trim())
            .env("CARGO_PROFILE_RELEASE_LTO", "off");
        session.run_tests(&format!("{name}, loom models"), command);
    }
}
