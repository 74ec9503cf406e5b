// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Builds the guest: a static ELF of the target the testbed is built for, by one call of rustc.
//!
//! Not a cargo package of its own: cargo would hand it the outer build's flags (coverage,
//! sanitizers, `--cfg loom`), which a program without a runtime cannot follow.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=guest");

    let arch = variable("CARGO_CFG_TARGET_ARCH");
    let script = Path::new("guest/arch").join(&arch).join("guest.ld");
    if !script.is_file() {
        fail(&format!("the testbed has no guest for {arch} yet"));
    }
    let guest = PathBuf::from(variable("OUT_DIR")).join("guest.elf");

    let mut rustc = Command::new(variable("RUSTC"));
    rustc
        .args(["--edition=2024", "--crate-name=guest", "--crate-type=bin", "guest/main.rs"])
        .args(["--target", &variable("TARGET")])
        .arg("-o")
        .arg(&guest)
        .args(["-Copt-level=s", "-Cpanic=abort", "-Crelocation-model=static", "-Ccode-model=small"])
        .args([
            "-Cno-redzone=yes",
            "-Cforce-unwind-tables=no",
            "-Cdebuginfo=0",
            "-Cstrip=debuginfo",
        ])
        // No vector instructions if avoidable: kernel mode may be interpreted.
        .args(["-Cno-vectorize-loops", "-Cno-vectorize-slp", "-Ccodegen-units=1"])
        .args(["-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib", "-Clink-arg=-static"])
        .args(["-Clink-arg=-no-pie", "-Clink-arg=-Wl,--build-id=none"])
        .arg(format!("-Clink-arg=-Wl,-T,{}", script.display()));
    // The linker that cargo was told to use for this target, if any.
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    match rustc.status() {
        Ok(status) if status.success() => {}
        Ok(status) => fail(&format!("building the guest ended with {status}: {rustc:?}")),
        Err(error) => fail(&format!("cannot run {rustc:?}: {error}")),
    }
    println!("cargo:rustc-env=GUEST_ELF={}", guest.display());
}

/// Cargo sets them all for a build script.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|error| fail(&format!("{name}: {error}")))
}

#[expect(clippy::print_stderr, reason = "how a build script speaks")]
fn fail(message: &str) -> ! {
    eprintln!("error: {message}");
    exit(1)
}
