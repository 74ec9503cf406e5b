// SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
//! What goes to standard error: one line each.

/// Tells something the reader of the results should know.
pub fn note(text: &str) {
    line("note", text);
}

/// Tells why the command failed.
pub fn error(text: &str) {
    line("error", text);
}

/// Tells, as it is, what would go to standard output if a report had not taken that.
#[expect(clippy::print_stderr, reason = "the purpose")]
pub fn text(text: &str) {
    eprint!("{text}");
}

#[expect(clippy::print_stderr, reason = "the purpose")]
fn line(kind: &str, text: &str) {
    eprintln!("{kind}: {}", text.replace('\n', " "));
}
