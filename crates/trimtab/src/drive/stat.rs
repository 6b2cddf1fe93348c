//! `trimtab drive stat`.

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use trimtab_emu::{
    DiskFlushes, DiskStat, Drive, DriveInfo, FlashStat, Latencies, PowerLoss, RunDirectory, Stat,
};
use trimtab_io::Nanos;
use trimtab_nvmet::Exported;
use trimtab_report::{Facts, bytes, count, escaped};

use crate::console;
use crate::duration;
use crate::export::{self, Exports, WithExport};
use crate::json::Json;
use crate::units::{NONE, long, number, percent};

const HELP: &str = "\
Examples:
  sudo trimtab drive stat slow
  sudo trimtab drive stat slow --watch
  sudo trimtab drive stat slow --json | jq .write_amplification

`seen by programs` is the read latency at the block layer's tracepoints, from issue to
completion; `beyond the model` is its excess over the model and the faults. Answers are
given early to compensate for the path to the drive; the compensation adapts in use unless
it was set. `late in the server` is the server's own part of the excess. On a saturated
machine a drive cannot keep its times.";

/// What to show.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drive.
    name: String,
    /// Print a line about each interval, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// The interval of --watch.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, default_value = "1s", requires = "watch")]
    every: Nanos,
    /// Print JSON; with --watch one line per interval.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let drive = Drive::find(&RunDirectory::from_environment(), &args.name)?;
    if args.watch {
        return watch(&drive, args);
    }
    let stat = drive.stat()?;
    let exports = Exports::read::<DriveInfo>()?;
    let exported = exports.of(drive.info());
    if args.json {
        return Json::StandardOutput.write(&WithExport { stat: &stat, exported });
    }
    Ok(write!(console::out(false), "{}", facts(&drive, &stat, exported))?)
}

fn facts(drive: &Drive, stat: &Stat, exported: Option<&Exported>) -> Facts {
    let info = drive.info();
    let mut facts = Facts::new();
    let over = if stat.backend.is_empty() { info.backend.text() } else { &stat.backend };
    facts.add("drive", format!("{}, {}, over {over}", info.name, info.device.display()));
    facts.add("profile", format!("{}, {}, seed {}", info.profile, bytes(info.capacity), info.seed));
    if let Some(exported) = exported {
        facts.add("exported", export::described(exported, &info.device));
    }
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
    path(&mut facts, stat);
    facts.add("late in the server", latencies(&stat.added_latency));
    if let Some(flash) = &stat.flash {
        of_flash(&mut facts, flash);
    }
    if let Some(disk) = &stat.disk {
        of_disk(&mut facts, disk);
    }
    facts.add("content", content(stat));
    if stat.write_cache_bytes > 0 {
        let (now, most) = (bytes(stat.unflushed_bytes), bytes(stat.write_cache_bytes));
        facts.add("not flushed", format!("{now} of at most {most}"));
    }
    if let Some(disk) = &stat.disk_flushes {
        facts.add("flushes on disk", on_disk(disk));
    }
    if stat.power_cuts > 0 {
        facts.add("power cuts", power_cuts(stat));
    }
    if let Some(help) = &stat.predictable {
        let (place, drives) = (help.position + 1, help.drives);
        let what =
            format!("cleans in window {place} of {drives}, {} ms each", number(help.window_ms));
        facts.add("firmware works for", format!("{}: {what}", help.owner));
    }
    if stat.refused > 0 {
        facts.add("refused", format!("{} reads that cleaning would delay", count(stat.refused)));
    }
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

fn of_flash(facts: &mut Facts, flash: &FlashStat) {
    facts.add("write amplification", amplification(flash));
    facts.add("dies cleaning", percent(flash.cleaning_share));
    facts.add(
        "blocks erased, free",
        format!("{}, {}", count(flash.erases), count(flash.free_blocks as u64)),
    );
    facts.add("mapped", percent(flash.mapped_share));
}

fn amplification(flash: &FlashStat) -> String {
    flash.write_amplification.map_or_else(|| NONE.to_owned(), number)
}

fn of_disk(facts: &mut Facts, disk: &DiskStat) {
    let [arm, buffer] = [disk.misses, disk.hits].map(count);
    facts.add("reads by arm, buffer", format!("{arm}, {buffer}"));
    let [arm, wait, head] =
        [disk.seeking_share, disk.rotating_share, disk.transferring_share].map(percent);
    facts.add("arm", format!("moves {arm}, waits for a sector {wait}, transfers {head}"));
    let [buffered, back] = [disk.buffered_writes, disk.written_back].map(count);
    facts.add("writes buffered", format!("{buffered}, {back} extents written back"));
    if disk.starved > 0 {
        facts.add("starved", count(disk.starved));
    }
}

/// Latency as programs see it, compared with the model.
fn path(facts: &mut Facts, stat: &Stat) {
    if let Some(path) = &stat.path {
        facts.add("seen by programs", latencies(&path.seen));
        facts.add("beyond the model", latencies(&path.beyond));
        let mut early = percent(share(path.early, path.reads));
        if path.early > 0 {
            early += &format!(" of reads, by {} at p50", us(path.early_by.p50_us));
        }
        facts.add("too early", early);
        let now = if path.saturated_now { ", now too" } else { "" };
        let saturated = percent(share(path.saturated, path.reads));
        facts.add("machine saturated", format!("for {saturated} of reads{now}"));
    }
    let how = if stat.compensation_is_fixed { "as set" } else { "corrected in use" };
    facts.add("answers early by", format!("{:.1} µs, {how}", stat.compensation_us));
}

fn share(of: u64, all: u64) -> f64 {
    of as f64 / (all as f64).max(1.0)
}

fn us(us: Option<f64>) -> String {
    us.map_or_else(|| NONE.to_owned(), |us| Nanos((us * 1e3) as u64).to_string())
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

fn on_disk(flushes: &DiskFlushes) -> String {
    let DiskFlushes { latency, late, failed } = flushes;
    let mut text = format!("{}, {} later than the model", latencies(latency), count(*late));
    if *failed > 0 {
        text += &format!(", {} failed", count(*failed));
    }
    text
}

fn power_cuts(stat: &Stat) -> String {
    let mut text = count(stat.power_cuts);
    if let Some(PowerLoss { kept, lost, torn }) = stat.last_power_cut {
        let [kept, lost, torn] = [kept, lost, torn].map(count);
        text += &format!(
            "; of the unflushed writes the last one kept {kept}, tore {torn} and lost {lost}"
        );
    }
    if stat.no_power > 0 {
        text += &format!("; {} requests without power", count(stat.no_power));
    }
    text
}

fn latencies(of: &Latencies) -> String {
    format!(
        "p50 {}, p99 {}, p99.9 {}, max {}",
        us(of.p50_us),
        us(of.p99_us),
        us(of.p999_us),
        us(of.max_us)
    )
}

/// One line per interval, with the rates since the previous one.
fn watch(drive: &Drive, args: &Args) -> Result<()> {
    let mut before = drive.stat()?;
    let terminal = console::out_is_terminal();
    loop {
        thread::sleep(Duration::from_nanos(args.every.0));
        let stat = drive.stat()?;
        if args.json {
            let mut out = console::out(true);
            serde_json::to_writer(&mut out, &stat).map_err(io::Error::from)?;
            writeln!(out)?;
            out.flush()?;
        } else {
            let (start, end) = if terminal { ("\r", "\x1b[K") } else { ("", "\n") };
            let mut out = console::screen();
            write!(out, "{start}{}{end}", escaped(&line(&before, &stat)))?;
            out.flush()?;
        }
        before = stat;
    }
}

fn line(before: &Stat, stat: &Stat) -> String {
    let seconds = (stat.uptime_s - before.uptime_s).max(1e-3);
    let rate = |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds).round() as u64;
    let written = rate(stat.writes.bytes, before.writes.bytes);
    let read = rate(stat.reads.bytes, before.reads.bytes);
    let inside = stat.flash.map_or_else(String::new, |flash| {
        let (amplification, cleaning) = (amplification(&flash), percent(flash.cleaning_share));
        format!("WA {amplification}  cleaning {cleaning}  ")
    });
    let mut line = format!(
        "{} IOPS  read {}/s  written {}/s  in flight {}  {}beyond the model p50 {}{}",
        count(rate(stat.requests(), before.requests())),
        bytes(read),
        bytes(written),
        stat.in_flight,
        inside,
        us(stat.path.and_then(|path| path.beyond.p50_us)),
        if stat.path.is_some_and(|path| path.saturated_now) { "  saturated" } else { "" },
    );
    for fault in &stat.faults {
        line += &format!("  [{fault}]");
    }
    line
}
