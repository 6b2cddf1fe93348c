//! `trimtab profile queue`.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use trimtab_device::{DiskProfile, DiskTiming, DriveProfile};
use trimtab_io::{Nanos, Op};
use trimtab_predict::{Label, LabelRule, Model, Provenance, QueueTimes, Trained, card_path};
use trimtab_report::{Facts, bytes};
use trimtab_train::ModelFiles;

use crate::console;
use crate::exit::BadInput;
use crate::output::must_be_a_file;
use crate::{duration, size};

const HELP: &str = "\
Examples:
  trimtab profile queue disk-7200 --deadline 20ms -o sda.safetensors
  trimtab profile queue disk-7200 --span 100G --deadline 15ms -o sda.safetensors

The predictor mitt-state needs no training: it knows how long requests take, and expects a read
to wait for those that are in flight, of all processes. Its model is used as any other: by `trimtab
agent`, by readers and by sets of replicas. It belongs to any drive.";

/// Make a model of a drive's queue from its profile.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A profile that comes with the program (`trimtab profile list`), or a file.
    #[arg(value_name = "NAME|FILE")]
    profile: String,
    /// The deadline of reads that have none of their own: a longer expected latency is late; at most
    /// 1m.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_deadline)]
    deadline: Nanos,
    /// Requests are within this much from the drive's beginning, such as 100G: a disk's seeks are
    /// shorter then [default: all of it].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    span: Option<u64>,
    /// The model to write; its card is written beside it, ending in .json.
    #[arg(short = 'o', long = "out", value_name = "MODEL")]
    out: PathBuf,
    /// Print the model's card as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    must_be_a_file(&args.out)?;
    if card_path(&args.out) == args.out {
        let out = args.out.display();
        let why = format!("{out}: .json is the card's ending, give the model another");
        return Err(BadInput(why).into());
    }
    let profile = super::find_any(&args.profile)?;
    let times = match (&profile, args.span) {
        (_, Some(span)) if span > profile.capacity_bytes() => {
            let (name, all) = (profile.name(), bytes(profile.capacity_bytes()));
            let why = format!("--span {}: more than {name} has, which are {all}", bytes(span));
            return Err(BadInput(why).into());
        }
        (DriveProfile::Disk(disk), span) => of_disk(disk, span, args.deadline),
        (DriveProfile::Flash(flash), None) => of_flash(flash, args.deadline),
        (DriveProfile::Flash(_), Some(_)) => {
            let why = format!("--span: {} is flash, which has no seeks", profile.name());
            return Err(BadInput(why).into());
        }
    };
    let files = ModelFiles::create(&args.out)?;
    let provenance = Provenance::untrained(format!("profile {}", profile.name()));
    let label = Label::Threshold { latency: args.deadline };
    let model = Model::new(Trained::MittState(times), LabelRule::P95, label, provenance);
    let card = files.commit(&model)?;
    if args.json {
        return Ok(write!(console::out(true), "{card}")?);
    }
    let time = |each, page| format!("{}, and {} for each 4 KiB", Nanos(each), Nanos(page));
    let mut facts = Facts::new();
    facts.add("model", args.out.display().to_string());
    facts.add("predictor", "mitt-state");
    facts.add("reads", time(times.read_ns, times.read_page_ns));
    facts.add("writes", time(times.write_ns, times.write_page_ns));
    facts.add("at a time", times.parallel.to_string());
    facts.add("late", format!("beyond {}", args.deadline));
    Ok(writeln!(console::out(false), "{facts}")?)
}

/// A disk serves one request at a time, from anywhere in its span.
fn of_disk(profile: &DiskProfile, span: Option<u64>, deadline: Nanos) -> QueueTimes {
    const PLACES: u64 = 32;
    const LONG: u64 = 1 << 20;
    let timing = DiskTiming::new(profile);
    let span = span.unwrap_or(u64::MAX).min(profile.capacity_bytes());
    let place = |number: u64| span / PLACES * number + span / (2 * PLACES);
    let mean = |op, length| {
        let all = (0..PLACES).flat_map(|from| (0..PLACES).map(move |to| (from, to)));
        let times =
            all.map(|(from, to)| timing.expected_service(place(from), op, place(to), length).0);
        times.sum::<u64>() / (PLACES * PLACES)
    };
    let of = |op| {
        let (short, long) = (mean(op, 4096), mean(op, LONG));
        let page = long.saturating_sub(short) / (LONG / 4096 - 1);
        (short.saturating_sub(page), page)
    };
    let ((read_ns, read_page_ns), (write_ns, write_page_ns)) = (of(Op::Read), of(Op::Write));
    let deadline_ns = deadline.0;
    QueueTimes { read_ns, read_page_ns, write_ns, write_page_ns, parallel: 1, deadline_ns }
}

/// Flash: each die does one operation at a time. Writes fill whole pages of the flash.
fn of_flash(profile: &trimtab_device::Profile, deadline: Nanos) -> QueueTimes {
    let (t, g) = (&profile.timing, &profile.geometry);
    let ns = |us: f64| (us * 1e3).round() as u64;
    let transfer_us = 4096.0 / t.channel_mb_s;
    let program_us = match (&t.program_pattern_us, t.program_us) {
        (Some(pattern), _) => pattern.iter().sum::<f64>() / pattern.len().max(1) as f64,
        (None, program) => program.unwrap_or_default(),
    };
    let pages = f64::from(g.page_bytes) / 4096.0;
    QueueTimes {
        read_ns: ns(t.firmware_us + t.command_us + t.read_us),
        read_page_ns: ns(transfer_us),
        write_ns: ns(t.firmware_us + t.command_us),
        write_page_ns: ns(transfer_us + program_us / pages),
        parallel: g.channels * g.chips_per_channel * g.dies_per_chip,
        deadline_ns: deadline.0,
    }
}
