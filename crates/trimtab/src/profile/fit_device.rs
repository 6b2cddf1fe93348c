//! `trimtab profile fit --device`: a disk measured by reads of its profiler's choice.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use trimtab_block::{BlockDevice, DirectBuffer};
use trimtab_device::DiskProfile;
use trimtab_io::{Nanos, WholeFile, monotonic};
use trimtab_report::{Facts, bytes, count};
use trimtab_sim::{DiskProfiler, RotationProbe};
use trimtab_trace::AtomicFile;

use super::fit::Args;
use crate::console;
use crate::duration;
use crate::exit::{BadInput, Incomplete};
use crate::interrupt::Interrupt;
use crate::log;
use crate::output::must_be_a_file;
use crate::progress::Progress;
use crate::units::long;

/// Options of the measurement of a disk.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Measuring a disk")]
pub(crate) struct LiveArgs {
    /// The disk's speed, revolutions per minute [default: found by 130 reads, in seconds].
    #[arg(long, value_name = "RPM", value_parser = parse_rpm)]
    rpm: Option<f64>,
    /// Measure until no seek time is uncertain by more than this [default: 150us].
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    within: Option<Nanos>,
    /// The seed of the places that are read [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Continue a measurement that was interrupted.
    #[arg(long, conflicts_with_all = ["rpm", "within", "seed"])]
    resume: bool,
    /// Measure a device that is mounted or otherwise in use, or reports no platters. Reads harm
    /// nothing, but slow its users down, and their requests disturb the measurement.
    #[arg(long)]
    force: bool,
}

impl LiveArgs {
    /// The option that makes no sense for a recording, if one is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        [
            (self.rpm.is_some(), "--rpm"),
            (self.within.is_some(), "--within"),
            (self.seed.is_some(), "--seed"),
            (self.resume, "--resume"),
            (self.force, "--force"),
        ]
        .into_iter()
        .find_map(|(given, name)| given.then_some(name))
    }
}

/// The profiler's smallest disk.
const LEAST_BYTES: u64 = 1 << 30;
/// The longest read.
const LONGEST: usize = 16 << 20;
/// How often the state is saved.
const SAVE_EVERY: Nanos = Nanos::from_secs(5);
const WITHIN: Nanos = Nanos::from_micros(150);

/// An unfinished measurement, in a file beside the profile.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    /// Only a disk of this size can be the same.
    capacity_bytes: u64,
    rpm: f64,
    /// Speed given or found, in words.
    rpm_from: String,
    profiler: DiskProfiler,
}

#[derive(Debug, Serialize)]
struct DeviceReport<'a> {
    profile: &'a str,
    capacity_bytes: u64,
    rpm: f64,
    rpm_from: &'a str,
    probes: u64,
    /// Time of all probes.
    spent_s: f64,
    /// Of the least known seek time.
    uncertainty_us: Option<f64>,
}

fn parse_rpm(text: &str) -> Result<f64, String> {
    let rpm: Option<f64> = text.parse().ok().filter(|rpm| (1_000.0..=100_000.0).contains(rpm));
    rpm.ok_or_else(|| format!("expected revolutions per minute, 1000 to 100000, found `{text}`"))
}

pub(super) fn run(args: &Args, device: &str) -> Result<()> {
    must_be_a_file(&args.out)?;
    let disk = OpenDisk::open(device, args.live.force)?;
    // Checks that it can be written, before minutes of work.
    let file = AtomicFile::create(&args.out).map_err(failed("write", &args.out))?;
    let state = state_file(&args.out);
    let interrupt = Interrupt::catch(&[])?;
    let mut saved = begin(args, &disk, &state, &interrupt)?;
    measure(&disk, &mut saved, &state, &interrupt)?;
    let name = args.out.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let Some(profile) = saved.profiler.profile(&name) else {
        let what = "its times are not those of a disk with platters; nothing was written";
        return Err(BadInput(format!("{device}: {what}")).into());
    };
    write(file, &args.out, profile.to_toml().as_bytes())?;
    // It would refuse the next measurement.
    _ = std::fs::remove_file(&state);
    report(args, &saved, &profile)
}

/// Where an unfinished measurement is kept.
fn state_file(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".unfinished");
    PathBuf::from(name)
}

fn failed(what: &str, path: &Path) -> impl Fn(io::Error) -> anyhow::Error {
    let what = format!("cannot {what} {}", path.display());
    move |e| anyhow::Error::from(e).context(what.clone())
}

fn write(mut file: AtomicFile, path: &Path, content: &[u8]) -> Result<()> {
    file.write_all(content).and_then(|()| file.commit()).map_err(failed("write", path))
}

/// The state to go on from: the saved one, or a new one, with the disk's speed.
fn begin(args: &Args, disk: &OpenDisk, state: &Path, interrupt: &Interrupt) -> Result<Saved> {
    let (shown, live) = (state.display(), &args.live);
    if live.resume {
        let text = WholeFile::toml("an unfinished measurement")
            .read_text(state)
            .map_err(|e| BadInput(format!("{shown}: nothing to resume: {e}")))?;
        let bad = |why: String| BadInput(format!("{shown}: {why}; remove it to begin anew"));
        let saved: Saved = toml::from_str(&text)
            .map_err(|e| bad(format!("not an unfinished measurement: {}", e.message())))?;
        if !saved.profiler.is_sound() {
            return Err(bad("is damaged".to_owned()).into());
        }
        if saved.capacity_bytes != disk.capacity {
            let (was, is) = (bytes(saved.capacity_bytes), bytes(disk.capacity));
            let name = &disk.name;
            return Err(bad(format!("is of a disk of {was}, and {name} has {is}")).into());
        }
        return Ok(saved);
    }
    if state.exists() {
        let why = "an unfinished measurement: continue it with --resume, or remove it";
        return Err(BadInput(format!("{shown}: {why}")).into());
    }
    let seed = live.seed.unwrap_or(1);
    let (rpm, rpm_from) = match live.rpm {
        Some(rpm) => (rpm, "given".to_owned()),
        None => (find_rpm(disk, seed, interrupt)?, "found".to_owned()),
    };
    let goal = live.within.unwrap_or(WITHIN);
    let profiler = DiskProfiler::new(disk.capacity, rpm, goal, seed);
    Ok(Saved { capacity_bytes: disk.capacity, rpm, rpm_from, profiler })
}

fn find_rpm(disk: &OpenDisk, seed: u64, interrupt: &Interrupt) -> Result<f64> {
    let mut probe = RotationProbe::new(disk.capacity, seed);
    let mut progress = Progress::new();
    let mut buffer = buffer()?;
    while let Some((offset, length)) = probe.propose() {
        if interrupt.has_come() {
            return Err(Incomplete("interrupted before anything was measured".to_owned()).into());
        }
        progress.show(|_| "finding the speed of the spindle".to_owned());
        let begun = monotonic();
        disk.read(&mut buffer, offset, length)?;
        let end = monotonic();
        probe.measured(end, end.since(begun));
    }
    drop(progress);
    probe.rpm().ok_or_else(|| {
        let why = "the ends of its reads show no speed of a spindle; give it by --rpm";
        BadInput(format!("{}: {why}", disk.name)).into()
    })
}

fn buffer() -> Result<DirectBuffer> {
    DirectBuffer::new(LONGEST).context("cannot allocate a buffer of 16 MiB")
}

/// Measures until the profiler is done; saves the state on the way, and on any way out.
fn measure(disk: &OpenDisk, saved: &mut Saved, state: &Path, interrupt: &Interrupt) -> Result<()> {
    let mut progress = Progress::new();
    let mut buffer = buffer()?;
    let mut last_save = monotonic();
    while let Some(probe) = saved.profiler.propose() {
        if interrupt.has_come() {
            save(saved, state)?;
            drop(progress);
            let what = format!("interrupted: {}", standing(&saved.profiler));
            return Err(Incomplete(format!("{what}; continue with --resume")).into());
        }
        progress.show(|_| standing(&saved.profiler));
        let begun = monotonic();
        let mut between = begun;
        let read = disk.read(&mut buffer, probe.from, probe.from_length).and_then(|()| {
            between = monotonic();
            disk.read(&mut buffer, probe.to, probe.length)
        });
        if let Err(error) = read {
            // What is known is worth minutes.
            save(saved, state)?;
            return Err(error);
        }
        let end = monotonic();
        saved.profiler.measured(end.since(between), end.since(begun));
        if end.since(last_save) >= SAVE_EVERY {
            save(saved, state)?;
            last_save = end;
        }
    }
    Ok(())
}

fn save(saved: &Saved, state: &Path) -> Result<()> {
    let text = toml::to_string(saved).context("cannot describe the measurement")?;
    let file = AtomicFile::create(state).map_err(failed("write", state))?;
    write(file, state, text.as_bytes())
}

/// What has been done and what remains, in words.
fn standing(profiler: &DiskProfiler) -> String {
    let (probes, spent) = profiler.spent();
    let done = format!("{} probes in {}", count(probes), rounded(spent));
    match (profiler.uncertainty(), profiler.remaining()) {
        (Some(within), Some(left)) => {
            format!("{done}, seek times known within {within}, about {} left", rounded(left))
        }
        _ => format!("{done}, not all distances seen"),
    }
}

fn rounded(time: Nanos) -> String {
    long(Nanos::from_secs(time.as_secs_f64().round() as u64))
}

fn report(args: &Args, saved: &Saved, profile: &DiskProfile) -> Result<()> {
    let (probes, spent) = saved.profiler.spent();
    let uncertainty = saved.profiler.uncertainty();
    let mut out = console::out(args.json);
    if args.json {
        let report = DeviceReport {
            profile: &profile.name,
            capacity_bytes: saved.capacity_bytes,
            rpm: saved.rpm,
            rpm_from: &saved.rpm_from,
            probes,
            spent_s: spent.as_secs_f64(),
            uncertainty_us: uncertainty.map(Nanos::as_micros_f64),
        };
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    let mut facts = Facts::new();
    facts.add("profile", args.out.display().to_string());
    facts.add("capacity", bytes(saved.capacity_bytes));
    facts.add("speed", format!("{:.0} rpm, {}", saved.rpm, saved.rpm_from));
    facts.add("probes", format!("{}, in {}", count(probes), long(spent)));
    let (first, last) = (profile.seek.us.first(), profile.seek.us.last());
    if let Some((first, last)) = first.zip(last) {
        let [first, last] = [first, last].map(|us| Nanos((us * 1e3) as u64));
        facts.add("seek times", format!("{first} to {last}, electronics included"));
    }
    if let Some(uncertainty) = uncertainty {
        facts.add("known within", uncertainty.to_string());
    }
    write!(out, "{facts}")?;
    Ok(out.flush()?)
}

/// How long another program may have the device for: one that was killed while it read, or udev.
const BRIEFLY: Duration = Duration::from_secs(1);

/// Opens a device, at once or when another program has let it go.
fn open_soon(path: &Path, flags: i32) -> io::Result<File> {
    let begun = Instant::now();
    loop {
        match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && begun.elapsed() < BRIEFLY => {
                thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

/// A disk, open for direct reads.
struct OpenDisk {
    name: String,
    file: File,
    capacity: u64,
}

impl OpenDisk {
    fn open(given: &str, force: bool) -> Result<Self> {
        const DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();
        const EXCLUSIVE: i32 = rustix::fs::OFlags::EXCL.bits().cast_signed();
        let device = BlockDevice::find(given)?;
        let path = Path::new("/dev").join(&device.name);
        let shown = path.display();
        // For a block device, O_EXCL fails if it is mounted or otherwise claimed.
        let flags = if force { DIRECT } else { DIRECT | EXCLUSIVE };
        let file =
            open_soon(&path, flags).map_err(|e| match rustix::io::Errno::from_io_error(&e) {
                Some(rustix::io::Errno::BUSY) => BadInput(format!(
                    "{shown}: is in use (mounted, or part of another device), and reads would slow \
                 its users and disturb the measurement; --force reads all the same"
                ))
                .into(),
                _ => anyhow::Error::from(e).context(format!("cannot open {shown}")),
            })?;
        let capacity = device.size().with_context(|| format!("cannot find the size of {shown}"))?;
        if capacity < LEAST_BYTES {
            let size = bytes(capacity);
            let why = format!("{shown}: has {size}; seeks are measured on disks of 1 GiB or more");
            return Err(BadInput(why).into());
        }
        if !force && !is_rotational(&device.name) {
            let why = "reports no platters (queue/rotational is 0); --force measures all the same";
            return Err(BadInput(format!("{shown}: {why}")).into());
        }
        if force {
            log::line(&format!("{shown}: its users are slowed while it is measured"));
        }
        Ok(Self { name: path.display().to_string(), file, capacity })
    }

    fn read(&self, buffer: &mut DirectBuffer, offset: u64, length: u64) -> Result<()> {
        let read = self.file.read_exact_at(buffer.content(length as usize), offset);
        read.with_context(|| format!("cannot read {length} bytes at {offset} of {}", self.name))
    }
}

fn is_rotational(name: &str) -> bool {
    let file = format!("/sys/class/block/{name}/queue/rotational");
    std::fs::read_to_string(file).is_ok_and(|text| text.trim() == "1")
}
