// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! tracefs, and an ftrace instance of our own in it: other users of ftrace see nothing of it.
// UNSAFE: unshare and mount, which std does not wrap.
#![expect(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::report::diagnostic;

const MOUNT_POINT: &str = "/sys/kernel/tracing";
const OLD_MOUNT_POINT: &str = "/sys/kernel/debug/tracing";

/// How our instances are called; the number of the process follows.
const NAME: &str = "testbed-record-";

/// Where tracefs is. If it is nowhere, it is mounted for the calling thread alone, in a mount
/// namespace that goes with the thread.
///
/// # Errors
///
/// What is missing: root, or tracefs in this kernel.
pub(super) fn find() -> anyhow::Result<PathBuf> {
    for place in [MOUNT_POINT, OLD_MOUNT_POINT] {
        match fs::metadata(Path::new(place).join("instances")) {
            Ok(_) => return Ok(place.into()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                bail!("recording needs root: {place} cannot be entered")
            }
            Err(_) => {}
        }
    }
    if !Path::new(MOUNT_POINT).exists() {
        bail!("this kernel has no tracefs: {MOUNT_POINT} does not exist");
    }
    mount().with_context(|| {
        format!("recording needs tracefs: it is not mounted, and mounting it at {MOUNT_POINT} failed (it takes root)")
    })?;
    Ok(MOUNT_POINT.into())
}

fn mount() -> io::Result<()> {
    // SAFETY: plain integers; only this thread's view of mounts changes.
    check(unsafe { libc::unshare(libc::CLONE_NEWNS) })?;
    // What is mounted from here on stays in the new namespace.
    // SAFETY: the strings are terminated, the other pointers may be null for this call.
    check(unsafe {
        libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_PRIVATE,
            std::ptr::null(),
        )
    })?;
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    // SAFETY: the strings are terminated, the data may be null.
    check(unsafe {
        libc::mount(
            c"tracefs".as_ptr(),
            c"/sys/kernel/tracing".as_ptr(),
            c"tracefs".as_ptr(),
            flags,
            std::ptr::null(),
        )
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An ftrace instance. Dropping it removes it; use it on the thread that called [`find`].
#[derive(Debug)]
pub(super) struct Instance {
    directory: PathBuf,
}

impl Instance {
    /// Makes one, and removes those that testbeds killed half-way left behind.
    pub(super) fn new(tracefs: &Path) -> anyhow::Result<Self> {
        let instances = tracefs.join("instances");
        remove_stale(&instances);
        let directory = instances.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&directory)
            .with_context(|| format!("cannot make {} (it takes root)", directory.display()))?;
        Ok(Self { directory })
    }

    /// Whether the instance has a file.
    pub(super) fn has(&self, file: &str) -> bool {
        self.directory.join(file).exists()
    }

    /// Writes to one of its files.
    pub(super) fn write(&self, file: &str, text: &str) -> anyhow::Result<()> {
        let path = self.directory.join(file);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {text:?} to {}", path.display()))
    }

    /// Opens the stream of its events; reading gives [`ErrorKind::WouldBlock`] when there is none.
    pub(super) fn open_pipe(&self) -> anyhow::Result<File> {
        let path = self.directory.join("trace_pipe");
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&path)
            .with_context(|| format!("cannot open {}", path.display()))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.directory) {
            let directory = self.directory.display();
            diagnostic::note(&format!("{directory} is left behind, remove it by rmdir: {error}"));
        }
    }
}

fn remove_stale(instances: &Path) {
    let Ok(entries) = fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if owner.is_some_and(is_gone) {
            // In use, or gone meanwhile: not ours to worry about.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whether the process that made an instance cannot use it any more. Ours has none yet.
fn is_gone(process: &str) -> bool {
    // A zombie still has a directory, but runs nothing.
    process == std::process::id().to_string()
        || fs::read_link(Path::new("/proc").join(process).join("exe")).is_err()
}
