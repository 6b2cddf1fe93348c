//! `trimtab trace info`.

mod latency;
mod layout;
mod rows;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use trimtab_trace::Stats;
use trimtab_trace::stats::Report;

use crate::console;
use crate::input::{ReadArgs, Skipped, group};
use crate::progress::Progress;

/// The traces to describe.
///
/// Several traces are shown side by side, one column each. A figure that the trace does not
/// hold, or that too few requests support, is shown as –. MB/s are 10^6 bytes per second.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trimtab trace info usr_0.csv.gz
  trimtab trace info --json *.parquet | jq '.[].rates.mean_iops'")]
pub(crate) struct Args {
    /// The traces. Per-CPU files of one blktrace recording count as one.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    /// Print JSON: an array with one object per trace.
    #[arg(long)]
    json: bool,
}

/// A trace and its figures.
#[derive(Debug, Serialize)]
struct Described {
    file: String,
    #[serde(flatten)]
    report: Report,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut traces = Vec::new();
    let mut skipped = Skipped::default();
    for paths in group(&args.files) {
        let (report, passed_over) = args.read.with_trace(&paths, |trace| {
            let mut stats = Stats::new();
            let mut batch = Vec::new();
            let mut progress = Progress::new();
            while trace.read(&mut batch)? {
                batch.iter().for_each(|record| stats.add(record));
                progress.add(batch.len());
            }
            Ok(stats.finish(trace.names(), trace.meta()))
        })?;
        skipped.add(passed_over);
        traces.push(Described { file: paths[0].display().to_string(), report });
    }
    let mut out = console::out(args.json);
    if args.json {
        serde_json::to_writer_pretty(&mut out, &traces)?;
        writeln!(out)?;
    } else {
        out.write_all(text(&traces, layout::terminal_width()).as_bytes())?;
    }
    out.flush()?;
    skipped.into_result()
}

/// The summary of one trace, also for other commands.
pub(crate) fn summary_text(file: &str, report: Report) -> String {
    text(&[Described { file: file.to_owned(), report }], layout::terminal_width())
}

/// The whole output, for a terminal of this width: figures side by side, as many traces as
/// fit, then the figures that need a table.
fn text(traces: &[Described], width: usize) -> String {
    let mut text = String::new();
    for side_by_side in traces.chunks(layout::columns_within(width)) {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &layout::columns(&rows::rows(side_by_side));
    }
    for trace in traces {
        let of = if traces.len() > 1 { format!(", {}", trace.file) } else { String::new() };
        for table in latency::tables(&trace.report, &of) {
            text.push('\n');
            text += &table.within(width);
        }
    }
    text
}

#[cfg(test)]
mod tests;
