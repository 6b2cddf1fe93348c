//! What a command says beside its results: on standard error, a line each.

use std::io::Write as _;

use trimtab_report::escaped;

use crate::console;

/// Says it, on one line whatever is in it.
pub(crate) fn line(what: &str) {
    // Nowhere is left to report a failure of this.
    _ = writeln!(console::errors(), "trimtab: {}", escaped(what));
}
