//! `trimtab profile fit`.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;
use trimtab_device::Profile;
use trimtab_report::{Align, Table, count, escaped};
use trimtab_sim::{Distance, Fitted};
use trimtab_trace::{AtomicFile, Error};

use super::fit_device::LiveArgs;
use crate::console;
use crate::exit::BadInput;
use crate::input::ReadArgs;
use crate::output::{must_be_a_file, must_not_replace};
use crate::progress::{Progress, during};
use crate::{size, units};

const HELP: &str = "\
Examples:
  trimtab profile fit disk.parquet -o disk.toml
  trimtab profile fit disk.parquet --base enterprise-a -o disk.toml
  trimtab profile fit --disk hdd.parquet -o hdd.toml
  sudo trimtab profile fit --device /dev/sda -o sda.toml
  sudo trimtab profile fit --device /dev/sda -o sda.toml --resume

The profile is fitted to the first half of the recording, up to 20,000 requests
of it. How far it is off on the second half is what it is worth, and the command says
whether reads (20%) and writes (30%) may stand for the drive's. Some 2,400 models are
tried, unless --models says otherwise: a few minutes.

With --disk the drive is a disk (with platters), recorded with one request at a time;
the fit takes seconds.

Without a recording, the disk --device is measured: pairs of reads over the distances whose
seek time is known least, for some minutes. It only reads. Ctrl-C keeps what was measured, in
PROFILE.toml.unfinished, and ends with exit code 3; --resume continues.";

/// Which drive to describe.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A recording of the drive, with latencies. Without it the disk --device is measured.
    #[arg(value_name = "TRACE", required_unless_present = "device")]
    pub(super) trace: Option<PathBuf>,
    /// The drive is a disk, recorded with one request at a time.
    #[arg(long, requires = "trace", conflicts_with_all = ["base", "models", "capacity"])]
    disk: bool,
    /// The profile to start from (a name or a file) [default: the nearest one].
    #[arg(long, requires = "trace", value_name = "NAME|FILE")]
    base: Option<String>,
    /// The size of the profile, and of the models that are tried if it is less than 2G;
    /// `profile show --capacity` scales it. Offsets beyond it wrap around.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "8G")]
    capacity: u64,
    /// End the search after this many models, beyond those to choose the start: about 200, or
    /// 20 with --base.
    #[arg(long, requires = "trace", value_name = "N")]
    models: Option<NonZeroUsize>,
    /// The drive to use, of a recording of several; without a recording the disk to measure.
    #[arg(long, value_name = "NAME|/dev/DISK")]
    device: Option<String>,
    /// The profile to write.
    #[arg(short = 'o', long = "out", value_name = "PROFILE.toml")]
    pub(super) out: PathBuf,
    /// Print the remaining distance as JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    read: ReadArgs,
    #[command(flatten)]
    pub(super) live: LiveArgs,
}

#[derive(Debug, Serialize)]
struct FitReport<'a> {
    profile: &'a str,
    base: &'a str,
    models_tried: usize,
    first_half: Distance,
    second_half: Distance,
    /// Between the drive's own latencies in the two halves.
    halves: Distance,
    /// Whether the profile may stand for the drive: off by at most 20% for reads and 30% for
    /// writes on the half not seen. `null` with fewer than 500 of them.
    reads_are_near: Option<bool>,
    writes_are_near: Option<bool>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(trace) = &args.trace else {
        let device = args.device.as_deref().expect("clap requires one of the two");
        return super::fit_device::run(args, device);
    };
    if let Some(option) = args.live.given() {
        let why = format!("{option}: is for measuring a disk (--device without a recording)");
        return Err(BadInput(why).into());
    }
    must_be_a_file(&args.out)?;
    must_not_replace(&args.out, &[trace])?;
    let write_error = |source| Error::Write { path: args.out.clone(), source };
    let mut file = AtomicFile::create(&args.out).map_err(write_error)?;
    let bases: Vec<Profile> = match &args.base {
        Some(name) => vec![super::find(name)?],
        None => Profile::builtin_names().filter_map(Profile::builtin).collect(),
    };
    let (records, skipped) = args.read.with_trace(std::slice::from_ref(trace), |trace| {
        let mut all = args.read.all_records(trace)?;
        let wanted = args.device.as_deref().map(|name| trace.names().find_device(name));
        Ok(match wanted {
            None => Some(all),
            Some(device) => device.map(|device| {
                all.retain(|record| record.device == device);
                all
            }),
        })
    })?;
    let of = trace.display();
    let Some(records) = records else {
        let name = args.device.as_deref().unwrap_or_default();
        return Err(BadInput(format!("{of}: has no device `{name}`")).into());
    };
    if records.iter().any(|record| record.device != records[0].device) {
        return Err(BadInput(format!("{of}: is of several drives, pick one by --device")).into());
    }
    if args.disk {
        super::fit_disk::run(args, &records, file)?;
        return skipped.into_result();
    }
    let enough = args.models.map_or(usize::MAX, NonZeroUsize::get);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut progress = Progress::new();
    let fit = |tried, error: f64| {
        progress.show(|elapsed| {
            let seconds = elapsed.as_secs_f64();
            match error.is_finite() {
                true => format!("{tried} models tried, {:.1}% off; {seconds:.0} s", 100.0 * error),
                false => format!("{tried} models tried; {seconds:.0} s"),
            }
        });
        tried < enough
    };
    let fitted = during("making the recording ready", || {
        trimtab_sim::fit(&records, &bases, args.capacity, threads, fit)
    });
    drop(progress);
    let fitted = fitted.map_err(|e| BadInput(format!("{of}: {e}")))?;
    file.write_all(fitted.profile.to_toml().as_bytes()).map_err(write_error)?;
    file.commit().map_err(write_error)?;
    let mut out = console::out(args.json);
    if args.json {
        let report = FitReport {
            profile: &fitted.profile.name,
            base: &fitted.base,
            models_tried: fitted.tried,
            first_half: fitted.first_half,
            second_half: fitted.second_half,
            halves: fitted.halves,
            reads_are_near: fitted.second_half.reads_are_near(),
            writes_are_near: fitted.second_half.writes_are_near(),
        };
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        let (path, tried) = (args.out.display().to_string(), fitted.tried);
        let (path, base) = (escaped(&path), escaped(&fitted.base));
        writeln!(out, "{path}, from {base}, after {tried} models\n")?;
        write!(out, "{}\n{}", table(&fitted), worth(&fitted.second_half))?;
    }
    out.flush()?;
    skipped.into_result()
}

/// What the profile may be used for.
fn worth(unseen: &Distance) -> String {
    let of = |what: &str, near: Option<bool>, limit: &str| match near {
        Some(true) => {
            format!("The profile's {what} may stand for the drive's under such a load.\n")
        }
        Some(false) => format!(
            "The profile's {what} are more than {limit} off on requests that it has not seen: take \
             no conclusion\nabout {what} from it.\n"
        ),
        None => format!("There are too few {what} to tell whether the profile's resemble them.\n"),
    };
    let mut text = of("reads", unseen.reads_are_near(), "20%");
    text += &of("writes", unseen.writes_are_near(), "30%");
    if [unseen.reads_are_near(), unseen.writes_are_near()].contains(&Some(false)) {
        text += "What a recording does not show: what the drive's cache held before, when its \
                 firmware\nflushes and cleans, and who else used it. The last row is how far the \
                 drive itself\nwas from one half to the other.\n";
    }
    text
}

/// The distance between model and drive, and between the drive's halves.
fn table(fitted: &Fitted) -> Table {
    let columns = [
        ("", Align::Left),
        ("reads", Align::Right),
        ("latency off by", Align::Right),
        ("CDF off by", Align::Right),
        ("writes", Align::Right),
        ("latency off by", Align::Right),
        ("CDF off by", Align::Right),
    ];
    let percent =
        |x: Option<f64>| x.map_or_else(|| units::NONE.to_owned(), |x| format!("{:.1}%", 100.0 * x));
    let mut table = Table::new(&columns);
    let rows = [
        ("fitted to", &fitted.first_half),
        ("not seen", &fitted.second_half),
        ("drive, half to half", &fitted.halves),
    ];
    for (half, d) in rows {
        table.row([
            half.to_owned(),
            count(d.reads),
            percent(d.read_error),
            percent(d.read_ks),
            count(d.writes),
            percent(d.write_error),
            percent(d.write_ks),
        ]);
    }
    table
}
