//! `trimtab drive stat`.

use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use trimtab_io::Nanos;
use trimtab_live::drive::{Drive, Home, Latencies, Stat};
use trimtab_report::{Facts, bytes, count};

use crate::duration;
use crate::json::Json;
use crate::units::{NONE, long, number, percent};

const HELP: &str = "\
Examples:
  sudo trimtab drive stat slow
  sudo trimtab drive stat slow --watch
  sudo trimtab drive stat slow --json | jq .write_amplification

`added latency` is how much later the server answered than the model says; what the
kernel adds on both sides is measured by `trimtab drive check`.";

/// What to show.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drive.
    name: String,
    /// Show a line about each second, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// How long such a second is.
    #[arg(long, value_name = "TIME", value_parser = duration::parse, default_value = "1s", requires = "watch")]
    every: Nanos,
    /// Print JSON; with --watch a line each time.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = Drive::find(&Home::from_environment(), &args.name)?;
    if args.watch {
        return watch(&drive, args);
    }
    let stat = drive.stat()?;
    if args.json {
        return Json::StandardOutput.write(&stat);
    }
    Ok(write!(io::stdout().lock(), "{}", facts(&drive, &stat))?)
}

fn facts(drive: &Drive, stat: &Stat) -> Facts {
    let info = drive.info();
    let mut facts = Facts::new();
    facts.add("drive", format!("{}, {}", info.name, info.device.display()));
    facts.add("profile", format!("{}, {}, seed {}", info.profile, bytes(info.capacity), info.seed));
    facts.add("up", long(Nanos::from_secs_f64(stat.uptime_s)));
    facts.add("in flight", count(stat.in_flight as u64));
    let kinds = [
        ("reads", stat.reads),
        ("writes", stat.writes),
        ("discards", stat.discards),
        ("flushes", stat.flushes),
    ];
    for (name, kind) in kinds {
        let mut text = format!("{}, {}", count(kind.requests), bytes(kind.bytes));
        if kind.errors > 0 {
            text += &format!(", {} failed by a fault", count(kind.errors));
        }
        facts.add(name, text);
    }
    facts.add("model's read latency", latencies(&stat.model_latency));
    facts.add("added latency", latencies(&stat.added_latency));
    facts.add("answers early by", format!("{:.1} µs", stat.lead_us));
    let amplification = stat.write_amplification.map_or_else(|| NONE.to_owned(), number);
    facts.add("write amplification", amplification);
    facts.add("dies cleaning", percent(stat.cleaning_share));
    facts.add(
        "blocks erased, free",
        format!("{}, {}", count(stat.erases), count(stat.free_blocks as u64)),
    );
    facts.add("mapped", percent(stat.mapped_share));
    facts.add("content", content(stat));
    if stat.no_room > 0 {
        let what =
            "writes failed with ENOSPC: no room for content (--memory-cap, or the disk below)";
        facts.add("no room", format!("{} {what}", count(stat.no_room)));
    }
    for fault in &stat.faults {
        facts.add("fault", fault.as_str());
    }
    for what in &stat.lacking {
        facts.add("lacking", what.as_str());
    }
    facts.add("snapshot", if stat.has_snapshot { "kept" } else { NONE });
    facts
}

fn content(stat: &Stat) -> String {
    match (stat.data.as_str(), stat.data_cap_bytes) {
        ("none", _) => "none: reads are zeroes".to_owned(),
        (kind, Some(cap)) => {
            format!("{kind}, {} of at most {}", bytes(stat.data_bytes), bytes(cap))
        }
        (kind, None) => format!("{kind}, {}", bytes(stat.data_bytes)),
    }
}

fn latencies(of: &Latencies) -> String {
    let us = |us: Option<f64>| {
        us.map_or_else(|| NONE.to_owned(), |us| Nanos((us * 1e3) as u64).to_string())
    };
    format!(
        "p50 {}, p99 {}, p99.9 {}, max {}",
        us(of.p50_us),
        us(of.p99_us),
        us(of.p999_us),
        us(of.max_us)
    )
}

/// One line each time, with the rates since the one before.
fn watch(drive: &Drive, args: &Args) -> Result<()> {
    let mut before = drive.stat()?;
    let terminal = io::stdout().is_terminal();
    loop {
        thread::sleep(Duration::from_nanos(args.every.0));
        let stat = drive.stat()?;
        let mut out = io::stdout().lock();
        if args.json {
            serde_json::to_writer(&mut out, &stat).map_err(io::Error::from)?;
            writeln!(out)?;
        } else {
            let (start, end) = if terminal { ("\r", "\x1b[K") } else { ("", "\n") };
            write!(out, "{start}{}{end}", line(&before, &stat))?;
        }
        out.flush()?;
        before = stat;
    }
}

fn line(before: &Stat, stat: &Stat) -> String {
    let seconds = (stat.uptime_s - before.uptime_s).max(1e-3);
    let rate = |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds).round() as u64;
    let written = rate(stat.writes.bytes, before.writes.bytes);
    let read = rate(stat.reads.bytes, before.reads.bytes);
    let mut line = format!(
        "{} IOPS  read {}/s  written {}/s  in flight {}  WA {}  cleaning {}  added p99 {}",
        count(rate(stat.requests(), before.requests())),
        bytes(read),
        bytes(written),
        stat.in_flight,
        stat.write_amplification.map_or_else(|| NONE.to_owned(), number),
        percent(stat.cleaning_share),
        stat.added_latency
            .p99_us
            .map_or_else(|| NONE.to_owned(), |us| Nanos((us * 1e3) as u64).to_string()),
    );
    for fault in &stat.faults {
        line += &format!("  [{fault}]");
    }
    line
}
