//! `trimtab trace rerate`.

use std::path::PathBuf;

use anyhow::Result;
use trimtab_io::Nanos;
use trimtab_trace::{Rerate, can_be_read_twice};

use super::written::Output;
use crate::decimal::Decimal;
use crate::exit::BadInput;
use crate::input::ReadArgs;
use crate::output::WriteArgs;
use crate::progress::Progress;

/// The rate to change the trace to.
///
/// Times between arrivals shrink or grow in proportion. Latencies stay as they were measured,
/// at the original rate; a note in the output says so.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("rate").required(true))]
#[command(after_help = "Examples: twice as fast, and at 5000 requests per second on average
  trimtab trace rerate usr.csv.gz -o usr-2x.parquet --factor 2
  trimtab trace rerate usr.csv.gz -o usr-5k.parquet --iops 5000")]
pub(crate) struct Args {
    /// The trace to change.
    #[arg(value_name = "IN")]
    input: PathBuf,
    /// Speed up by this factor; less than 1 is slower.
    #[arg(long, value_name = "X", group = "rate")]
    factor: Option<Decimal>,
    /// Change to this many requests per second on average. Reads the trace twice.
    #[arg(long, value_name = "N", group = "rate")]
    iops: Option<Decimal>,
    #[command(flatten)]
    write: WriteArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let (rerate, what) = args.plan()?;
    let paths = std::slice::from_ref(&args.input);
    let (written, skipped) = args.read.with_trace(paths, |trace| {
        let note = format!("{what}; latencies are those measured at the original rate");
        let mut meta = trace.meta().clone();
        meta.notes.push(("rerated".to_owned(), note));
        let mut output = Output::new(args.write.create(&meta)?);
        let mut rerate = rerate.clone();
        let mut batch = Vec::new();
        let mut progress = Progress::new();
        while trace.read(&mut batch)? {
            rerate.apply(&mut batch);
            output.write(&batch, trace.names())?;
            progress.add(batch.len());
        }
        output.finish()
    })?;
    written.print(args.json)?;
    // If both apply, errors in the input come first.
    skipped.into_result()?;
    written.into_result()
}

impl Args {
    fn plan(&self) -> Result<(Rerate, String)> {
        let Some(Decimal { numerator, denominator }) = self.iops else {
            let factor = self.factor.ok_or_else(|| BadInput("give --factor or --iops".into()))?;
            let rerate = Rerate::by_factor(factor.numerator, factor.denominator)?;
            let shown = factor.numerator as f64 / factor.denominator as f64;
            return Ok((rerate, format!("by a factor of {shown}")));
        };
        if !can_be_read_twice(&self.input) {
            let what = "--iops reads the trace twice, which a pipe cannot be";
            return Err(BadInput(what.to_owned()).into());
        }
        let (requests, duration) = self.measure()?;
        let rerate = Rerate::to_mean_iops(numerator, denominator, requests, duration)?;
        let shown = numerator as f64 / denominator as f64;
        let was = requests as f64 / duration.as_secs_f64();
        Ok((rerate, format!("from {was:.3} to {shown} requests per second")))
    }

    /// Requests, and the span of their arrivals.
    fn measure(&self) -> Result<(u64, Nanos)> {
        let paths = std::slice::from_ref(&self.input);
        // Skipped records are reported after the second reading.
        let (found, _) = self.read.with_trace(paths, |trace| {
            let (mut requests, mut first, mut last) = (0, None, Nanos::ZERO);
            let mut batch = Vec::new();
            let mut progress = Progress::new();
            while trace.read(&mut batch)? {
                requests += batch.len() as u64;
                progress.add(batch.len());
                first = first.or_else(|| batch.first().map(|r| r.arrival));
                last = batch.last().map_or(last, |r| r.arrival);
            }
            Ok((requests, last.since(first.unwrap_or(last))))
        })?;
        Ok(found)
    }
}
