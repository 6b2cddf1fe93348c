//! `trimtab trace report`: traces as a page of tables and plots.

mod draw;
mod page;
mod verdict;

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_report::Page;
use trimtab_trace::{AtomicFile, Clock, Error, Plots, Series};

use crate::console;
use crate::input::{ReadArgs, Skipped, group};
use crate::log;
use crate::output::{Report as Output, must_not_replace};
use crate::progress::Progress;

/// Options of `trimtab trace report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  trimtab trace report usr_0.csv.gz -o usr_0.html
  trimtab trace report before.parquet after.parquet -o compared.html
  trimtab trace report sda.blktrace.* --json | jq '.traces[0].plots.ops'
  trimtab trace report sda.parquet -o sda.html --csv figures/

The page begins with the slow reads: those beyond the knee of the response times of
reads and writes, as in `trimtab evaluate`. It needs no network: it contains its data,
also as CSV to save, and the code that draws it.")]
pub(crate) struct Args {
    /// Traces to draw, in any format that can be read; - is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The HTML file to write.
    #[arg(short, long, value_name = "FILE", required_unless_present_any = ["json", "csv"])]
    out: Option<PathBuf>,
    /// Write the figures of all tables and plots as CSV files into this directory, which is
    /// created if necessary.
    #[arg(long, value_name = "DIR")]
    csv: Option<PathBuf>,
    /// Print the plotted data as JSON on standard output.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    read: ReadArgs,
}

/// The whole report, in the layout of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    trimtab: &'static str,
    /// The machine that made the report, which need not be the traced one.
    machine: String,
    traces: Vec<TraceReport>,
}

/// One trace of the report.
#[derive(Debug, Serialize)]
struct TraceReport {
    /// The trace's name in headings and legends.
    name: String,
    files: Vec<PathBuf>,
    format: &'static str,
    /// Whether its clock counts from the Unix epoch.
    unix_clock: bool,
    has_offsets: bool,
    devices: Vec<String>,
    /// Notes in the trace.
    notes: Vec<(String, String)>,
    /// Malformed records skipped.
    skipped: u64,
    plots: Plots,
}

pub(crate) fn run(args: Args) -> Result<()> {
    // An unwritable path should show before hours of reading.
    let inputs: Vec<&Path> = args.files.iter().map(PathBuf::as_path).collect();
    let output = args.out.as_deref().map(|path| Output::create(path, &inputs)).transpose()?;
    let mut report = Report {
        trimtab: env!("CARGO_PKG_VERSION"),
        machine: trimtab_report::machine(),
        traces: Vec::new(),
    };
    let mut skipped = Skipped::default();
    for files in group(&args.files) {
        let (trace, some) = gather(&files, &args.read)?;
        report.traces.push(trace);
        skipped.add(some);
    }
    name(&mut report.traces);
    let page = page::page(&report);
    if let Some(output) = output {
        output.write(&page)?;
    }
    if let Some(folder) = &args.csv {
        write_csv(folder, &page, &inputs)?;
    }
    if args.json {
        let mut out = BufWriter::new(console::out(true));
        // Converted to an io::Error, so that a broken pipe is recognised.
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
        out.flush()?;
    }
    skipped.into_result()
}

/// Writes each table and plot to its own file.
fn write_csv(folder: &Path, page: &Page, inputs: &[&Path]) -> Result<()> {
    let failed = |path: &Path, source| Error::Write { path: path.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let files = page.csv_files();
    for (name, content) in &files {
        let path = folder.join(name);
        must_not_replace(&path, inputs)?;
        let write = || {
            let mut file = AtomicFile::create(&path)?;
            file.write_all(content.as_bytes())?;
            file.commit()
        };
        write().map_err(|e| failed(&path, e))?;
    }
    let (count, folder) = (files.len(), folder.display());
    log::line(&format!("{count} CSV files written to {folder}"));
    Ok(())
}

/// Reads one trace.
fn gather(files: &[PathBuf], read: &ReadArgs) -> Result<(TraceReport, Skipped)> {
    read.with_trace(files, |trace| {
        let mut series = Series::new();
        let mut batch = Vec::new();
        let mut progress = Progress::new();
        while trace.read(&mut batch)? {
            batch.iter().for_each(|record| series.add(record));
            progress.add(batch.len());
        }
        let mut plots = series.finish_marking(verdict::threshold);
        let meta = trace.meta();
        if !meta.has_offsets {
            // All offsets read as zero: a map of them would look like data.
            plots.offsets = None;
        }
        Ok(TraceReport {
            name: String::new(),
            files: files.to_vec(),
            format: meta.format.name(),
            unix_clock: meta.clock == Clock::Unix,
            has_offsets: meta.has_offsets,
            devices: trace.names().devices().map(|(_, name)| name.to_owned()).collect(),
            notes: meta.notes.clone(),
            skipped: trace.skipped(),
            plots,
        })
    })
}

/// Names each trace: by its file's name; by the whole path if file names are equal; with a
/// number if the same file was given twice.
fn name(traces: &mut [TraceReport]) {
    let short = |trace: &TraceReport| {
        let path = &trace.files[0];
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    };
    for i in 0..traces.len() {
        let shared = |j: usize| j != i && short(&traces[j]) == short(&traces[i]);
        let mut name = if (0..traces.len()).any(shared) {
            traces[i].files[0].display().to_string()
        } else {
            short(&traces[i])
        };
        let before = traces[..i].iter().filter(|t| t.files[0] == traces[i].files[0]).count();
        if before > 0 {
            name = format!("{name} ({})", before + 1);
        }
        traces[i].name = name;
    }
}

impl TraceReport {
    /// The first arrival as a date, if the clock is Unix time.
    fn began(&self) -> Option<Nanos> {
        self.plots.first_arrival.filter(|_| self.unix_clock)
    }
}
