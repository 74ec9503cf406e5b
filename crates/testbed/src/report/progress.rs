// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! How far a long run has got: a bar on a terminal, nothing elsewhere.
//!
//! Everything goes to standard error. The bar is drawn only when asked to, never by a thread of
//! its own, which would disturb what is measured.

use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

use super::diagnostic;

/// A run's progress.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A run of `steps` steps that takes about `time`.
    pub fn new(steps: u64, time: Duration) -> Self {
        let bar = ProgressBar::new(steps);
        // The template is fixed; a broken one would show in the test below.
        if let Ok(style) =
            ProgressStyle::with_template("{bar:20} {pos}/{len}  {prefix}  {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.set_prefix(format!("about {}", HumanDuration(time)));
        Self { bar }
    }

    /// The next step begins, and this is what it does.
    pub fn step(&self, what: String) {
        self.bar.set_message(what);
        self.bar.inc(1);
    }

    /// Tells a [note](diagnostic::note) without tearing the bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| diagnostic::note(text));
    }

    /// Removes the bar.
    pub fn finish(self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_where_the_run_is() {
        ProgressStyle::with_template("{bar:20} {pos}/{len}  {prefix}  {wide_msg}").unwrap();
        let progress = Progress::new(4, Duration::from_secs(60));
        progress.step("user-space never, idle".to_owned());
        assert_eq!(progress.bar.position(), 1);
        assert_eq!(progress.bar.message(), "user-space never, idle");
        assert_eq!(progress.bar.prefix(), "about 60 seconds");
        progress.finish();
    }
}
