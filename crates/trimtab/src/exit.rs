//! From errors to one line and an exit code.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::error::ErrorKind;
use trimtab_report::escaped;

use crate::console;

/// The user asked for something impossible: exit code 2.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

/// The program that was run has ended: its exit code, passed on without a message.
#[derive(Debug)]
pub(crate) struct ProgramEnded(pub(crate) u8);

/// The work is done, but incomplete: exit code 3.
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

impl fmt::Display for ProgramEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the program exited with {}", self.0)
    }
}

impl std::error::Error for BadInput {}
impl std::error::Error for ProgramEnded {}
impl std::error::Error for Incomplete {}

/// Reports the error on standard error, and selects the exit code.
pub(crate) fn code(result: anyhow::Result<()>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    if let Some(ProgramEnded(code)) = error.downcast_ref() {
        return ExitCode::from(*code);
    }
    if is_broken_pipe(&error) {
        // The reader (`head`, a pager) has closed the pipe: no error.
        return ExitCode::SUCCESS;
    }
    let (word, code) = if error.is::<Incomplete>() {
        ("incomplete", 3)
    } else if is_bad_input(&error) {
        ("error", 2)
    } else {
        ("error", 1)
    };
    let place = if is_full_output(&error) { "standard output: cannot write: " } else { "" };
    // A failure of this cannot be reported.
    let hint = hint(&error).map_or_else(String::new, |hint| format!("; {hint}"));
    let line = format!("{place}{}{hint}", one_line(&error));
    _ = writeln!(console::errors(), "trimtab: {word}: {}", escaped(&line));
    ExitCode::from(code)
}

/// Prints the message of the command-line parser: help as it is, errors on one line.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        if let Err(failed) = error.print().and_then(|()| console::out(false).flush()) {
            return code(Err(failed.into()));
        }
        return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
    }
    let line = usage_line(&error.to_string());
    _ = writeln!(console::errors(), "trimtab: error: {}", escaped(&line));
    ExitCode::from(2)
}

/// Joins the parser's paragraphs to one line: the error, a tip, the usage.
fn usage_line(text: &str) -> String {
    let paragraph = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let parts: Vec<_> = text
        .trim_start_matches("error: ")
        .split("\n\n")
        .map(paragraph)
        .filter(|part| !part.is_empty() && !part.starts_with("For more information"))
        .collect();
    let known = [
        ("invalid digit found in string", "expected a whole number"),
        ("number too large to fit in target type", "the number is too large"),
        ("cannot parse integer from empty string", "expected a whole number"),
    ];
    known.iter().fold(parts.join("; "), |line, (library, plain)| line.replace(library, plain))
}

/// The error and its causes, without those that the preceding error quotes.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !line.ends_with(&cause) {
            line += &format!(": {cause}");
        }
    }
    line
}

/// The option that helps, which the library's error cannot name.
fn hint(error: &anyhow::Error) -> Option<String> {
    use trimtab_train::Error;
    let hint = match error.downcast_ref::<Error>()? {
        Error::SeveralDrives { .. } => "pick one by --device",
        Error::OneRecording => "give more --trace",
        Error::AllSeen { .. } => "or train it with --first 0.5",
        Error::OtherLabel { .. } => "evaluate them one by one, or by --label knee",
        Error::OtherRule { trained, asked, .. } => {
            let text =
                format!("evaluate it by --label {trained}, or train it with --label {asked}");
            return Some(text);
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Whether the user has asked for what cannot be.
pub(crate) fn is_bad_input(error: &anyhow::Error) -> bool {
    error.is::<BadInput>()
        || error.downcast_ref::<trimtab_trace::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_record::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_tracker::Error>().is_some_and(|e| e.is_bad_input())
        || error.is::<trimtab_block::DeviceError>()
        || error.downcast_ref::<trimtab_emu::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_nvmet::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_sim::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_compare::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_compare::live::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_refuse::Error>().is_some_and(|e| e.is_bad_input())
        || error.is::<trimtab_compare::SeedsError>()
        || error.downcast_ref::<trimtab_predict::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_agent::Error>().is_some_and(|e| e.is_bad_input())
        || error.downcast_ref::<trimtab_train::Error>().is_some_and(|e| e.is_bad_input())
}

/// Whether standard output is on a full disk: an error of any other file would name the file.
fn is_full_output(error: &anyhow::Error) -> bool {
    let kind = match error.downcast_ref::<serde_json::Error>() {
        Some(json) => json.io_error_kind(),
        None => error.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    kind == Some(io::ErrorKind::StorageFull) && error.chain().count() <= 2
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let kind = match cause.downcast_ref::<serde_json::Error>() {
            Some(json) => json.io_error_kind(),
            None => cause.downcast_ref::<io::Error>().map(io::Error::kind),
        };
        kind == Some(io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_causes_are_not_repeated() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let path = "a.csv".into();
        let quoting = trimtab_trace::Error::Open { path, source: missing() };
        assert_eq!(one_line(&quoting.into()), "a.csv: cannot open: entity not found");
        let adding = anyhow::Error::from(missing()).context("cannot wait");
        assert_eq!(one_line(&adding), "cannot wait: entity not found");
    }
}
