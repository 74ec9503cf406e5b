// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Reads the output of Rust's test harness.

/// What a run of test binaries said so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    /// The names of the tests that failed.
    pub(crate) failures: Vec<String>,
}

impl Tally {
    /// Takes one line of output into account; most say nothing.
    pub(crate) fn line(&mut self, line: &str) {
        let line = without_colours(line);
        if let Some(result) = line.strip_prefix("test result: ") {
            // "ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s"
            self.passed += count_before(result, " passed");
            self.failed += count_before(result, " failed");
        } else if let Some(test) = line.strip_prefix("test ")
            && let Some(name) = test.strip_suffix(" ... FAILED")
        {
            self.failures.push(name.into());
        }
    }
}

/// The number that stands before `word`; 0 if there is none.
fn count_before(text: &str, word: &str) -> usize {
    let Some((before, _)) = text.split_once(word) else { return 0 };
    let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

/// The line without ANSI escape sequences (`ESC [ ... letter`).
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\x1b' {
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(lines: &[&str]) -> Tally {
        let mut tally = Tally::default();
        lines.iter().for_each(|line| tally.line(line));
        tally
    }

    #[test]
    fn results_of_several_binaries_add_up() {
        let tally = tally(&[
            "running 12 tests",
            "test a::b ... ok",
            "test a::c ... FAILED",
            "test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out",
            "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; \
             finished in 0.00s",
        ]);
        assert_eq!((tally.passed, tally.failed), (14, 1));
        assert_eq!(tally.failures, ["a::c"]);
    }

    #[test]
    fn colours_do_not_hide_a_result() {
        let tally = tally(&["test result: \x1b[32mok\x1b[0m. 7 passed; 0 failed; 0 ignored"]);
        assert_eq!(tally.passed, 7);
    }

    #[test]
    fn what_a_test_prints_is_not_a_result() {
        let lines =
            ["9 passed; 9 failed", "the test result: ok. 5 passed", "test result: ", "\x1b"];
        assert_eq!(tally(&lines), Tally::default());
    }
}
