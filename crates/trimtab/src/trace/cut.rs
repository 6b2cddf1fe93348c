//! `trimtab trace cut`.

use std::path::PathBuf;

use anyhow::Result;
use trimtab_io::Nanos;
use trimtab_trace::{BusiestWindow, Cut, Error, Trace, can_be_read_twice};

use super::written::Output;
use crate::duration;
use crate::exit::BadInput;
use crate::input::ReadArgs;
use crate::output::WriteArgs;
use crate::progress::Progress;

/// What to keep of a trace. The options combine: the busiest window is that of the device,
/// within the range.
///
/// Times count from the trace's first arrival; a request belongs to a range if it arrives at
/// or after its beginning and before its end. The times in the output are those of the input.
// Here `--to` is a time, as the counterpart of `--from`; the option for the output's format,
// which is `--to` in all other commands, is renamed.
#[derive(Debug, clap::Args)]
#[command(mut_arg("to", |arg| arg.long("to-format")))]
#[command(after_help = "Example: the busiest minute of one disk's first hour
  trimtab trace cut usr.csv.gz -o busy.parquet --to 1h --busiest 1m --device usr.0")]
pub(crate) struct Args {
    /// The trace to cut.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Keep requests that arrive at or after this time: 500us, 10ms, 10s, 5m, 1h.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    from: Option<Nanos>,
    /// Keep requests that arrive before this time.
    #[arg(long = "to", value_name = "TIME", value_parser = duration::parse_positive)]
    until: Option<Nanos>,
    /// Keep the window of this length in which the most requests arrive. Reads
    /// the trace twice.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    busiest: Option<Nanos>,
    /// Keep one device's requests.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
}

/// A time range, from the first arrival.
#[derive(Clone, Copy, Debug)]
struct Range {
    from: Nanos,
    to: Nanos,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let mut range =
        Range { from: args.from.unwrap_or(Nanos::ZERO), to: args.until.unwrap_or(Nanos::MAX) };
    args.check(range)?;
    if let Some(length) = args.busiest {
        // Before the whole trace is read.
        args.write.check()?;
        range = args.find_busiest(range, length)?;
    }
    let paths = std::slice::from_ref(&args.input);
    let (written, skipped) = args.read.with_trace(paths, |trace| {
        let mut meta = trace.meta().clone();
        meta.notes.push(("cut".to_owned(), args.describe(range)));
        let mut output = Output::new(args.write.create(&meta)?);
        args.for_kept(range, trace, |records, trace| output.write(records, trace.names()))?;
        if output.requests() == 0 {
            return Err(args.nothing_left(trace));
        }
        output.finish()
    })?;
    written.print(args.json)?;
    // If both apply, errors in the input come first.
    skipped.into_result()?;
    written.into_result()
}

impl Args {
    fn check(&self, range: Range) -> Result<(), BadInput> {
        if self.from.is_none()
            && self.until.is_none()
            && self.busiest.is_none()
            && self.device.is_none()
        {
            let what = "no selection: give --from, --to, --busiest or --device";
            return Err(BadInput(what.to_owned()));
        }
        if range.from >= range.to {
            return Err(BadInput("--from must be earlier than --to".to_owned()));
        }
        if self.busiest.is_some() && !can_be_read_twice(&self.input) {
            let what = "--busiest reads the trace twice, which a pipe cannot be";
            return Err(BadInput(what.to_owned()));
        }
        Ok(())
    }

    /// Passes the records within the range and of the device to `keep`, until the range ends.
    fn for_kept(
        &self,
        range: Range,
        trace: &mut Trace,
        mut keep: impl FnMut(&[trimtab_trace::Record], &Trace) -> Result<(), Error>,
    ) -> Result<Cut, Error> {
        let mut cut = Cut::new(range.from, range.to, self.device.as_deref());
        let mut batch = Vec::new();
        let mut progress = Progress::new();
        while trace.read(&mut batch)? {
            progress.add(batch.len());
            let more = cut.apply(&mut batch, trace.names());
            keep(&batch, trace)?;
            if !more {
                break;
            }
        }
        Ok(cut)
    }

    fn find_busiest(&self, range: Range, length: Nanos) -> Result<Range> {
        let paths = std::slice::from_ref(&self.input);
        // Skipped records are reported after the second reading.
        let (found, _) = self.read.with_trace(paths, |trace| {
            let mut busiest = BusiestWindow::new(length);
            let cut = self.for_kept(range, trace, |records, _| {
                records.iter().for_each(|record| busiest.add(record.arrival));
                Ok(())
            })?;
            let Some((start, _)) = busiest.finish() else { return Err(self.nothing_left(trace)) };
            let from = start.since(cut.first().unwrap_or_default());
            Ok(Range { from, to: (from + length).min(range.to) })
        })?;
        Ok(found)
    }

    fn describe(&self, Range { from, to }: Range) -> String {
        let mut text = format!("arrivals from {} ns", from.0);
        if to < Nanos::MAX {
            text += &format!(" to {} ns", to.0);
        }
        text += " after the first";
        if let Some(device) = &self.device {
            text += &format!(", device {device}");
        }
        text
    }

    fn nothing_left(&self, trace: &Trace) -> Error {
        const MOST: usize = 8;
        let path = trace.path().display();
        Error::Usage(match &self.device {
            Some(name) if trace.names().find_device(name).is_none() => {
                let mut known: Vec<_> =
                    trace.names().devices().map(|(_, name)| name).take(MOST + 1).collect();
                if known.len() > MOST {
                    known[MOST] = "…";
                }
                format!("{path}: no device is called `{name}`; seen were {}", known.join(", "))
            }
            Some(name) => format!("{path}: no request of {name} arrives in that range"),
            None => format!("{path}: no request arrives in that range"),
        })
    }
}
