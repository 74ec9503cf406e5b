// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What cargo says about this workspace.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The workspace as `cargo metadata` describes it.
pub(crate) struct Workspace {
    /// The folder of the root Cargo.toml.
    pub(crate) root: PathBuf,
    /// Where cargo builds.
    pub(crate) target: PathBuf,
    /// All members.
    pub(crate) packages: Vec<Package>,
}

/// One member.
#[derive(Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder of its Cargo.toml.
    pub(crate) folder: PathBuf,
    /// Whether it is meant for crates.io: the library crates, which keep all the promises.
    pub(crate) published: bool,
    /// The MSRV it declares.
    pub(crate) rust_version: Option<String>,
    /// Its features without `default`, optional dependencies' own included.
    pub(crate) features: Vec<String>,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        // cargo sets the variable for `cargo xtask`; the constant serves a binary run by hand.
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.parent().context("xtask has no parent folder")?;
        let output = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("cargo metadata cannot be started")?;
        ensure!(output.status.success(), "cargo metadata failed");
        let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata's answer")?;
        Self::parse(&metadata)
    }

    fn parse(metadata: &Value) -> Result<Self> {
        let path = |key: &str| -> Result<PathBuf> {
            Ok(metadata[key].as_str().with_context(|| format!("no {key} in the metadata"))?.into())
        };
        let packages = metadata["packages"].as_array().context("no packages in the metadata")?;
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            packages: packages.iter().map(Package::parse).collect::<Result<_>>()?,
        })
    }

    /// The crates meant for crates.io.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.published)
    }

    /// A command in the root folder.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// cargo in the root folder.
    pub(crate) fn cargo<const N: usize>(&self, arguments: [&str; N]) -> Command {
        let mut command = self.command(&cargo());
        command.args(arguments);
        command
    }
}

impl Package {
    fn parse(package: &Value) -> Result<Self> {
        let name = package["name"].as_str().context("a package without a name")?;
        let manifest = package["manifest_path"].as_str().map(Path::new);
        let folder = manifest.and_then(Path::parent).context("a package without a manifest")?;
        let features = package["features"].as_object().context("a package without features")?;
        Ok(Self {
            name: name.into(),
            folder: folder.into(),
            // `publish = false` is an empty list of registries.
            published: package["publish"].is_null(),
            rust_version: package["rust_version"].as_str().map(Into::into),
            features: features.keys().filter(|name| *name != "default").cloned().collect(),
        })
    }
}

/// The cargo that runs us, or the one in PATH.
fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".into())
}

/// Whether a program is there and answers `--version`.
pub(crate) fn answers(command: &mut Command) -> bool {
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_becomes_packages() {
        let workspace = Workspace::parse(&json!({
            "workspace_root": "/w",
            "target_directory": "/w/target",
            "packages": [
                {"name": "a", "manifest_path": "/w/crates/a/Cargo.toml", "publish": null,
                 "rust_version": "1.85", "features": {"default": ["std"], "std": []}},
                {"name": "b", "manifest_path": "/w/crates/b/Cargo.toml", "publish": [],
                 "features": {}},
            ],
        }))
        .unwrap();
        let published: Vec<_> = workspace.published().map(|package| &*package.name).collect();
        assert_eq!(published, ["a"]);
        assert_eq!(workspace.packages[0].folder, Path::new("/w/crates/a"));
        assert_eq!(workspace.packages[0].features, ["std"]);
        assert_eq!(workspace.packages[0].rust_version.as_deref(), Some("1.85"));
    }

    #[test]
    fn metadata_that_lacks_a_key_is_an_error() {
        assert!(Workspace::parse(&json!({"packages": []})).is_err());
    }

    #[test]
    fn the_real_workspace_loads() {
        let workspace = Workspace::load().unwrap();
        assert!(workspace.packages.iter().any(|package| package.name == "xtask"));
    }
}
