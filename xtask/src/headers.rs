// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Every source file says its licence.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

const MARK: &str = "SPDX-License-Identifier: ";

/// The findings: files without a licence line.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    let output = workspace.command("git").args(["ls-files", "-z"]).output().context("git")?;
    ensure!(output.status.success(), "git ls-files: {}", output.status);
    let names = String::from_utf8(output.stdout)?;
    let mut findings = Vec::new();
    for name in names.split_terminator('\0') {
        let path = workspace.root.join(name);
        // A file deleted but not yet committed is still listed.
        if !path.is_file() {
            continue;
        }
        let text = fs::read(&path).with_context(|| name.to_owned())?;
        if is_source(name, &text) && !has_licence(&text) {
            findings.push(format!("{name}: no line with \"{MARK}...\" among its first three"));
        }
    }
    Ok(findings)
}

fn is_source(name: &str, text: &[u8]) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    let known = ["rs", "toml", "sh", "S", "ld", "c", "h", "py", "yml", "yaml"];
    extension.is_some_and(|extension| known.contains(&extension)) || text.starts_with(b"#!")
}

fn has_licence(text: &[u8]) -> bool {
    let head = text.splitn(4, |byte| *byte == b'\n').take(3);
    head.map(String::from_utf8_lossy)
        .any(|line| line.split_once(MARK).is_some_and(|(_, licence)| !licence.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_licence_line_may_follow_the_interpreter_line() {
        assert!(has_licence(b"#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\n"));
        assert!(!has_licence(b"\n\n\n// SPDX-License-Identifier: BSD-3-Clause\n"));
        assert!(!has_licence(b"// SPDX-License-Identifier: \n"));
        assert!(!has_licence(b""));
    }

    #[test]
    fn scripts_are_known_by_their_first_line() {
        assert!(is_source(".ci/run", b"#!/usr/bin/env bash\n"));
        assert!(is_source("build.rs", b""));
        assert!(!is_source("Cargo.lock", b"version = 4"));
        assert!(!is_source("corpus/0", b""));
    }
}
