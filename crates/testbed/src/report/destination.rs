// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! Where a report goes: a file, or standard output.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;

/// Standard output was closed by its reader, as `| head` does: the end of the work, no failure.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("standard output was closed")]
pub struct StdoutClosed;

/// A file, or `-` for standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// Standard output; nothing else is written there then.
    Stdout,
    /// A file, replaced if it exists.
    File(PathBuf),
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" => Err("an empty file name".to_owned()),
            "-" => Ok(Self::Stdout),
            path => Ok(Self::File(PathBuf::from(path))),
        }
    }
}

impl Destination {
    /// Finds out, before an hour of measuring, whether the file can be written. What it holds
    /// stays as it is until [`write`](Self::write).
    ///
    /// # Errors
    ///
    /// The file cannot be opened for writing.
    pub fn check(&self) -> anyhow::Result<()> {
        if let Self::File(path) = self {
            OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Opens it for a report that is written as it comes; a file is emptied at once.
    ///
    /// # Errors
    ///
    /// The file cannot be opened for writing.
    pub fn stream(&self) -> anyhow::Result<Stream> {
        let (name, to): (_, Box<dyn Write>) = match self {
            Self::Stdout => ("standard output".to_owned(), Box::new(std::io::stdout())),
            Self::File(path) => {
                let name = path.display().to_string();
                let file = File::create(path).with_context(|| format!("cannot write {name}"))?;
                (name, Box::new(file))
            }
        };
        Ok(Stream { name, to: BufWriter::new(to) })
    }

    /// Writes the whole report.
    ///
    /// # Errors
    ///
    /// The file cannot be written; [`StdoutClosed`] when nobody reads standard output any more.
    pub fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Self::Stdout => print(bytes),
            Self::File(path) => std::fs::write(path, bytes)
                .with_context(|| format!("cannot write {}", path.display())),
        }
    }
}

/// A report that is written as it comes.
pub struct Stream {
    name: String,
    to: BufWriter<Box<dyn Write>>,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Stream {
    /// Writes the next bytes.
    ///
    /// # Errors
    ///
    /// Those of [`Destination::write`].
    pub fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let result = self.to.write_all(bytes);
        self.told(result)
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    ///
    /// Those of [`Destination::write`].
    pub fn finish(mut self) -> anyhow::Result<()> {
        let result = self.to.flush();
        self.told(result)
    }

    fn told(&self, result: std::io::Result<()>) -> anyhow::Result<()> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
            other => other.with_context(|| format!("cannot write {}", self.name)),
        }
    }
}

/// Writes to standard output; every line that the testbed prints there comes through here.
///
/// # Errors
///
/// [`StdoutClosed`] when nobody reads standard output any more; or it cannot be written.
pub fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        other => other.context("cannot write standard output"),
    }
}

/// Prints what people read, unless standard output is taken by a report.
///
/// # Errors
///
/// Those of [`print()`].
pub fn print_unless_taken(by: Option<&Destination>, text: &str) -> anyhow::Result<()> {
    if by == Some(&Destination::Stdout) { Ok(()) } else { print(text.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_is_standard_output_and_an_empty_name_is_refused() {
        assert_eq!("-".parse(), Ok(Destination::Stdout));
        assert_eq!("./-".parse(), Ok(Destination::File("./-".into())));
        assert!("".parse::<Destination>().is_err());
    }

    #[test]
    fn a_check_keeps_what_the_file_holds() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "old").unwrap();
        let destination = Destination::File(file.path().to_owned());
        destination.check().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"old");
        destination.write(b"new").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"new");
    }

    #[test]
    fn a_check_tells_that_a_file_cannot_be_written() {
        let error = Destination::File("/nonexistent/x".into()).check().unwrap_err();
        assert!(error.to_string().contains("/nonexistent/x"));
    }
}
