//! `trimtab check`: this machine's capabilities, one line each.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::Serialize;
use trimtab_check::{Check, DeviceReport, FileSystemReport, Report};
use trimtab_report::{Align, Table, bytes};

use crate::console;

const EXAMPLES: &str = "\
Examples:
  trimtab check                # what an ordinary user can do here
  sudo trimtab check           # BPF programs are loaded for a moment, to see that they can be
  trimtab check --json | jq '.devices[] | select(.predicted_reads) | .name'

Exit codes: 0 predicted reads can work on a device at least, 1 on none, 2 bad input.";

/// Check what trimtab can do on this machine, and how to enable the rest.
///
/// It examines the kernel, BPF, io_uring, FUSE and the state tracker, and follows each block
/// device and mounted file system to the drives below: LVM, dm-crypt, md, NVMe multipath.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Where the state tracker pins the drives' state.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys/fs/bpf/trimtab")]
    pins: PathBuf,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Json<'a> {
    predicted_reads: bool,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let report = Report::of_machine(&args.pins);
    let mut out = console::out(args.json);
    if args.json {
        let json = Json { predicted_reads: report.can_predict(), report: &report };
        serde_json::to_writer_pretty(&mut out, &json)?;
        writeln!(out)?;
    } else {
        let marks = Marks::of(console::out_is_terminal(), &locale());
        writeln!(out, "{}", checks(&report.checks, marks))?;
        writeln!(out, "{}", devices(&report.devices, marks))?;
        write!(out, "{}", file_systems(&report.file_systems, marks))?;
    }
    out.flush()?;
    drop(out);
    if !report.can_predict() {
        bail!("predicted reads cannot work on any device of this machine now");
    }
    Ok(())
}

/// The locale, which determines the terminal's character set.
fn locale() -> String {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default()
}

/// How yes and no are displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks {
    yes: &'static str,
    no: &'static str,
}

impl Marks {
    fn of(is_terminal: bool, locale: &str) -> Self {
        let locale = locale.to_ascii_lowercase();
        if is_terminal && (locale.contains("utf-8") || locale.contains("utf8")) {
            Self { yes: "✓", no: "✗" }
        } else {
            Self { yes: "yes", no: "no" }
        }
    }

    const fn of_bool(self, is: bool) -> &'static str {
        if is { self.yes } else { self.no }
    }
}

fn checks(all: &[Check], marks: Marks) -> Table {
    let columns = [("check", Align::Left), ("ok", Align::Left), ("found", Align::Left)];
    let rest = [("used by", Align::Left), ("to do", Align::Left)];
    let mut table = Table::new(&[&columns[..], &rest[..]].concat());
    for check in all {
        let Check { name, passed, found, used_by, advice } = check;
        let to_do = advice.as_deref().unwrap_or_default();
        table.row([*name, marks.of_bool(*passed), found.as_str(), *used_by, to_do]);
    }
    table
}

fn devices(all: &[DeviceReport], marks: Marks) -> Table {
    let mut table = Table::new(&[
        ("device", Align::Left),
        ("size", Align::Right),
        ("scheduler", Align::Left),
        ("seen", Align::Left),
        ("tracked", Align::Left),
        ("predicted reads", Align::Left),
        ("made of", Align::Left),
        ("why not", Align::Left),
    ]);
    for device in all {
        table.row([
            &*device.name,
            bytes(device.size).as_str(),
            device.scheduler.as_deref().unwrap_or("-"),
            marks.of_bool(device.requests_seen),
            marks.of_bool(device.tracked),
            marks.of_bool(device.predicted_reads),
            device.made_of.as_str(),
            device.why.as_deref().unwrap_or_default(),
        ]);
    }
    table
}

fn file_systems(all: &[FileSystemReport], marks: Marks) -> Table {
    let mut table = Table::new(&[
        ("mounted at", Align::Left),
        ("type", Align::Left),
        ("predicted reads", Align::Left),
        ("device", Align::Left),
        ("why not", Align::Left),
    ]);
    for found in all {
        table.row([
            &*found.mounted_at.to_string_lossy(),
            found.kind.as_str(),
            marks.of_bool(found.predicted_reads),
            found.made_of.as_str(),
            found.why.as_deref().unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_need_a_utf8_terminal() {
        let ticks = Marks { yes: "✓", no: "✗" };
        let words = Marks { yes: "yes", no: "no" };
        assert_eq!(Marks::of(true, "en_US.UTF-8"), ticks);
        assert_eq!(Marks::of(true, "C.utf8"), ticks);
        for (is_terminal, locale) in [(false, "en_US.UTF-8"), (true, "C"), (true, "")] {
            assert_eq!(Marks::of(is_terminal, locale), words);
        }
    }

    #[test]
    fn tables_are_aligned_and_give_advice() {
        let check = Check {
            name: "kernel",
            passed: false,
            found: "Linux 4.19".to_owned(),
            used_by: "recording",
            advice: Some("install a newer one".to_owned()),
        };
        let text = checks(&[check], Marks::of(false, "")).to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0].find("found"), lines[1].find("Linux"), "{text}");
        assert!(lines[1].contains("no") && lines[1].ends_with("install a newer one"), "{text}");
    }
}
