//! `trimtab advise`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use trimtab_predict::Recorded;
use trimtab_report::{Align, Table, count, machine};
use trimtab_train::{Advice, ReadLatency, advise};

use crate::console;
use crate::exit::BadInput;
use crate::input::{ReadArgs, Skipped};
use crate::json::Json;
use crate::progress::{Progress, during};
use crate::{recordings, units};

const HELP: &str = "\
Examples:
  trimtab advise disks.parquet
  trimtab advise sda.parquet sdb.parquet sdc.parquet --json advice.json

A trace of several drives is a recording of each. Predictors are trained on the
earlier half of each, and all figures are of the later half. Where recordings are
of the same time (in one file, or with the time of day), a refused read takes the
latency of the peer's read nearest in time; otherwise slow periods are taken to be
independent.

If the load stays what it was in the recordings, the mean and p99 of reads under a strategy
lie between two bounds: `now`, since a strategy without a gain is left (what it costs to find
that out, up to 2%, is added), and `at best`, every read as fast as the fastest drive served reads of
its size with nothing in the way (p1). `likely` is an estimate between them: each read goes
where the predictors expect it back first, the slowest 3% to a second drive as well, and the
load stays as recorded. How steering changes the load cannot be known from recordings:
`trimtab compare` simulates it, on profiles made by `trimtab profile fit`.";

/// The recordings to evaluate.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Recordings, with latencies, of two or more drives that could hold the same
    /// data.
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// The seed of random numbers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    read: ReadArgs,
    /// Write it as JSON; without a name to standard output, in place of the text.
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    trimtab: &'static str,
    machine: String,
    seed: u64,
    names: &'a [String],
    #[serde(flatten)]
    advice: &'a Advice,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let inputs: Vec<_> = args.traces.iter().map(PathBuf::as_path).collect();
    let json = args.json.as_deref().map(|out| Json::create(out, &inputs)).transpose()?;
    let same = |(i, path): (usize, &PathBuf)| {
        args.traces[..i].iter().any(|other| other.canonicalize().ok() == path.canonicalize().ok())
    };
    if let Some((_, twice)) = args.traces.iter().enumerate().find(|&pair| same(pair)) {
        let text =
            format!("{}: is named twice; each recording is of other drives", twice.display());
        return Err(BadInput(text).into());
    }
    let mut skipped = Skipped::default();
    let (mut names, mut found) = (Vec::new(), Vec::new());
    for path in &args.traces {
        let (drives, bad) = recordings::read_all(path, &args.read)?;
        skipped.add(bad);
        let several = drives.len() > 1;
        for (device, drive) in drives {
            let trace = drive.name.clone();
            names.push(if several { format!("{trace}:{device}") } else { trace });
            found.push(drive);
        }
    }
    if found.len() < 2 {
        let what = "there is only one drive to fail over between; name recordings of two or more";
        return Err(BadInput(what.to_owned()).into());
    }
    let recorded: Vec<&[Recorded]> = found.iter().map(|r| r.recorded.as_slice()).collect();
    let mut progress = Progress::new();
    // Drives of one file share a clock, whatever its epoch.
    let one_file = args.traces.len() == 1;
    let one_clock = one_file || found.iter().all(|recording| recording.on_unix_clock);
    let advice = during(&format!("training {} drives", names.len()), || {
        advise(&recorded, one_clock, args.seed, |number| {
            let of = names.len();
            progress.show(|_| format!("training {} ({} of {of})", names[number], number + 1));
        })
    })?;
    drop(progress);
    let on_standard_output = matches!(json, Some(Json::StandardOutput));
    if let Some(json) = json {
        let (trimtab, seed) = (env!("CARGO_PKG_VERSION"), args.seed);
        json.write(&Report { trimtab, machine: machine(), seed, names: &names, advice: &advice })?;
    }
    if !on_standard_output {
        let mut out = console::out(false);
        out.write_all(text(&names, &advice).as_bytes())?;
        out.flush()?;
    }
    skipped.into_result()
}

fn text(names: &[String], advice: &Advice) -> String {
    let time = |time: Option<_>| time.map_or_else(|| units::NONE.to_owned(), units::long);
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    let columns = [
        ("drive", Align::Left),
        ("reads", Align::Right),
        ("inflection", Align::Right),
        ("at", Align::Right),
        ("slow", Align::Right),
        ("refused", Align::Right),
        ("moved", Align::Right),
        ("mean now", Align::Right),
        ("likely", Align::Right),
        ("at best", Align::Right),
        ("p99 now", Align::Right),
        ("likely", Align::Right),
        ("at best", Align::Right),
    ];
    let mut drives = Table::new(&columns);
    for (name, drive) in names.iter().zip(&advice.drives) {
        let of = |expected: &ReadLatency| (time(Some(expected.mean)), time(expected.p99));
        let (before, likely, best) = (of(&drive.before), of(&drive.likely), of(&drive.best));
        drives.row([
            name.clone(),
            count(drive.reads as u64),
            time(drive.inflection),
            drive
                .inflection_percentile
                .map_or_else(|| units::NONE.to_owned(), |p| format!("p{p:.1}")),
            percent(drive.slow_share),
            percent(drive.refused),
            percent(drive.moved),
            before.0,
            likely.0,
            best.0,
            before.1,
            likely.1,
            best.1,
        ]);
    }
    let mut text = format!(
        "What steering reads between the drives would bring, on the later half of each recording.\n\
         Latencies will lie between `now` and `at best`, a bound that no strategy passes. Likely: \
         with\npredictors trained on the earlier half, if the load stays as it was.\n\n{drives}"
    );
    if !advice.same_clock {
        return text
            + "\nThe recordings are not of the same time: slow periods are taken to be\n\
               independent. Record the drives together for a surer answer.\n";
    }
    let numbers = (1..=names.len()).map(|number| (format!("on {number}"), Align::Right));
    let columns: Vec<_> =
        [("slow on".to_owned(), Align::Left)].into_iter().chain(numbers).collect();
    let mut pairs = Table::new(&columns).with_caption(
        "How slow periods coincide: of the reads on the other drive next in time to a\n\
         slow read on this one, the share that is slow as well; first that of all reads.",
    );
    let all = advice.drives.iter().map(|drive| percent(drive.slow_share));
    pairs.row(["(any read)".to_owned()].into_iter().chain(all));
    for (number, (name, shares)) in names.iter().zip(&advice.coincide).enumerate() {
        let share = |(other, share): (usize, &Option<f64>)| match share {
            _ if other == number => String::new(),
            share => share.map_or_else(|| units::NONE.to_owned(), percent),
        };
        let shares = shares.iter().enumerate().map(share);
        pairs.row([format!("{} {name}", number + 1)].into_iter().chain(shares));
    }
    text += &format!("\n{pairs}");
    text
}
