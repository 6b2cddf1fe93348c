//! From errors to one line and an exit code.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The user asked for something that cannot be: exit code 2.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

/// The work is done, but not all of it: exit code 3.
#[derive(Debug)]
pub(crate) struct Incomplete(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}
impl std::error::Error for Incomplete {}

/// Says on standard error what went wrong, and picks the exit code.
pub(crate) fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if is_broken_pipe(&error) {
        // The reader (`head`, a pager) has seen enough: no error.
        return ExitCode::SUCCESS;
    }
    let (word, code) = if error.is::<Incomplete>() {
        ("incomplete", 3)
    } else if is_bad_input(&error) {
        ("error", 2)
    } else {
        ("error", 1)
    };
    // Nowhere is left to report a failure of this.
    _ = writeln!(io::stderr(), "trimtab: {word}: {error:#}");
    ExitCode::from(code)
}

fn is_bad_input(error: &anyhow::Error) -> bool {
    error.is::<BadInput>()
        || error.downcast_ref::<trimtab_trace::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_live::record::Error>().is_some_and(|e| e.is_bad_input())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
