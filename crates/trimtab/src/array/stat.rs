//! `trimtab array stat`.

use std::io::{self, Write as _};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use trimtab_io::Nanos;
use trimtab_nvmet::Exported;
use trimtab_report::{Facts, bytes, count, escaped};
use trimtab_volume::{
    Array, ArrayInfo, Buckets, Latencies, MemberStat, Replacement, Requests, RunDirectory, Stat,
    TurnsStat, WithoutPolicy,
};

use crate::console;
use crate::duration;
use crate::export::{self, Exports, WithExport};
use crate::json::Json;
use crate::units::{NONE, long, percent};

const HELP: &str = "\
Examples:
  sudo trimtab array stat fast
  sudo trimtab array stat fast --watch
  sudo trimtab array stat fast --json | jq -r '.members[].state'

`computed` are reads of stripes that were answered from other members than those that hold
the data. Reads `without the policy` ask the members that hold the data, because members may
differ there or none can be done without. Bytes `in doubt` are computed for a missing member
where the members had not been made equal: some of them may be wrong. Percentiles are since the
start, those of --watch of each interval, up to 6% too long; JSON has buckets from which others
can be taken (longest latency in ns, and number).";

/// What to show.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The array.
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
    let array = Array::find(&RunDirectory::from_environment(), &args.name)?;
    if args.watch {
        return watch(&array, args);
    }
    let stat = array.stat()?;
    let exports = Exports::read::<ArrayInfo>()?;
    let exported = exports.of(array.info());
    if args.json {
        return Json::StandardOutput.write(&WithExport { stat: &stat, exported });
    }
    Ok(write!(console::out(false), "{}", facts(&array, &stat, exported))?)
}

fn facts(array: &Array, stat: &Stat, exported: Option<&Exported>) -> Facts {
    let info = array.info();
    let mut facts = Facts::new();
    facts.add("array", format!("{}, {}, over {}", info.name, info.device.display(), stat.backend));
    let chunk = stat.chunk.map_or_else(String::new, |chunk| format!(", chunk {}", bytes(chunk)));
    facts.add("level", format!("{}{chunk}, {}", stat.level, bytes(stat.capacity)));
    facts.add("after a crash", stat.consistency.as_str());
    facts.add("UUID", info.uuid.as_str());
    if let Some(exported) = exported {
        facts.add("exported", export::described(exported, &info.device));
    }
    facts.add("state", state(stat));
    facts.add("policy", stat.policy.as_str());
    facts.add("up", long(Nanos::from_secs_f64(stat.uptime_s)));
    facts.add("in flight", count(stat.in_flight as u64));
    facts.add("reads", format!("{}; {}", requests(&stat.reads), latencies(&stat.read_latency)));
    facts.add("writes", format!("{}; {}", requests(&stat.writes), latencies(&stat.write_latency)));
    facts.add("flushes", requests(&stat.flushes));
    if stat.discards.requests > 0 {
        facts.add("discards", requests(&stat.discards));
    }
    let share = stat.computed as f64 / (stat.stripe_reads as f64).max(1.0);
    facts.add("computed", format!("{}, {}", count(stat.computed), percent(share)));
    facts.add("extra member reads", count(stat.extra_reads));
    if stat.refreshed > 0 {
        facts.add(
            "written again",
            format!("{} strips, so that members take turns", count(stat.refreshed)),
        );
    }
    if let Some(turns) = &stat.turns {
        facts.add("turns", self::turns(turns));
    }
    if stat.refused > 0 {
        facts.add("refused by members", count(stat.refused));
    }
    facts.add("without the policy", without_policy(&stat.without_policy));
    if stat.consistency == "bitmap" {
        facts.add("marked in the bitmap", format!("{} of each member", bytes(stat.marked)));
    }
    if let Some(rate) = stat.rate {
        let most = bytes(stat.rates.most);
        facts.add("work beside requests", format!("at {}/s, at most {most}/s", bytes(rate)));
    }
    if let Some(check) = stat.check {
        let [done, all, mismatches] = [check.stripes, stat.stripes, check.mismatches].map(count);
        facts.add("check", format!("{done} of {all} stripes, {mismatches} did not fit"));
    }
    for (place, member) in stat.members.iter().enumerate() {
        facts.add(format!("member {place}"), member_line(member));
    }
    for other in &stat.others {
        facts.add(other.state.as_str(), member_line(other));
    }
    for what in &stat.lacking {
        facts.add("lacking", what.as_str());
    }
    facts
}

/// Whether the policy makes members take turns, and by which figures it decides.
fn turns(turns: &TurnsStat) -> String {
    let TurnsStat { standing, extra_reads, late_reads, late_writes, lost, .. } = turns;
    let would = |what: &str, [now, with]: [f64; 2]| {
        let more = if with > now {
            format!(", which may become {}", percent(with))
        } else {
            String::new()
        };
        let now = percent(now);
        format!("not made: p99 of {what} would rise; up to {now} of them were late lately{more}")
    };
    match standing.as_str() {
        "wanted" => "made when members are busy at the same time".to_owned(),
        "unknown" => "not made: when members are busy is not known yet".to_owned(),
        "costly" => {
            let extra = percent(extra_reads.unwrap_or_default());
            format!("not made: late reads would take up to {extra} extra reads")
        }
        "in vain" => {
            "not made: they did not help; they are tried again after some bursts".to_owned()
        }
        "waits" => "none now: the array is being checked or made equal".to_owned(),
        "delays reads" => would("reads", *late_reads),
        "delays writes" => would("writes", *late_writes),
        "delays clients" => {
            let lost = percent(lost.unwrap_or_default());
            format!(
                "not made: programs that wait for their requests would lose {lost} of their time"
            )
        }
        other => format!("not made: {other}"),
    }
}

fn without_policy(reads: &WithoutPolicy) -> String {
    let WithoutPolicy { unsynced, no_spare, no_help, no_slot } = *reads;
    let [unsynced, no_spare] = [unsynced, no_spare].map(count);
    let mut text = format!("{unsynced} may differ, {no_spare} no spare member");
    let of_ioda = [(no_help, "no help of the member"), (no_slot, "too many for the drive")];
    for (number, what) in of_ioda.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!(", {} {what}", count(number));
    }
    text
}

fn state(stat: &Stat) -> String {
    let mut text = stat.state.clone();
    if stat.to_resync > 0 {
        text += &format!(", {} of each member to be made equal", bytes(stat.to_resync));
    }
    if stat.in_doubt > 0 {
        text += &format!(", {} in doubt", bytes(stat.in_doubt));
    }
    text
}

fn requests(of: &Requests) -> String {
    let mut text = count(of.requests);
    if of.bytes > 0 {
        text += &format!(", {}", bytes(of.bytes));
    }
    if of.errors > 0 {
        text += &format!(", {} failed", count(of.errors));
    }
    text
}

fn us(us: Option<f64>) -> String {
    us.map_or_else(|| NONE.to_owned(), |us| Nanos((us * 1e3) as u64).to_string())
}

fn latencies(of: &Latencies) -> String {
    let [p50, p99, p999, max] = [of.p50_us, of.p99_us, of.p999_us, of.max_us].map(us);
    format!("p50 {p50}, p99 {p99}, p99.9 {p999}, max {max}")
}

fn share(done: u64, all: u64) -> String {
    percent(done as f64 / (all as f64).max(1.0))
}

fn member_line(member: &MemberStat) -> String {
    let path = member.path.as_ref().map_or(NONE.to_owned(), |path| path.display().to_string());
    let mut text = format!("{path}, {}", member.state);
    if let Some((done, all)) = member.rebuilt {
        text += &format!(" {}", share(done, all));
    }
    if let Some(Replacement { path, done, all }) = &member.replacement {
        text += &format!(", being replaced by {} {}", path.display(), share(*done, *all));
    }
    if let Some(why) = &member.why {
        text += &format!(": {why}");
    }
    match member.helps {
        Some(true) => text += ", its firmware helps",
        Some(false) => {
            let why = member.no_help.as_deref().unwrap_or("it has not been asked");
            text += &format!(", read without the policy ioda: {why}");
        }
        None => {}
    }
    if member.read_latency.count > 0 {
        text += &format!("; reads {}", latencies(&member.read_latency));
    }
    let errors = [
        (member.refused, "refused"),
        (member.read_errors, "reads failed"),
        (member.corrected, "corrected"),
        (member.write_errors, "writes failed"),
    ];
    for (number, what) in errors.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!("; {} {what}", count(number));
    }
    text
}

/// One line per interval, with the rates since the previous one.
fn watch(array: &Array, args: &Args) -> Result<()> {
    let mut before = array.stat()?;
    let terminal = console::out_is_terminal();
    loop {
        thread::sleep(Duration::from_nanos(args.every.0));
        let stat = array.stat()?;
        if args.json {
            let mut out = console::out(true);
            serde_json::to_writer(&mut out, &stat).map_err(io::Error::from)?;
            writeln!(out)?;
            out.flush()?;
        } else {
            let (start, end) = if terminal { ("\r", "\x1b[K") } else { ("", "\n") };
            // A line that wraps cannot be written over.
            let width = console::width().map_or(usize::MAX, |width| width.saturating_sub(1));
            let line: String = line(&before, &stat).chars().take(width).collect();
            let mut out = console::screen();
            write!(out, "{start}{}{end}", escaped(&line))?;
            out.flush()?;
        }
        before = stat;
    }
}

fn line(before: &Stat, stat: &Stat) -> String {
    let seconds = (stat.uptime_s - before.uptime_s).max(1e-3);
    let rate = |now: u64, then: u64| (now.saturating_sub(then) as f64 / seconds).round() as u64;
    let all = |stat: &Stat| stat.reads.requests + stat.writes.requests;
    let took = |what: &str, now: &Buckets, then: &Buckets| {
        let took = now.since(then).latencies();
        let [p50, p99, max] = [took.p50_us, took.p99_us, took.max_us].map(us);
        format!("{what} p50 {p50} p99 {p99} max {max}")
    };
    let mut line = format!(
        "{} IOPS  read {}/s  written {}/s  in flight {}  computed {}/s  {}",
        count(rate(all(stat), all(before))),
        bytes(rate(stat.reads.bytes, before.reads.bytes)),
        bytes(rate(stat.writes.bytes, before.writes.bytes)),
        stat.in_flight,
        count(rate(stat.computed, before.computed)),
        state(stat),
    );
    for (place, member) in stat.members.iter().enumerate() {
        if let Some((done, all)) = member.rebuilt {
            line += &format!("  member {place} rebuilt {}", share(done, all));
        }
        if let Some(Replacement { done, all, .. }) = &member.replacement {
            line += &format!("  member {place} replaced {}", share(*done, *all));
        }
    }
    let reads = took("reads", &stat.read_buckets_ns, &before.read_buckets_ns);
    let writes = took("writes", &stat.write_buckets_ns, &before.write_buckets_ns);
    line + "  " + &reads + "  " + &writes
}
