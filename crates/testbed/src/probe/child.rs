// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Runs a trial in a process of its own, which is killed when it takes too long.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::finding::Finding;
use super::trial::Trial;

/// Several times what any trial allows itself.
const LIMIT: Duration = Duration::from_secs(12);
/// How often to look whether the child has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// A finding on its way to the parent.
pub(super) fn to_line(finding: &Finding) -> anyhow::Result<String> {
    Ok(serde_json::to_string(finding)? + "\n")
}

/// Runs `trial` in a child process, for at most 12 seconds.
pub(super) fn run(trial: Trial) -> Finding {
    match finding(trial) {
        Ok(finding) => finding,
        Err(error) => Finding::missing(trial.name(), format!("{error:#}")),
    }
}

fn finding(trial: Trial) -> anyhow::Result<Finding> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    let mut child = Command::new(program)
        .args(["probe", "--trial", trial.argument()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start a child process")?;
    let status = wait(&mut child, LIMIT)?;
    let mut output = String::new();
    // A pipe holds more than a line: the child does not wait for us.
    if let Some(mut pipe) = child.stdout.take() {
        pipe.read_to_string(&mut output).context("cannot read the child's output")?;
    }
    serde_json::from_str(&output).with_context(|| format!("the trial ended with {status}"))
}

fn wait(child: &mut Child, limit: Duration) -> anyhow::Result<ExitStatus> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the child process")? {
            return Ok(status);
        }
        if begin.elapsed() > limit {
            // Reaped if it dies; one that hangs in the kernel is left to it.
            child.kill().context("cannot kill the child process")?;
            std::thread::sleep(LOOK_AGAIN);
            let _ = child.try_wait();
            bail!("no end after {limit:?}: killed");
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_hangs_is_killed_after_the_limit() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let error = wait(&mut child, Duration::from_millis(30)).unwrap_err();
        assert!(error.to_string().contains("killed"), "{error}");
        // Ends at once, or this test does not.
        assert!(!child.wait().unwrap().success());
    }
}
