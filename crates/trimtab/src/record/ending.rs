//! What `trimtab record` prints when it is over.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use trimtab_live::record::Outcome;
use trimtab_report::{Align, Table, count};
use trimtab_trace::stats::Report;

use crate::exit::Incomplete;
use crate::trace::summary_text;

/// A finished recording.
pub(super) struct Ending {
    pub(super) trace: PathBuf,
    pub(super) report: Report,
    pub(super) outcome: Outcome,
}

impl Ending {
    pub(super) fn print(&self, json: bool, overhead: bool) -> Result<()> {
        let mut out = io::stdout().lock();
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

    /// Incomplete, if anything was lost.
    pub(super) fn into_result(self) -> Result<()> {
        let losses = &self.outcome.losses;
        let kinds = [
            (losses.ring_full, "for lack of buffer space (enlarge it with --buffer)"),
            (losses.table_full, "for lack of space in the kernel's table of requests"),
            (losses.skipped_runs, "times of arrival or issue, the kernel having skipped a handler"),
            (losses.never_completed, "completions: issued and not seen to complete"),
        ];
        let parts: Vec<_> = kinds
            .into_iter()
            .filter(|(lost, _)| *lost > 0)
            .map(|(lost, why)| format!("{} {why}", count(lost)))
            .collect();
        if parts.is_empty() {
            return Ok(());
        }
        let total = count(self.outcome.records);
        Err(Incomplete(format!("of {total} requests recorded, lost: {}", parts.join("; "))).into())
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
            "absorbed": self.outcome.absorbed,
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
