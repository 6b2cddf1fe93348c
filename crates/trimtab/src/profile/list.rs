//! `trimtab profile list`.

use std::io::Write as _;

use anyhow::Result;
use serde::Serialize;
use trimtab_device::{DiskProfile, DiskTiming, Order, Profile};
use trimtab_io::Nanos;
use trimtab_report::{Align, Table, bytes};

use crate::console;

/// How to list them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trimtab profile list
  trimtab profile list --json | jq -r '.[].name'")]
pub(crate) struct Args {
    /// Print JSON: an array with one object per profile.
    #[arg(long)]
    json: bool,
}

/// A disk's entry in the list.
#[derive(Debug, Serialize)]
struct ListedDisk {
    kind: &'static str,
    name: String,
    capacity_bytes: u64,
    rpm: f64,
    /// Over a third of the cylinders.
    seek_us: f64,
    queue_depth: u32,
    queue_order: Order,
    about: String,
}

impl ListedDisk {
    fn new(profile: DiskProfile) -> Self {
        let timing = DiskTiming::new(&profile);
        Self {
            kind: "disk",
            capacity_bytes: profile.capacity_bytes(),
            rpm: profile.disk.rpm,
            seek_us: timing.seek(profile.cylinders() / 3).as_micros_f64(),
            queue_depth: profile.queue.depth,
            queue_order: profile.queue.order,
            name: profile.name,
            about: profile.about,
        }
    }

    fn cells(&self) -> [String; 6] {
        let order = match self.queue_order {
            Order::Fifo => "fifo",
            Order::Sstf => "sstf",
            Order::Ncq => "ncq",
        };
        [
            self.name.clone(),
            bytes(self.capacity_bytes),
            format!("{:.0}", self.rpm),
            us(self.seek_us),
            format!("{} {order}", self.queue_depth),
            self.about.clone(),
        ]
    }
}

/// An entry in JSON.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Flash(&'a Listed),
    Disk(&'a ListedDisk),
}

/// A flash drive's entry in the list.
#[derive(Debug, Serialize)]
struct Listed {
    kind: &'static str,
    name: String,
    capacity_bytes: u64,
    channels: u32,
    dies_per_channel: u32,
    page_bytes: u32,
    read_us: f64,
    /// Over the pages of a block.
    program_us_min: f64,
    program_us_max: f64,
    erase_us: f64,
    /// 0: none.
    buffer_mb: f64,
    about: String,
}

impl Listed {
    fn new(profile: Profile) -> Self {
        let (geometry, timing) = (&profile.geometry, &profile.timing);
        let program = timing.program_pattern_us.as_deref();
        let program = program.or(timing.program_us.as_ref().map(std::slice::from_ref));
        let program = program.unwrap_or_default().iter().copied();
        Self {
            kind: "flash",
            capacity_bytes: profile.capacity_bytes(),
            channels: geometry.channels,
            dies_per_channel: geometry.chips_per_channel * geometry.dies_per_chip,
            page_bytes: geometry.page_bytes,
            read_us: timing.read_us,
            program_us_min: program.clone().fold(f64::INFINITY, f64::min),
            program_us_max: program.fold(0.0, f64::max),
            erase_us: timing.erase_us,
            buffer_mb: profile.buffer.size_mb,
            name: profile.name,
            about: profile.about,
        }
    }

    fn cells(&self) -> [String; 9] {
        let (least, most) = (us(self.program_us_min), us(self.program_us_max));
        let program = if least == most { most } else { format!("{least} – {most}") };
        let buffer = match self.buffer_mb {
            0.0 => "–".to_owned(),
            mb => format!("{mb} MB"),
        };
        [
            self.name.clone(),
            bytes(self.capacity_bytes),
            format!("{} × {}", self.channels, self.dies_per_channel),
            bytes(self.page_bytes.into()),
            us(self.read_us),
            program,
            us(self.erase_us),
            buffer,
            self.about.clone(),
        ]
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let profiles: Vec<_> =
        Profile::builtin_names().filter_map(Profile::builtin).map(Listed::new).collect();
    let disks: Vec<_> = DiskProfile::builtin_names()
        .filter_map(DiskProfile::builtin)
        .map(ListedDisk::new)
        .collect();
    let mut out = console::out(args.json);
    if args.json {
        let all = profiles.iter().map(Entry::Flash).chain(disks.iter().map(Entry::Disk));
        serde_json::to_writer_pretty(&mut out, &all.collect::<Vec<_>>())?;
        writeln!(out)?;
    } else {
        write!(out, "{}\n{}", table(&profiles), disk_table(&disks))?;
    }
    Ok(out.flush()?)
}

fn table(profiles: &[Listed]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("name", Left),
        ("capacity", Right),
        ("ch × dies", Right),
        ("page", Right),
        ("read", Right),
        ("program", Right),
        ("erase", Right),
        ("buffer", Right),
        ("about", Left),
    ]);
    for profile in profiles {
        table.row(profile.cells());
    }
    table
}

fn disk_table(disks: &[ListedDisk]) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("disk", Left),
        ("capacity", Right),
        ("rpm", Right),
        ("seek of 1/3", Right),
        ("queue", Right),
        ("about", Left),
    ]);
    disks.iter().for_each(|disk| table.row(disk.cells()));
    table
}

fn us(us: f64) -> String {
    Nanos::from_secs_f64(us / 1e6).to_string()
}
