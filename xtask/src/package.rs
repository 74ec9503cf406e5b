// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What would go to crates.io is complete: each crate's licences, README and CHANGELOG.

use anyhow::{Context, Result};

use crate::workspace::Workspace;

const FILES: [&str; 5] =
    ["CHANGELOG.md", "Cargo.toml", "LICENSE-APACHE", "LICENSE-BSD-3-Clause", "README.md"];

/// The findings: files that a package lacks.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for package in workspace.published() {
        let name = &package.name;
        let mut cargo = workspace.cargo(["package", "--list", "--allow-dirty", "--package", name]);
        let output = cargo.output().context("cargo package")?;
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            findings.push(format!("{name}: cargo package --list: {}", error.trim()));
            continue;
        }
        let list = String::from_utf8_lossy(&output.stdout);
        findings.extend(missing(&list).map(|file| format!("{name}: {file} is not packaged")));
    }
    Ok(findings)
}

fn missing(list: &str) -> impl Iterator<Item = &'static str> {
    FILES.into_iter().filter(move |file| !list.lines().any(|line| line == *file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_missing() {
        let list =
            "Cargo.toml\nLICENSE-APACHE\nLICENSE-BSD-3-Clause\ndocs/README.md\nCHANGELOG.md\n";
        assert_eq!(missing(list).collect::<Vec<_>>(), ["README.md"]);
    }
}
