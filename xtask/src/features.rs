// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Every combination of the library crates' features builds, and their tests pass without any.

use std::process::Command;

use crate::session::Session;
use crate::workspace::{Package, Workspace};

/// What a compiler warning does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warnings {
    Allow,
    /// It fails the step. Needs clippy.
    Deny,
}

pub(crate) fn steps(session: &mut Session, warnings: Warnings) {
    let packages: Vec<Package> = session.workspace.published().cloned().collect();
    for package in &packages {
        for features in combinations(&package.features) {
            let features = features.join(",");
            let name = format!("{}, features [{features}]", package.name);
            let command = check(&session.workspace, package, &features, warnings);
            session.run(&name, command);
        }
        // The combination with all features is what the ordinary tests run with.
        if !package.features.is_empty() {
            let mut tests = session.workspace.cargo(["test", "--no-default-features", "--lib"]);
            tests.args(["--package", &package.name]);
            session.run(&format!("{}, tests without features", package.name), tests);
        }
    }
}

fn check(workspace: &Workspace, package: &Package, features: &str, warnings: Warnings) -> Command {
    let mut command = match warnings {
        Warnings::Allow => workspace.cargo(["check"]),
        Warnings::Deny => workspace.cargo(["clippy"]),
    };
    command.args(["--quiet", "--package", &package.name, "--lib", "--no-default-features"]);
    if !features.is_empty() {
        command.args(["--features", features]);
    }
    if warnings == Warnings::Deny {
        command.args(["--", "-D", "warnings"]);
    }
    command
}

/// All subsets. Crates keep to a handful of features, so that these stay few.
fn combinations(features: &[String]) -> Vec<Vec<&str>> {
    let mut subsets = vec![Vec::new()];
    for feature in features {
        let with: Vec<Vec<&str>> =
            subsets.iter().map(|subset| [&subset[..], &[feature.as_str()]].concat()).collect();
        subsets.extend(with);
    }
    subsets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_all_subsets() {
        let features = ["a".to_owned(), "b".to_owned()];
        assert_eq!(combinations(&features), [vec![], vec!["a"], vec!["b"], vec!["a", "b"]]);
        assert_eq!(combinations(&[]), [Vec::<&str>::new()]);
    }
}
