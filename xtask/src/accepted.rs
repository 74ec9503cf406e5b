// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The committed list of the tests that CI may skip: any other skip fails CI, so that a test
//! cannot quietly stop running.
//!
//! One test a line, `name: why it is accepted`; blank lines and lines from `#` on say nothing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Where the list is, seen from the workspace's root.
pub(crate) const FILE: &str = ".ci/accepted-skips.txt";

#[derive(Debug)]
pub(crate) struct AcceptedSkips(BTreeMap<String, String>);

impl AcceptedSkips {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        Self::parse(&text).context(FILE)
    }

    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut reasons = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            let Some((name, reason)) = line.split_once(':') else {
                bail!("line {number}: not `name: reason`");
            };
            let (name, reason) = (name.trim(), reason.trim());
            if name.is_empty() || reason.is_empty() {
                bail!("line {number}: a name and a reason are needed");
            }
            if reasons.insert(name.into(), reason.into()).is_some() {
                bail!("line {number}: {name} is there already");
            }
        }
        Ok(Self(reasons))
    }

    pub(crate) fn contains(&self, test: &str) -> bool {
        self.0.contains_key(test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_whole() {
        let list = AcceptedSkips::parse("# comment\n\n  f14_umwait: this CPU: none\n").unwrap();
        assert!(list.contains("f14_umwait"));
        assert!(!list.contains("f14"));
        assert!(!list.contains("# comment"));
    }

    #[test]
    fn a_line_without_a_reason_is_refused_with_its_number() {
        for text in ["ok: yes\nname", "ok: yes\nname: ", "ok: yes\n: reason", "ok: yes\nok: twice"]
        {
            let error = AcceptedSkips::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("line 2: "), "{error}");
        }
    }

    #[test]
    fn the_committed_list_can_be_read() {
        AcceptedSkips::load(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
    }
}
