// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Commit subjects fit a line of `git log --oneline`, as rust-vmm's CI wants it.

use anyhow::{Context, Result, ensure};

use crate::workspace::Workspace;

/// The longest subject, in characters.
const COLUMNS: usize = 60;

/// The findings: subjects that are too long, or empty.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<String>> {
    // All of the history, which is cheap: CI's clone knows no branch to compare with.
    let mut git = workspace.command("git");
    let output = git.args(["log", "--no-merges", "--format=%h %s"]).output().context("git")?;
    ensure!(output.status.success(), "git log: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(finding).collect())
}

fn finding(line: &str) -> Option<String> {
    let (commit, subject) = line.split_once(' ').unwrap_or((line, ""));
    let columns = subject.chars().count();
    match columns {
        0 => Some(format!("{commit}: no subject")),
        1..=COLUMNS => None,
        _ => Some(format!("{commit}: {columns} columns, at most {COLUMNS}: {subject}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_columns_are_the_limit() {
        assert_eq!(finding(&format!("abc {}", "x".repeat(60))), None);
        assert!(finding(&format!("abc {}", "x".repeat(61))).is_some());
        assert_eq!(finding(&format!("abc {}", "\u{e4}".repeat(60))), None);
        assert_eq!(finding("abc "), Some("abc: no subject".into()));
    }
}
