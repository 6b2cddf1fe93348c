//! The output of `trimtab record` at its end.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use trimtab_record::{Losses, Outcome};
use trimtab_report::{Align, Table, count};
use trimtab_trace::stats::Report;

use super::tolerance::{Tolerance, share};
use crate::console;
use crate::exit::Incomplete;
use crate::log;
use crate::trace::summary_text;

/// Where the documentation explains losses.
const READ_ON: &str = "see \"Lost requests\" in docs/recording.md";

/// What was lost, and the effect on the trace.
fn kinds(losses: &Losses) -> String {
    let kinds = [
        (
            losses.never_completed,
            "completions that no BPF program saw: these requests are in the trace without a \
             completion, and not in latency figures",
        ),
        (
            losses.ring_full,
            "requests for lack of buffer space, which are not in the trace (enlarge it with \
             --buffer)",
        ),
        (
            losses.table_full,
            "requests for lack of space in the kernel's table, which are not in the trace",
        ),
        (
            losses.skipped_runs,
            "times of arrival or issue that no BPF program saw: these requests are in the trace \
             without that time",
        ),
    ];
    let parts: Vec<_> = kinds
        .into_iter()
        .filter(|(lost, _)| *lost > 0)
        .map(|(lost, what)| format!("{} {what}", count(lost)))
        .collect();
    parts.join("; ")
}

/// The notes of losses in a trace: the total, and each kind that occurred.
pub(super) fn loss_notes(losses: &Losses) -> impl Iterator<Item = (&'static str, u64)> {
    let kinds = [
        ("lost_completions", losses.never_completed),
        ("lost_ring_full", losses.ring_full),
        ("lost_table_full", losses.table_full),
        ("lost_times", losses.skipped_runs),
    ];
    std::iter::once(("lost", losses.total())).chain(kinds.into_iter().filter(|(_, n)| *n > 0))
}

/// A finished recording.
pub(super) struct Ending {
    pub(super) trace: PathBuf,
    pub(super) report: Report,
    pub(super) outcome: Outcome,
}

impl Ending {
    pub(super) fn print(&self, json: bool, overhead: bool) -> Result<()> {
        let mut out = console::out(json);
        if json {
            serde_json::to_writer_pretty(&mut out, &self.json())?;
            writeln!(out)?;
        } else {
            let text = summary_text(&self.trace.display().to_string(), self.report.clone());
            out.write_all(text.as_bytes())?;
            if overhead {
                write!(out, "\nWhat recording cost\n{}", self.overhead())?;
            }
        }
        out.flush()?;
        Ok(())
    }

    /// Incomplete if more was lost than is tolerated. Losses are reported in any case.
    pub(super) fn into_result(self, tolerance: Tolerance) -> Result<()> {
        let losses = &self.outcome.losses;
        let (lost, requests) = (losses.total(), self.outcome.records + losses.missing());
        if lost == 0 {
            return Ok(());
        }
        let line = format!("lost: {}: {}; {READ_ON}", share(lost, requests), kinds(losses));
        if !tolerance.covers(lost, requests) {
            return Err(Incomplete(line).into());
        }
        // The recording is complete enough; standard error may be closed.
        log::line(&format!("tolerated: {line}"));
        Ok(())
    }

    fn overhead(&self) -> Table {
        let mut table = Table::new(&[
            ("handler", Align::Left),
            ("runs", Align::Right),
            ("skipped", Align::Right),
            ("ns per run", Align::Right),
            ("ns per request", Align::Right),
        ]);
        let requests = self.outcome.records;
        let per = |ns: u64, n: u64| {
            if n == 0 { "–".to_owned() } else { format!("{:.0}", ns as f64 / n as f64) }
        };
        for h in &self.outcome.overhead.handlers {
            table.row([
                h.name.clone(),
                count(h.runs),
                count(h.skipped),
                per(h.run_ns, h.runs),
                per(h.run_ns, requests),
            ]);
        }
        let total = self.outcome.overhead.handlers.iter().map(|h| h.run_ns).sum();
        table.row(["all", "", "", "", &per(total, requests)]);
        table
    }

    fn json(&self) -> serde_json::Value {
        let Outcome { records, losses, overhead, .. } = &self.outcome;
        let handlers: Vec<_> = overhead
            .handlers
            .iter()
            .map(|h| {
                json!({"name": h.name, "runs": h.runs, "skipped": h.skipped, "run_ns": h.run_ns})
            })
            .collect();
        json!({
            "file": self.trace,
            "records": records,
            "lost": losses.total(),
            "losses": {
                "ring_full": losses.ring_full,
                "table_full": losses.table_full,
                "skipped_runs": losses.skipped_runs,
                "never_completed": losses.never_completed,
            },
            "empty_flushes": self.outcome.empty_flushes,
            "absorbed": self.outcome.merged,
            "abandoned": self.outcome.abandoned,
            "passthrough": self.outcome.passthrough,
            "rescued": self.outcome.rescued,
            "overhead": {
                "handlers": handlers,
                "ns_per_request": overhead.ns_per_request(*records),
            },
            "report": self.report,
        })
    }
}
