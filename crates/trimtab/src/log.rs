//! Messages beside a command's results: on standard error, one line each.

use std::io::Write as _;

use trimtab_report::escaped;

use crate::console;

/// Prints a message as one line, whatever it contains.
pub(crate) fn line(what: &str) {
    // A failure of this cannot be reported.
    _ = writeln!(console::errors(), "trimtab: {}", escaped(what));
}
