// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! The end of a run: what each step came to, every skipped test, and one line of counts.

use std::collections::BTreeMap;
use std::io::{self, Write};

use crate::accepted::AcceptedSkips;
use crate::libtest::Tally;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    #[default]
    Ok,
    /// With the reason.
    Failed(String),
    Skipped,
}

/// A test, or a step, that did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) name: String,
    pub(crate) reason: String,
}

impl Skip {
    /// Reads the line that `skipped::skip` writes: `SKIPPED name: reason`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (name, reason) = line.strip_prefix("SKIPPED ")?.split_once(": ")?;
        Some(Self { name: name.into(), reason: reason.into() })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) verdict: Verdict,
    pub(crate) seconds: f64,
    pub(crate) tally: Tally,
    pub(crate) skips: Vec<Skip>,
}

impl Step {
    /// Tests that did run and pass: the harness counts a skipped test as passed.
    fn passed(&self) -> usize {
        self.tally.passed.saturating_sub(self.skips.len())
    }

    /// Tests that failed; a step that failed otherwise (it did not build, say) counts as one.
    fn failed(&self) -> usize {
        match self.verdict {
            Verdict::Failed(_) => self.tally.failed.max(1),
            Verdict::Ok | Verdict::Skipped => self.tally.failed,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) steps: Vec<Step>,
}

impl Summary {
    /// Prints it; true if nothing failed. `accepted`: the only skips that do not count as failures.
    pub(crate) fn print(
        &self,
        out: &mut impl Write,
        accepted: Option<&AcceptedSkips>,
    ) -> io::Result<bool> {
        writeln!(out, "\n==== summary")?;
        let width = self.steps.iter().map(|step| step.name.chars().count()).max().unwrap_or(0);
        for step in &self.steps {
            let verdict = match &step.verdict {
                Verdict::Ok => "ok",
                Verdict::Failed(_) => "FAILED",
                Verdict::Skipped => "SKIPPED",
            };
            write!(out, "{:width$}  {verdict:7} {:6.1} s", step.name, step.seconds)?;
            match step.tally.passed + step.tally.failed {
                0 => writeln!(out)?,
                1 => writeln!(out, "  1 test")?,
                tests => writeln!(out, "  {tests} tests")?,
            }
        }

        // A test that runs in several steps is skipped in each: one line is enough.
        let mut skips = BTreeMap::new();
        for skip in self.steps.iter().flat_map(|step| &step.skips) {
            skips.entry(&skip.name).or_insert(&skip.reason);
        }
        let unaccepted = |name: &str| accepted.is_some_and(|list| !list.contains(name));
        for (name, reason) in &skips {
            let remark = if unaccepted(name) { " (not in the list of accepted skips)" } else { "" };
            writeln!(out, "SKIPPED {name}: {reason}{remark}")?;
        }

        for step in &self.steps {
            if let Verdict::Failed(reason) = &step.verdict {
                writeln!(out, "FAILED {}: {reason}", step.name)?;
            }
            for test in &step.tally.failures {
                writeln!(out, "FAILED {}: {test}", step.name)?;
            }
        }

        let passed: usize = self.steps.iter().map(Step::passed).sum();
        let failed = self.steps.iter().map(Step::failed).sum::<usize>()
            + skips.keys().filter(|name| unaccepted(name)).count();
        writeln!(out, "{passed} passed, {failed} failed, {} skipped", skips.len())?;
        Ok(failed == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, passed: usize) -> Step {
        Step { name: name.into(), tally: Tally { passed, ..Tally::default() }, ..Step::default() }
    }

    fn skip(name: &str) -> Skip {
        Skip { name: name.into(), reason: "no /dev/kvm".into() }
    }

    fn print(steps: Vec<Step>, accepted: Option<&AcceptedSkips>) -> (bool, String) {
        let mut out = Vec::new();
        let passed = Summary { steps }.print(&mut out, accepted).unwrap();
        (passed, String::from_utf8(out).unwrap())
    }

    #[test]
    fn the_last_line_counts_and_a_skipped_test_is_not_a_passed_one() {
        let skips = vec![skip("needs_kvm")];
        let steps = vec![Step { skips, ..step("tests", 5) }, step("long tests", 2), step("fmt", 0)];
        let (passed, text) = print(steps, None);
        assert!(passed);
        assert_eq!(text.lines().last(), Some("6 passed, 0 failed, 1 skipped"));
        assert!(text.contains("SKIPPED needs_kvm: no /dev/kvm\n"));
    }

    #[test]
    fn a_test_skipped_in_two_steps_is_listed_once() {
        let skips = vec![skip("needs_kvm")];
        let one = Step { skips: skips.clone(), ..step("one", 1) };
        let (_, text) = print(vec![one, Step { skips, ..step("two", 1) }], None);
        assert_eq!(text.matches("SKIPPED").count(), 1);
        assert!(text.ends_with("0 passed, 0 failed, 1 skipped\n"));
    }

    #[test]
    fn a_step_that_fails_without_a_failed_test_counts_as_one() {
        let verdict = Verdict::Failed("it does not build".into());
        let (passed, text) = print(vec![Step { verdict, ..step("clippy", 0) }], None);
        assert!(!passed);
        assert!(text.contains("FAILED clippy: it does not build\n"));
        assert!(text.ends_with("0 passed, 1 failed, 0 skipped\n"));
    }

    #[test]
    fn failed_tests_are_named_and_counted() {
        let verdict = Verdict::Failed("exit status: 101".into());
        let failures = vec!["a".into(), "b".into()];
        let tally = Tally { passed: 3, failed: 2, failures };
        let (passed, text) = print(vec![Step { verdict, tally, ..step("tests", 0) }], None);
        assert!(!passed);
        assert!(text.contains("FAILED tests: a\nFAILED tests: b\n"));
        assert!(text.ends_with("3 passed, 2 failed, 0 skipped\n"));
    }

    #[test]
    fn a_skip_that_is_not_accepted_fails_the_run() {
        let accepted = AcceptedSkips::parse("needs_kvm: only some machines have it").unwrap();
        let with = |name: &str| vec![Step { skips: vec![skip(name)], ..step("tests", 1) }];
        assert!(print(with("needs_kvm"), Some(&accepted)).0);
        let (passed, text) = print(with("needs_root"), Some(&accepted));
        assert!(!passed);
        assert!(text.contains("SKIPPED needs_root: no /dev/kvm (not in the list"));
        assert!(text.ends_with("0 passed, 1 failed, 1 skipped\n"));
    }

    #[test]
    fn the_line_of_a_skipped_test_is_read_back() {
        let skip = Skip::parse("SKIPPED f14_umwait: no WAITPKG: see CPUID").unwrap();
        assert_eq!((&*skip.name, &*skip.reason), ("f14_umwait", "no WAITPKG: see CPUID"));
        assert_eq!(Skip::parse("something else"), None);
    }
}
