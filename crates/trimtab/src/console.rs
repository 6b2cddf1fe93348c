//! The only access to standard output and standard error. Names and notes from outside are
//! printed there, so all output goes through a [`Printer`], which removes control characters.
//! `clippy.toml` forbids direct access elsewhere.

#![expect(clippy::disallowed_methods, reason = "here they belong")]

use std::io::{self, IsTerminal as _, Stderr, StdoutLock, Write as _};

use trimtab_report::Printer;

/// Standard output for a command's result: JSON or text.
pub(crate) fn out(json: bool) -> Printer<StdoutLock<'static>> {
    let out = io::stdout().lock();
    if json { Printer::json(out) } else { Printer::text(out) }
}

/// Standard error, for text.
pub(crate) fn errors() -> Printer<Stderr> {
    Printer::text(io::stderr())
}

/// Standard output without filtering, for a program that draws with control sequences.
pub(crate) fn screen() -> StdoutLock<'static> {
    io::stdout().lock()
}

/// Whether standard output is a terminal.
pub(crate) fn out_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn errors_are_on_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Overwrites the line at the cursor, if standard error is a terminal. Failures are ignored:
/// work must not fail because its progress cannot be shown.
pub(crate) fn rewrite_line(line: &str) {
    _ = write!(io::stderr(), "\r{}\x1b[K", trimtab_report::escaped(line));
}

/// The width of the terminal, if standard output is one.
pub(crate) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}
