// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! `testbed halt record`: the live kernel's halts as a trace for `replay` and `evaluate`.

mod load;
mod params;
mod recorder;
mod stop;
mod tracefs;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};

use self::load::Guest;
use self::params::Params;
use self::recorder::{Recorder, Summary, Threads};
use crate::cli::RecordArgs;
use crate::report::destination::{Destination, print_unless_taken};
use crate::report::diagnostic;

/// Records until the time is over, or until SIGINT or SIGTERM.
///
/// # Errors
///
/// What the host lacks (root, tracefs, KVM's events, `/dev/kvm`), a file that cannot be written;
/// no halt recorded.
pub fn run(args: &RecordArgs) -> anyhow::Result<()> {
    stop::install().context("cannot handle SIGINT and SIGTERM")?;
    let mut params = params::read()?;
    params.halt_poll_ns = args.ceiling_ns.unwrap_or(params.halt_poll_ns);

    // The guest before anything of the machine is touched: it may not be possible.
    let guest = if args.pid.is_empty() { Some(Guest::new(args.ceiling_ns)?) } else { None };
    let threads = match &guest {
        // Its vCPUs' threads will be children of this one, traced from their first instruction.
        Some(_) => Threads::current(),
        None => Threads::of_processes(&args.pid)?,
    };
    let load = match &guest {
        Some(_) => "the testbed's own guest".to_owned(),
        None => format!("processes {:?}", args.pid),
    };
    let header = params::header(&params, &load);

    let done = AtomicBool::new(false);
    let summary = thread::scope(|scope| {
        let (ready, recording) = mpsc::channel();
        // Its own thread: where it mounts tracefs nobody else sees it.
        let recorder = scope.spawn(|| {
            let mut recorder = Recorder::new(&threads)?;
            recorder.start()?;
            let _ = ready.send(());
            // Moved in: dropped with the thread, so that a failure ends the wait below.
            drop(ready);
            recorder.copy(&header, &args.out, &done)
        });
        let driven = {
            let _stop = SetOnDrop(&done);
            let started = recording.recv();
            let end = Instant::now() + Duration::from_secs_f64(args.seconds);
            let over = || stop::requested() || Instant::now() >= end || recorder.is_finished();
            match (started, guest) {
                // It failed; its error is the result.
                (Err(_), _) => Ok(()),
                (Ok(()), Some(guest)) => guest.drive(params.halt_poll_ns, over),
                (Ok(()), None) => {
                    while !over() {
                        thread::sleep(Duration::from_millis(10));
                    }
                    Ok(())
                }
            }
        };
        let summary = recorder.join().map_err(|_| anyhow!("the recorder panicked"))?;
        driven.and(summary)
    })?;
    report(args, &params, summary)
}

/// Ends the recording even if the load panics: the scope would wait for its thread for ever.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn report(args: &RecordArgs, params: &Params, summary: Summary) -> anyhow::Result<()> {
    let now = params::read()?;
    let ceiling = if args.ceiling_ns.is_some() { params.halt_poll_ns } else { now.halt_poll_ns };
    if *params != (Params { halt_poll_ns: ceiling, ..now }) {
        diagnostic::note(
            "KVM's parameters changed while recording: the trace tells the first ones",
        );
    }
    if summary.lost > 0 {
        diagnostic::note(&format!("{} events were lost; the trace tells where", summary.lost));
    }
    if summary.unknown > 0 {
        diagnostic::note(&format!("{} lines are of no known form", summary.unknown));
    }
    ensure!(summary.halts > 0, "no halt was recorded: do the vCPUs of these threads halt in KVM?");
    let taken = (args.out == Destination::Stdout).then_some(&args.out);
    print_unless_taken(
        taken,
        &format!("{} halts, {} changes of the window\n", summary.halts, summary.changes),
    )
}
