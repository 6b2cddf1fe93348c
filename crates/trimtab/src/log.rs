//! What a command says beside its results: on standard error, a line each.

use std::io::{self, Write};

/// Says it.
pub(crate) fn line(what: &str) {
    // Nowhere is left to report a failure of this.
    _ = writeln!(io::stderr(), "trimtab: {what}");
}
