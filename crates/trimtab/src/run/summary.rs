//! The figures at the end.

use std::io::Write as _;

use serde::Serialize;
use trimtab_refuse::Decisions;
use trimtab_report::count;

use crate::console;
use crate::log;

/// The output of `--json`: one line.
#[derive(Serialize)]
struct Json<'a> {
    program: &'a str,
    #[serde(flatten)]
    decisions: &'a Decisions,
}

/// Prints them to standard error: standard output is the program's.
pub(super) fn print(decisions: &Decisions, program: &str, json: bool) {
    if json {
        // A failure of this cannot be reported.
        if let Ok(line) = serde_json::to_string(&Json { program, decisions }) {
            _ = writeln!(console::errors(), "{line}");
        }
    } else {
        log::line(&text(decisions));
    }
}

fn text(decisions: &Decisions) -> String {
    let Decisions { files, reads, refused, .. } = *decisions;
    if reads == 0 {
        let files = count(files);
        return format!(
            "run: no direct read of the {files} named files was seen: only files that are open \
             with O_DIRECT are refused"
        );
    }
    let admitted = [
        ("in time", decisions.in_time),
        ("of the share", decisions.share),
        ("on no single drive", decisions.not_on_drive),
        ("not tracked", decisions.not_tracked),
        ("without a model", decisions.no_model),
        ("unsure", decisions.unsure),
        ("stale", decisions.stale),
    ];
    let admitted = admitted.iter().filter(|(_, reads)| *reads > 0);
    let admitted: Vec<_> =
        admitted.map(|(reason, reads)| format!("{} {reason}", count(*reads))).collect();
    let mut line = format!(
        "run: {} reads of {} files: {} refused",
        count(reads),
        count(files),
        count(refused)
    );
    if !admitted.is_empty() {
        line += &format!("; admitted: {}", admitted.join(", "));
    }
    if decisions.openings_lost > 0 {
        line += &format!("; {} openings missed", count(decisions.openings_lost));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_without_reads_are_left_out() {
        let decisions = Decisions {
            files: 2,
            reads: 1200,
            refused: 1000,
            share: 50,
            stale: 150,
            ..Decisions::default()
        };
        let expected =
            "run: 1,200 reads of 2 files: 1,000 refused; admitted: 50 of the share, 150 stale";
        assert_eq!(text(&decisions), expected);
        assert!(text(&Decisions::default()).contains("O_DIRECT"));
    }
}
