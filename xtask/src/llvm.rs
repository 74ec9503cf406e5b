// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! LLVM's coverage tools, of the version that rustc is built with: older ones cannot read its
//! profiles.
//!
//! In this order: rustup's `llvm-tools` component, `llvm-cov-N` in PATH, and Debian's `llvm-N`
//! unpacked below target/ (nothing is installed). The last wants Debian's apt, and its tools run
//! with the C library that they were built for, so it works on any Debian or relative.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{Workspace, answers};

/// The two tools.
pub(crate) enum Llvm {
    /// Programs `FOLDER/llvm-cov` and `FOLDER/llvm-profdata`, with a suffix.
    Programs { folder: PathBuf, suffix: String },
    /// The same in an unpacked Debian, started by its own dynamic loader.
    Unpacked { root: PathBuf, major: u32 },
}

impl Llvm {
    /// # Errors
    /// When there is none of the three; the reason is that of the last.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self> {
        let host = rustc(workspace, &["-vV"])?;
        let sysroot = rustc(workspace, &["--print", "sysroot"])?;
        let triple = field(&host, "host: ").context("rustc does not say its host")?;
        let major = major(&host).context("rustc does not say its LLVM version")?;

        let folder = Path::new(sysroot.trim()).join("lib/rustlib").join(triple).join("bin");
        let rustup = Self::Programs { folder, suffix: String::new() };
        let path = Self::Programs { folder: PathBuf::new(), suffix: format!("-{major}") };
        for llvm in [rustup, path] {
            if answers(&mut llvm.tool("llvm-cov")) && answers(&mut llvm.tool("llvm-profdata")) {
                return Ok(llvm);
            }
        }
        let root = workspace.target.join("xtask").join(format!("debian-llvm-{major}"));
        let debian = Self::Unpacked { root, major };
        if !answers(&mut debian.tool("llvm-cov")) {
            debian.unpack().context("neither llvm-tools nor Debian's packages")?;
            ensure!(answers(&mut debian.tool("llvm-cov")), "Debian's llvm-cov does not start");
        }
        Ok(debian)
    }

    /// A command for `llvm-cov` or `llvm-profdata`.
    pub(crate) fn tool(&self, name: &str) -> Command {
        match self {
            Self::Programs { folder, suffix } => {
                Command::new(folder.join(format!("{name}{suffix}")))
            }
            Self::Unpacked { root, major } => {
                let gnu = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
                let llvm = root.join(format!("usr/lib/llvm-{major}"));
                let libraries = std::env::join_paths([root.join(gnu), llvm.join("lib")]);
                let mut command = Command::new(loader(root));
                command.arg("--library-path").arg(libraries.unwrap_or_default());
                command.arg(llvm.join("bin").join(name));
                command
            }
        }
    }

    /// Downloads the package with all it depends on and unpacks it. The machine's own apt state
    /// stays as it is: lists, cache and status are private ones below target/.
    fn unpack(&self) -> Result<()> {
        let Self::Unpacked { root, major } = self else { return Ok(()) };
        let apt = root.with_extension("apt");
        for folder in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.join(folder))?;
        }
        // The newest suite has the newest LLVM; the mirror is the machine's own.
        let mirror = mirror()?;
        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let source = format!("deb [signed-by={keys}] {mirror} sid main\n");
        fs::write(apt.join("sources.list"), source)?;
        fs::write(apt.join("status"), "")?;
        let settings = [
            ("Dir::Etc::SourceList", apt.join("sources.list")),
            ("Dir::Etc::SourceParts", "/dev/null".into()),
            ("Dir::State::Lists", apt.join("lists")),
            ("Dir::State::status", apt.join("status")),
            ("Dir::Cache", apt.join("cache")),
            ("Acquire::Languages", "none".into()),
            ("APT::Sandbox::User", "root".into()),
        ];
        let run = |arguments: &[&str]| -> Result<()> {
            let mut command = Command::new("apt-get");
            command.arg("--quiet");
            for (name, value) in &settings {
                command.arg("-o").arg(format!("{name}={}", value.display()));
            }
            let status = command.args(arguments).status().context("apt-get")?;
            ensure!(status.success(), "apt-get {}: {status}", arguments.join(" "));
            Ok(())
        };
        run(&["update"])?;
        let package = format!("llvm-{major}");
        run(&["--yes", "--download-only", "--no-install-recommends", "install", &package])?;
        for entry in fs::read_dir(apt.join("cache/archives"))? {
            let archive = entry?.path();
            if archive.extension().is_some_and(|extension| extension == "deb") {
                let status = Command::new("dpkg").arg("-x").args([&archive, root]).status()?;
                ensure!(status.success(), "dpkg -x {}: {status}", archive.display());
            }
        }
        Ok(())
    }
}

/// The dynamic loader of an unpacked Debian.
fn loader(root: &Path) -> PathBuf {
    let name = if cfg!(target_arch = "aarch64") {
        "ld-linux-aarch64.so.1"
    } else {
        "ld-linux-x86-64.so.2"
    };
    root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH)).join(name)
}

/// The Debian mirror that this machine uses.
fn mirror() -> Result<String> {
    let mut files: Vec<PathBuf> = vec!["/etc/apt/sources.list".into()];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    match texts.flat_map(|text| mirrors(&text)).next() {
        Some(mirror) => Ok(mirror),
        None => bail!("no Debian mirror in /etc/apt"),
    }
}

/// The mirrors of Debian itself (not of its security updates, nor of somebody else's packages) that
/// a list of sources names, in either of its two formats.
fn mirrors(text: &str) -> Vec<String> {
    let address = |line: &str| {
        let words = line.split_whitespace();
        words.map(str::to_owned).find(|word| word.trim_end_matches('/').ends_with("/debian"))
    };
    let names_one = |line: &&str| line.starts_with("URIs:") || line.starts_with("deb ");
    text.lines().filter(names_one).filter_map(address).collect()
}

fn rustc(workspace: &Workspace, arguments: &[&str]) -> Result<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = workspace.command(&rustc).args(arguments).output().context("rustc")?;
    ensure!(output.status.success(), "rustc {}: {}", arguments.join(" "), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))
}

/// The major version of the LLVM in rustc.
fn major(version: &str) -> Option<u32> {
    field(version, "LLVM version: ")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_rustc_says() {
        let version = "rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\nLLVM version: 22.1.2\n";
        assert_eq!(major(version), Some(22));
        assert_eq!(field(version, "host: "), Some("x86_64-unknown-linux-gnu"));
        assert_eq!(major("rustc 1.95.0"), None);
    }

    #[test]
    fn mirrors_are_read_from_both_formats() {
        let one =
            "# deb http://no.example/debian x main\ndeb [a=b] http://m.example/debian x main\n";
        let two = "Types: deb\nURIs: http://n.example/debian/\nSuites: x\n\
                   Types: deb\nURIs: http://n.example/debian-security\n";
        assert_eq!(mirrors(one), ["http://m.example/debian"]);
        assert_eq!(mirrors(two), ["http://n.example/debian/"]);
        assert!(mirrors("deb http://node.example/node x main\n").is_empty());
    }
}
