//! `trimtab trace recover`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use trimtab_report::{count, escaped};
use trimtab_trace::recording_spool::{Leftover, trace_of};
use trimtab_trace::{Names, OutputFormat, SpillSort, Writer};

use crate::console;
use crate::exit::{BadInput, Incomplete};
use crate::output::{must_be_a_file, must_not_replace};
use crate::progress::Progress;
use crate::record::free_beside;

const EXAMPLES: &str = "\
Examples:
  trimtab trace recover nvme0n1.parquet.spool
  trimtab trace recover --remove nvme0n1.parquet.spool

A recording that is killed, or whose machine loses power, leaves a spool beside its
output. It holds everything recorded except the last seconds and the requests in flight.";

/// Records sorted in memory: 20 MB.
const SORT_IN_MEMORY: usize = 1 << 18;
/// Records written at once.
const BATCH: usize = 1 << 14;
/// More than a recorder may leave unwritten at the end of a spool. A longer incomplete tail is
/// damage.
const MOST_TORN: u64 = 16 << 20;

/// Make a trace from the spool of an interrupted recording.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The spool.
    #[arg(value_name = "SPOOL")]
    spool: PathBuf,
    /// The trace to write [default: the name of the recording's output, or the first of
    /// NAME-2.parquet, … that does not exist].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Keep the spool; otherwise it is removed once the trace is complete.
    #[arg(long, conflicts_with = "remove")]
    keep: bool,
    /// Remove the spool without making a trace.
    #[arg(long, conflicts_with = "out")]
    remove: bool,
    /// Print what was done as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// The result of the recovery.
#[derive(Debug, Serialize)]
struct Done {
    /// The trace; absent if none was made.
    file: Option<PathBuf>,
    records: u64,
    /// Bytes of the incomplete record at the spool's end.
    torn_bytes: u64,
    /// Whether the spool was removed.
    removed: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut leftover = Leftover::open(&args.spool)?;
    if args.remove {
        remove(&args.spool)?;
        let done = Done { file: None, records: 0, torn_bytes: 0, removed: true };
        return tell(args, &done, "removed");
    }
    let out = output(args)?;
    let records = write(&mut leftover, &out)?;
    let torn_bytes = leftover.torn_off()?;
    let damaged = torn_bytes > MOST_TORN;
    let removed = !args.keep && !damaged;
    if removed {
        remove(&args.spool)?;
    }
    let done = Done { file: Some(out.clone()), records, torn_bytes, removed };
    let torn = match torn_bytes {
        0 => String::new(),
        n => format!(", without {} bytes of an incomplete record at the end", count(n)),
    };
    tell(
        args,
        &done,
        &format!("{} requests recovered to {}{torn}", count(records), out.display()),
    )?;
    if damaged {
        let spool = args.spool.display();
        let why = format!("{spool}: damaged: {} bytes are not readable", count(torn_bytes));
        return Err(Incomplete(format!("{why}; it is kept")).into());
    }
    Ok(())
}

/// The path of the trace.
fn output(args: &Args) -> Result<PathBuf> {
    if let Some(out) = &args.out {
        must_be_a_file(out)?;
        must_not_replace(out, &[&args.spool])?;
        return Ok(out.clone());
    }
    let trace = trace_of(&args.spool).ok_or_else(|| {
        BadInput(format!("{}: does not end in .spool, name a trace with -o", args.spool.display()))
    })?;
    Ok(free_beside(&trace))
}

/// Sorts the recorded requests by arrival, and makes a trace of them.
fn write(leftover: &mut Leftover, out: &Path) -> Result<u64> {
    let mut progress = Progress::new();
    let mut sorter = SpillSort::new(SORT_IN_MEMORY);
    let mut batch = Vec::new();
    while leftover.read(&mut batch)? {
        progress.add(batch.len());
        for record in batch.drain(..) {
            sorter.push(record).context("cannot sort records on disk")?;
        }
    }
    let mut writer = Writer::create(out, OutputFormat::Parquet, leftover.meta())?;
    writer.set_note("recovered", "the recording was interrupted: its last seconds are missing");
    let names: &Names = leftover.names();
    let mut more = true;
    while more {
        more = sorter.drain(BATCH, &mut batch).context("cannot sort records on disk")?;
        writer.write(&batch, names)?;
        batch.clear();
    }
    let records = writer.records();
    writer.finish()?;
    Ok(records)
}

fn remove(spool: &Path) -> Result<()> {
    fs::remove_file(spool).with_context(|| format!("{}: cannot remove", spool.display()))
}

fn tell(args: &Args, done: &Done, line: &str) -> Result<()> {
    if args.json {
        let mut out = console::out(true);
        serde_json::to_writer(&mut out, done)?;
        writeln!(out)?;
        return Ok(());
    }
    let line = format!("{}: {line}", args.spool.display());
    writeln!(console::errors(), "{}", escaped(&line))?;
    Ok(())
}
