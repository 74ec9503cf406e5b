// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Crates that promise `no_std` without features really pull in no std.
//!
//! No bare-metal target is needed for that: a program with a panic handler of its own does not
//! compile if any of its dependencies links std, which has one too.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::session::Session;
use crate::workspace::{Package, Workspace};

const PROGRAM: &str = "\
#![no_std]
#![no_main]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

// For crates that use alloc.
struct NoMemory;

#[global_allocator]
static NO_MEMORY: NoMemory = NoMemory;

unsafe impl core::alloc::GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: core::alloc::Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: core::alloc::Layout) {}
}
";

/// Writes the program for one crate and checks it.
pub(crate) fn steps(session: &mut Session) {
    let packages: Vec<Package> = session
        .workspace
        .published()
        .filter(|package| package.features.iter().any(|feature| feature == "std"))
        .cloned()
        .collect();
    for package in packages {
        let name = format!("{}, no std linked", package.name);
        match write_program(&session.workspace, &package) {
            Ok(manifest) => {
                let mut command = session.workspace.cargo(["check", "--quiet"]);
                command.arg("--manifest-path").arg(manifest);
                command.arg("--target-dir").arg(session.workspace.target.join("xtask/no-std"));
                session.run(&name, command);
            }
            Err(error) => session.check(&name, |_| Err(error)),
        }
    }
}

fn write_program(workspace: &Workspace, package: &Package) -> Result<PathBuf> {
    let folder = workspace.target.join("xtask/no-std-programs").join(&package.name);
    fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    // The versions that the workspace is tested with.
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    fs::write(folder.join("main.rs"), program(package))?;
    let manifest = folder.join("Cargo.toml");
    fs::write(&manifest, self::manifest(package))?;
    Ok(manifest)
}

fn program(package: &Package) -> String {
    // Unused, it would not be linked.
    format!("{PROGRAM}\nextern crate {} as _;\n", package.name.replace('-', "_"))
}

fn manifest(package: &Package) -> String {
    format!(
        "[workspace]\n\
         [package]\nname = \"no-std-program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [[bin]]\nname = \"no-std-program\"\npath = \"main.rs\"\ntest = false\n\
         [profile.dev]\npanic = \"abort\"\n\
         [dependencies]\n{} = {{ path = {:?}, default-features = false }}\n",
        package.name, package.folder
    )
}
