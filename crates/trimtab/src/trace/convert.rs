//! `trimtab trace convert`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::console;
use crate::input::ReadArgs;
use crate::output::{WriteArgs, all_written};
use crate::progress::Progress;
use anyhow::Result;
use serde::Serialize;
use trimtab_report::escaped;
use trimtab_trace::OutputFormat;

const EXAMPLES: &str = "\
Examples:
  trimtab trace convert usr_0.csv.gz -o usr_0.parquet
  trimtab trace convert sda.blktrace.* -o sda.parquet
  trimtab trace convert sda.parquet -o sda.iolog
  fio --name=replay --read_iolog=sda.iolog --replay_redirect=/dev/sdb --ioengine=libaio --direct=1

A fio log begins at its first request and has no completions. A device with a kernel
name is written as its path in /dev; fio takes other names for files, and creates
them. --replay_redirect sends everything to one device instead, and the writes
replace its content. msr has only reads and writes, and times in steps of 100 ns.
Records that a format cannot hold are left out and counted, and the exit code is 3.";

/// Write a trace in another format.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The trace: one file, - for standard input, or the per-CPU files of one
    /// blktrace recording.
    #[arg(required = true, value_name = "IN")]
    input: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    write: WriteArgs,
    /// Print what was done as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// The result of the conversion.
#[derive(Debug, Serialize)]
struct Done {
    /// Records written.
    records: u64,
    /// Sum of the lengths of all records read.
    request_bytes: u64,
    /// Size of the file; absent where the output is no regular file.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes: Option<u64>,
    /// Malformed records skipped.
    skipped: u64,
    /// Records that the output format cannot hold.
    left_out: u64,
}

pub(crate) fn run(args: Args) -> Result<()> {
    // Before a long read, not after it.
    let format = args.write.format()?;
    let ((mut done, left_out), skipped) = args.read.with_trace(&args.input, |trace| {
        // Inside, because the work starts afresh if the trace turns out to need sorting on
        // disk.
        let mut writer = args.write.create(trace.meta())?;
        let mut progress = Progress::new();
        let (mut batch, mut request_bytes) = (Vec::new(), 0_u64);
        while trace.read(&mut batch)? {
            writer.write(&batch, trace.names())?;
            for record in &batch {
                // Discards may be as long as a device, and there may be many.
                request_bytes = request_bytes.saturating_add(record.length);
            }
            progress.add(batch.len());
        }
        let left_out = *writer.left_out();
        let done = Done {
            records: writer.records() - left_out.total(),
            request_bytes,
            file_bytes: None,
            skipped: trace.skipped(),
            left_out: left_out.total(),
        };
        writer.finish()?;
        Ok((done, left_out))
    })?;
    let file = std::fs::metadata(args.write.path());
    done.file_bytes = file.ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
    tell(&args, &done)?;
    if format == OutputFormat::FioIolog {
        suggest_replay(args.write.path())?;
    }
    // If both apply, errors in the input are reported.
    skipped.into_result()?;
    all_written(&left_out)
}

/// Suggests how to replay the log on a device whose content does not matter.
fn suggest_replay(log: &Path) -> Result<()> {
    let log = log.display().to_string();
    let log = escaped(&log);
    writeln!(
        console::errors(),
        "{log}: fio opens the devices that it names, and writes to them; elsewhere: fio \
         --name=replay --read_iolog={log} --replay_redirect=/dev/DEVICE"
    )?;
    Ok(())
}

fn tell(args: &Args, done: &Done) -> Result<()> {
    let Done { records, skipped, left_out, .. } = done;
    let mut line = format!("{}: {records} records written", args.write.path().display());
    for (count, what) in [(skipped, "skipped"), (left_out, "left out")] {
        if *count > 0 {
            line += &format!(", {count} {what}");
        }
    }
    writeln!(console::errors(), "{}", escaped(&line))?;
    if args.json {
        let mut out = console::out(true);
        serde_json::to_writer(&mut out, done)?;
        writeln!(out)?;
    }
    Ok(())
}
