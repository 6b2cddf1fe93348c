//! `trimtab drive create`.

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use trimtab_device::DriveProfile;
use trimtab_emu::{BackendChoice, Data, Fault, Fill, Flush, RunDirectory, Server, Spec};
use trimtab_io::{Nanos, WholeFile};
use trimtab_report::bytes;

use super::serve;
use crate::background::catch_signals;
use crate::console;
use crate::exit::BadInput;
use crate::input::available_memory;
use crate::log;
use crate::progress::{Progress, during};
use crate::{duration, profile, size};

const HELP: &str = "\
Examples:
  sudo trimtab drive create slow --profile consumer-a --size 8G
  sudo trimtab drive create kept --size 3G --data file --file /var/tmp/kept.img
  sudo trimtab drive create safe --size 3G --data file --file /var/tmp/safe.img --flush durable
  sudo trimtab drive create turning --profile disk-7200 --size 64G --data none
  sudo trimtab drive create bad --size 3G --faults examples/drive-faults.toml
  sudo trimtab drive create old --size 3G --backend fuse

Flash starts half full and in steady state, independent of its content (--fill 0 for a
fresh drive); a disk has no such state. Content starts as zeroes. The size is rounded to one that the profile can
be scaled to. Ctrl-C removes a drive that runs in the foreground.

Over ublk a drive whose server is killed stays, and what programs ask of it waits: the same
`create` with the same --file takes it over; with content in memory it can only be removed.";

/// The drive to create.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The drive's name.
    name: String,
    /// The drive to emulate: a profile's name (`trimtab profile list`) or file.
    #[arg(long, value_name = "PROFILE", default_value = "consumer-a")]
    profile: String,
    /// Its size: 512M, 8G.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "8G")]
    size: u64,
    /// Where its content is stored.
    #[arg(long, value_enum, default_value_t = Kept::Memory)]
    data: Kept,
    /// The most memory that content may use; writes beyond that fail with ENOSPC [default:
    /// half of the available memory, or the drive's size].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    memory_cap: Option<u64>,
    /// The file, for --data file; an existing one is reused.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// What a flush does, for --data file [default: fast].
    #[arg(long, value_enum)]
    flush: Option<Flushes>,
    /// The most written data that may await a flush: what `drive fault NAME power-cut` can
    /// lose. 0 for a drive that loses nothing [default: the profile's write buffer].
    #[arg(long, value_name = "SIZE", value_parser = size_or_none)]
    write_cache: Option<u64>,
    /// How the kernel reaches it: ublk, FUSE with a loop device (fuse), or ublk where the kernel
    /// has it (auto).
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    backend: BackendChoice,
    /// The kernel's I/O scheduler for it.
    #[arg(long, value_name = "NAME", default_value = "none")]
    scheduler: String,
    /// Bytes of a block: 512 or 4096.
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    block_size: u32,
    /// How much earlier than the model to answer, to compensate for the time that requests and
    /// answers take to and from the server [default: measured at creation].
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    lead: Option<Nanos>,
    /// Let idle processors sleep while the drive is in use. Saves power, and adds tens of
    /// microseconds to requests that arrive one at a time.
    #[arg(long)]
    may_sleep: bool,
    /// The seed of all random numbers in the drive.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Share of the flash that holds data at the start, 0 to 1 [default: 0.5].
    #[arg(long, value_name = "SHARE")]
    fill: Option<f64>,
    /// How often that data was overwritten at random since; 0: written once, in order [default:
    /// 3].
    #[arg(long, value_name = "TIMES")]
    overwrites: Option<f64>,
    /// A schedule of faults, in TOML.
    #[arg(long, value_name = "FAULTS.toml")]
    faults: Option<PathBuf>,
    /// Stay in the foreground, and remove the drive on Ctrl-C.
    #[arg(long)]
    foreground: bool,
}

/// Where content is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kept {
    /// Not stored: reads return zeroes.
    None,
    /// In memory, as much as is written.
    Memory,
    /// In a sparse file, which remains when the drive is removed.
    File,
}

/// What a flush does, where content is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Flushes {
    /// Take the model's time; the page cache writes the file back later.
    Fast,
    /// Also reach the disk below before completing: survives a power cut of the machine.
    Durable,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let spec = args.spec()?;
    spec.check()?;
    let mut progress = Progress::new();
    let show = |share: f64| progress.show(|_| format!("filling the flash: {:.1}%", share * 100.0));
    if args.foreground {
        return in_foreground(spec, show);
    }
    let capacity = spec.capacity();
    // It takes up to a minute where the kernel takes requests back from a killed server.
    let device = during("waiting for the drive's server", || serve::in_background(&spec, show))?;
    drop(progress);
    Ok(tell(&device, capacity)?)
}

/// A size, or 0 without a unit.
fn size_or_none(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { size::parse(text) }
}

/// Prints only the device on standard output, for scripts.
fn tell(device: &Path, capacity: u64) -> io::Result<()> {
    log::line(&format!("{}, {}", device.display(), bytes(capacity)));
    writeln!(console::out(false), "{}", device.display())
}

fn in_foreground(spec: Spec, mut show: impl FnMut(f64)) -> Result<()> {
    let end = catch_signals()?;
    let capacity = spec.capacity();
    let mut progress = |share| {
        show(share);
        if end.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let server =
        Server::start(&RunDirectory::from_environment(), spec, serve::helper(), &mut progress)?;
    // A broken pipe must not keep the drive from being removed properly.
    tell(server.device(), capacity)?;
    Ok(server.serve(&end)?)
}

impl Args {
    fn spec(&self) -> Result<Spec> {
        let like = profile::find_any(&self.profile)?;
        let what = format!("{} with --size {}", like.name(), bytes(self.size));
        let profile =
            like.with_capacity(self.size).map_err(|e| BadInput(format!("{what}: {e}")))?;
        let fill = self.fill(&profile)?;
        let faults = self.faults.as_deref().map(read_faults).transpose()?.unwrap_or_default();
        Ok(Spec {
            name: self.name.clone(),
            data: self.data(profile.capacity_bytes())?,
            profile,
            seed: self.seed,
            fill,
            backend: self.backend,
            scheduler: self.scheduler.clone(),
            block_bytes: self.block_size,
            compensation: self.lead,
            may_sleep: self.may_sleep,
            write_cache: self.write_cache,
            faults,
        })
    }

    fn fill(&self, profile: &DriveProfile) -> Result<Fill> {
        let default = Fill::default();
        match profile {
            DriveProfile::Flash(_) => Ok(Fill {
                share: self.fill.unwrap_or(default.share),
                overwrites: self.overwrites.unwrap_or(default.overwrites),
            }),
            DriveProfile::Disk(_) if self.fill.is_none() && self.overwrites.is_none() => {
                Ok(Fill::NONE)
            }
            DriveProfile::Disk(disk) => {
                let what = "a disk, which has no flash to fill or age";
                let name = &disk.name;
                let why = format!("{name} is {what}: leave out --fill and --overwrites");
                Err(BadInput(why).into())
            }
        }
    }

    fn data(&self, capacity: u64) -> Result<Data> {
        let bad = |why: &str| Err(BadInput(why.to_owned()).into());
        if self.data != Kept::File && self.flush.is_some() {
            return bad("--flush is for --data file: no other content is on a disk");
        }
        if self.data == Kept::None && self.write_cache.is_some() {
            return bad(
                "--write-cache is for --data memory or file: without content nothing is lost",
            );
        }
        match (self.data, &self.file, self.memory_cap) {
            (Kept::File, None, _) => bad("--data file needs --file PATH"),
            (Kept::None | Kept::Memory, Some(_), _) => bad("--file is for --data file"),
            (Kept::None | Kept::File, _, Some(_)) => bad("--memory-cap is for --data memory"),
            (Kept::None, None, None) => Ok(Data::None),
            (Kept::File, Some(path), None) => {
                let path =
                    std::path::absolute(path).context("cannot determine the working directory")?;
                let flush = match self.flush {
                    Some(Flushes::Durable) => Flush::Durable,
                    Some(Flushes::Fast) | None => Flush::Fast,
                };
                Ok(Data::File { path, flush })
            }
            (Kept::Memory, None, cap) => {
                let half = || available_memory().map_or(capacity, |bytes| bytes / 2);
                Ok(Data::Memory {
                    cap_bytes: cap.unwrap_or_else(half).min(capacity.next_multiple_of(1 << 16)),
                })
            }
        }
    }
}

fn read_faults(path: &Path) -> Result<Vec<Fault>> {
    let shown = path.display();
    let text = WholeFile::toml("a schedule of faults")
        .read_text(path)
        .map_err(|e| BadInput(format!("{shown}: cannot read: {e}")))?;
    Ok(Fault::parse_schedule(&text).map_err(|e| BadInput(format!("{shown}: {e}")))?)
}
