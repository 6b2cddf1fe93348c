//! `trimtab array cost`.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::io::Errno;
use serde::Serialize;
use trimtab_device::DriveProfile;
use trimtab_emu as emu;
use trimtab_io::{Nanos, SplitMix64, monotonic};
use trimtab_report::{Align, Table, count, machine};
use trimtab_serve::{
    PAGE_BYTES, Pace, Timings, Transfer, open, transfer_concurrently, transfer_serially,
};
use trimtab_volume::{
    Array, BackendChoice, Consistency, Origin, PolicyKind, Rates, RunDirectory, Spec,
};

use super::{create, serve};
use crate::background::LifetimeGuard;
use crate::exit::BadInput;
use crate::json::Json;
use crate::progress::{Progress, during};
use crate::units::{NONE, number};
use crate::{console, drive, duration, processor_time, size};

const HELP: &str = "\
Examples:
  sudo trimtab array cost
  sudo trimtab array cost --level 6 --members 8 --rounds 5 --json cost.json
  sudo trimtab array cost --policy trimtab --backend fuse
  sudo trimtab array cost --in /var/tmp --beside /dev/md0

Makes an array of files in memory, and an emulated drive with one such file that answers at
once over the same back end, sends each requests of 4 KiB at random past the page cache,
reads and writes, at depths 1 and 32, in turn, and removes them. `member` is one of the
array's files itself, without a back end. CPU is the processor time of the server per
request; the kernel's own threads are not counted. Figures are medians of the rounds, with
the least and the most of them where two things are compared.";

/// What to measure.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The array's level: 0, 1, 4, 5 or 6.
    #[arg(long, value_name = "N", value_parser = create::level, default_value = "5")]
    level: u8,
    /// How many members it has.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=32))]
    members: u8,
    /// Bytes of a chunk.
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "64K")]
    chunk: u64,
    /// Which members its reads ask (`array create` explains them).
    #[arg(long, value_name = "POLICY", default_value = "plain")]
    policy: PolicyKind,
    /// How the kernel reaches the array and the drive: ublk, FUSE with a loop device (fuse), or
    /// ublk where the kernel has it (auto).
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    backend: BackendChoice,
    /// Where the files are: by default in memory.
    #[arg(long = "in", value_name = "DIRECTORY", default_value = "/dev/shm")]
    directory: PathBuf,
    /// Measure this block device or file too, as one of md's arrays. It is only read.
    #[arg(long, value_name = "DEVICE")]
    beside: Option<PathBuf>,
    /// How long each measurement takes.
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, default_value = "1s")]
    duration: Nanos,
    /// How often everything is measured.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Write the figures as JSON, to a file that appears once complete, or with - to standard
    /// output in place of the table.
    #[arg(long, value_name = "OUT")]
    json: Option<PathBuf>,
}

/// Bytes of each member.
const MEMBER: u64 = 64 << 20;
/// Requests in flight, beside one.
const DEPTH: u32 = 32;
/// What is measured, of each device.
const LOADS: [(Transfer, u32); 4] =
    [(Transfer::Read, 1), (Transfer::Read, DEPTH), (Transfer::Write, 1), (Transfer::Write, DEPTH)];
/// Requests of one measurement, at most: their latencies are kept.
const MOST: usize = 1 << 22;
/// The shortest measurement: processor time is known to 10 ms.
const SHORTEST: Nanos = Nanos::from_millis(10);
/// Before each measurement this share of its time is not counted.
const WARM_UP: u64 = 5;

/// A drive whose model takes no time that could be noticed, and never has to clean.
const AT_ONCE: &str = "\
name = \"at-once\"
[geometry]
channels = 2
chips_per_channel = 2
blocks_per_plane = 1024
pages_per_block = 32
page_bytes = 4096
over_provisioning = 0.15
[timing]
read_us = 1
program_us = 1
erase_us = 1
channel_mb_s = 800
[buffer]
size_mb = 1
flush_watermark = 0.5
";
/// It answers as soon as it can.
const ANSWERS_EARLY_BY: Nanos = Nanos::from_micros(200);

/// The whole report.
#[derive(Debug, Serialize)]
struct CostReport {
    trimtab: &'static str,
    machine: String,
    backend: String,
    level: u8,
    members: u8,
    chunk: u64,
    policy: &'static str,
    rounds: u32,
    /// Reads of the array at depth 1: what their median latency has beyond a member's own, µs.
    beyond_member_us: Spread,
    /// The same beyond one file's over the same back end, µs.
    beyond_one_file_us: Spread,
    /// Reads of the array per second at depth 32, by those of one file over the same back end.
    share_of_one_file: Spread,
    measurements: Vec<MeasurementReport>,
}

/// The measurements of one device with one load.
#[derive(Debug, Serialize)]
struct MeasurementReport {
    what: What,
    op: &'static str,
    depth: u32,
    requests_per_second: Spread,
    p50_us: Spread,
    p99_us: Spread,
    /// Processor time of the server per request, µs; `None` without one.
    cpu_us: Option<Spread>,
}

/// The median of the rounds, with the least and the most.
#[derive(Clone, Copy, Debug, Serialize)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// Of at least one.
    fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => f64::midpoint(values[middle - 1], values[middle]),
            _ => values[middle],
        };
        Self { median, least: values[0], most: values[values.len() - 1] }
    }

    /// `+6.1 µs (5.8 to 7.2)`.
    fn in_us(self) -> String {
        let us = |us: f64| format!("{}{}", if us < 0.0 { "-" } else { "" }, number(us.abs()));
        format!("{} µs ({} to {})", us(self.median), us(self.least), us(self.most))
    }

    /// `0.85 (0.80 to 0.91)`.
    fn as_ratio(self) -> String {
        format!("{:.2} ({:.2} to {:.2})", self.median, self.least, self.most)
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    Member,
    OneFile,
    Array,
    Beside,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::OneFile => "one file",
            Self::Array => "array",
            Self::Beside => "beside",
        }
    }
}

/// A device or file under measurement.
struct Subject {
    what: What,
    file: File,
    /// Of its server.
    pid: Option<u32>,
}

impl Subject {
    fn open(what: What, path: &Path, pid: Option<u32>) -> Result<Self> {
        let transfer = if what == What::Beside { Transfer::Read } else { Transfer::Write };
        let file = open(path, transfer).or_else(|error| {
            // Before Linux 6.6 files in memory are not opened past the page cache, which they are in.
            let is_refused = Errno::from_io_error(&error) == Some(Errno::INVAL);
            match is_refused && what == What::Member {
                true => File::options().read(true).write(true).open(path),
                false => Err(error),
            }
        });
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(Self { what, file, pid })
    }

    /// Sends requests to the first `pages` pages.
    fn send(&self, (transfer, depth): (Transfer, u32), pages: u64, time: Nanos) -> Result<Timings> {
        let mut random = SplitMix64::new(monotonic().0);
        let pages = std::iter::repeat_with(|| random.next() % pages).take(MOST);
        let (file, until, pace) = (&self.file, monotonic() + time, Pace::UNLIMITED);
        let sent = match depth {
            1 => transfer_serially(file, transfer, pages, until, pace),
            depth => transfer_concurrently(file, transfer, pages, until, depth, pace),
        };
        sent.with_context(|| format!("cannot measure {}", self.what.name()))
    }

    fn measure(&self, load: (Transfer, u32), pages: u64, time: Nanos) -> Result<Measured> {
        self.send(load, pages, Nanos(time.0 / WARM_UP))?;
        let processor = || self.pid.and_then(processor_time::of);
        let (before, begun) = (processor(), monotonic());
        let sent = self.send(load, pages, time)?;
        let took = monotonic().since(begun).as_secs_f64();
        let used = before.zip(processor()).map(|(before, after)| after - before);
        let requests = sent.len() as f64;
        if sent.is_empty() {
            // It waited for a processor for all that time.
            bail!("{} served nothing within {time}: give it a longer --duration", self.what.name());
        }
        let mut us: Vec<f64> = sent.into_iter().map(|(_, time)| time.0 as f64 / 1e3).collect();
        us.sort_by(f64::total_cmp);
        let at = |share: f64| us[((us.len() - 1) as f64 * share) as usize];
        Ok(Measured {
            requests_per_second: requests / took,
            p50_us: at(0.5),
            p99_us: at(0.99),
            cpu_us: used.map(|used| used * 1e6 / requests),
        })
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Measured {
    requests_per_second: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us: Option<f64>,
}

/// All measurements of one device with one load, in the order of the rounds.
struct Series {
    what: What,
    load: (Transfer, u32),
    rounds: Vec<Measured>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    create::check_policy(args.level, args.policy)?;
    if args.duration < SHORTEST {
        let why = format!("--duration {}: at least {SHORTEST}", args.duration);
        return Err(BadInput(why).into());
    }
    let json = args.json.as_deref().map(|out| Json::create(out, &[])).transpose()?;
    let bench = during("making an array and a drive", || Bench::new(args))?;
    let mut all: Vec<Series> = Vec::new();
    for subject in &bench.subjects {
        let loads = LOADS.iter().filter(|load| {
            // What is on it is not ours.
            subject.what != What::Beside || load.0 == Transfer::Read
        });
        all.extend(loads.map(|&load| Series { what: subject.what, load, rounds: Vec::new() }));
    }
    let mut progress = Progress::new();
    for round in 1..=args.rounds {
        // What is compared is measured one after the other.
        for load in LOADS {
            for series in all.iter_mut().filter(|series| series.load == load) {
                let what = series.what;
                progress.show(|_| {
                    let (op, name) = (op_name(load.0), what.name());
                    format!("round {round} of {}: {name}, {op}s, depth {}", args.rounds, load.1)
                });
                let subject = bench.subjects.iter().find(|subject| subject.what == what);
                let measured =
                    subject.map(|subject| subject.measure(load, bench.pages, args.duration));
                series.rounds.extend(measured.transpose()?);
            }
        }
    }
    drop(progress);
    let report = report(args, &bench, &all);
    drop(bench);
    match json {
        Some(Json::StandardOutput) => return Json::StandardOutput.write(&report),
        Some(file) => file.write(&report)?,
        None => {}
    }
    Ok(print(&report)?)
}

/// The devices, which are removed when this is dropped, in the order of the fields.
struct Bench {
    subjects: Vec<Subject>,
    array: Array,
    drive: emu::Drive,
    _guards: [LifetimeGuard; 2],
    backend: String,
    /// Pages that all of them have.
    pages: u64,
}

impl Bench {
    fn new(args: &Args) -> Result<Self> {
        let name = format!("cost-{}", std::process::id());
        // The beside device first: a wrong path is found out before anything is made.
        let beside = args.beside.as_deref();
        let beside = beside.map(|path| {
            Subject::open(What::Beside, path, None).map_err(|e| BadInput(format!("{e:#}")))
        });
        let beside = beside.transpose()?;
        // The servers have another working directory.
        let parent = std::path::absolute(&args.directory);
        let parent = parent.context("cannot determine the working directory")?;
        let directory = Scratch::new(&parent, &name)?;
        let members: Vec<PathBuf> =
            (0..args.members).map(|member| directory.0.join(format!("member-{member}"))).collect();
        for member in &members {
            let made = File::create_new(member).and_then(|file| file.set_len(MEMBER));
            made.with_context(|| format!("cannot make {}", member.display()))?;
        }
        let spec = Spec {
            name: name.clone(),
            members: members.clone(),
            origin: Origin::Create {
                level: args.level,
                chunk: args.chunk,
                consistency: Consistency::Bitmap,
                assume_clean: true,
                force: false,
            },
            backend: args.backend,
            policy: args.policy,
            // Nothing is made equal.
            rates: Rates { most: 1 << 20, least: 1 << 20 },
        };
        let (array_guard, array_device) = serve::with_guard(&spec)?;
        let array = Array::find(&RunDirectory::from_environment(), &name)?;

        let profile = DriveProfile::parse(AT_ONCE).map_err(|e| BadInput(e.to_string()))?;
        let mut spec = emu::Spec::new(name.clone(), profile.with_capacity(2 * MEMBER)?);
        spec.data = emu::Data::File { path: directory.0.join("one-file"), flush: emu::Flush::Fast };
        spec.backend = args.backend;
        spec.compensation = Some(ANSWERS_EARLY_BY);
        // As with an array.
        spec.may_sleep = true;
        let drive_guard = drive::with_guard(&spec)?;
        let drive = emu::Drive::find(&emu::RunDirectory::from_environment(), &name)?;

        let (array_pid, drive_pid) = (array.info().pid, drive.info().pid);
        // A file that no array or drive has, so that none of its content is shared with theirs.
        let member = directory.0.join("member");
        let made = File::create_new(&member).and_then(|file| file.set_len(MEMBER));
        made.with_context(|| format!("cannot make {}", member.display()))?;
        let mut subjects = vec![
            Subject::open(What::Member, &member, None)?,
            Subject::open(What::OneFile, &drive.info().device, Some(drive_pid))?,
            Subject::open(What::Array, &array_device, Some(array_pid))?,
        ];
        // Those that use them have them open: nothing is left even if this is killed.
        drop(directory);
        let mut bytes = MEMBER.min(array.info().capacity).min(drive.info().capacity);
        for subject in &subjects {
            fill(&subject.file, bytes)
                .with_context(|| format!("cannot write to {}", subject.what.name()))?;
        }
        if let Some(beside) = beside {
            // Block devices have a length only at the end that they can be positioned to.
            bytes = bytes.min(io::Seek::seek(&mut &beside.file, io::SeekFrom::End(0))?);
            if bytes < PAGE_BYTES as u64 {
                let path = args.beside.as_deref().unwrap_or(Path::new("")).display();
                return Err(BadInput(format!("{path}: shorter than a page of 4 KiB")).into());
            }
            subjects.push(beside);
        }
        Ok(Self {
            subjects,
            backend: array.info().backend.to_string(),
            array,
            drive,
            _guards: [array_guard, drive_guard],
            pages: bytes / PAGE_BYTES as u64,
        })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // What is open is in use.
        self.subjects.clear();
        // Failures cannot be reported here; `list` shows what is left.
        _ = self.array.stop(true);
        _ = self.drive.remove(true);
    }
}

/// Everything has been written once, as in use.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    #[repr(align(4096))]
    struct Aligned([u8; 1 << 20]);
    let zeroes = Box::new(Aligned([0; 1 << 20]));
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(zeroes.0.len() as u64);
        file.write_all_at(&zeroes.0[..length as usize], at)?;
        at += length;
    }
    Ok(())
}

/// What the names of directories begin with, before the number of their process.
const LEFT: &str = "trimtab-cost-";

/// A directory that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path, name: &str) -> Result<Self> {
        for left in fs::read_dir(parent).into_iter().flatten().flatten() {
            let process =
                left.file_name().to_str().and_then(|name| name.strip_prefix(LEFT)?.parse().ok());
            let has_ended = |process: u32| !Path::new(&format!("/proc/{process}")).exists();
            if process.is_some_and(has_ended) {
                // Of one that was killed before its devices had its files open.
                _ = fs::remove_dir_all(left.path());
            }
        }
        let path = parent.join(format!("trimtab-{name}"));
        let made = DirBuilder::new().mode(0o700).create(&path);
        match made {
            Ok(()) => Ok(Self(path)),
            Err(e) => Err(BadInput(format!("cannot make {}: {e}", path.display())).into()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn report(args: &Args, bench: &Bench, all: &[Series]) -> CostReport {
    let rounds = |what, load| {
        let series = all.iter().find(|series| series.what == what && series.load == load);
        series.map_or(&[][..], |series| &series.rounds)
    };
    // Of each round, so that what moves both does not count.
    let against = |what, load, compare: fn(&Measured, &Measured) -> f64| {
        let both = rounds(What::Array, load).iter().zip(rounds(what, load));
        Spread::of(both.map(|(array, other)| compare(array, other)))
    };
    let read = |depth| (Transfer::Read, depth);
    let beyond = |array: &Measured, other: &Measured| array.p50_us - other.p50_us;
    let measurements = all.iter().map(|series| {
        let spread = |of: fn(&Measured) -> f64| Spread::of(series.rounds.iter().map(of));
        let cpu: Option<Vec<f64>> = series.rounds.iter().map(|round| round.cpu_us).collect();
        MeasurementReport {
            what: series.what,
            op: op_name(series.load.0),
            depth: series.load.1,
            requests_per_second: spread(|round| round.requests_per_second),
            p50_us: spread(|round| round.p50_us),
            p99_us: spread(|round| round.p99_us),
            cpu_us: cpu.map(Spread::of),
        }
    });
    CostReport {
        trimtab: env!("CARGO_PKG_VERSION"),
        machine: machine(),
        backend: bench.backend.clone(),
        level: args.level,
        members: args.members,
        chunk: args.chunk,
        policy: args.policy.name(),
        rounds: args.rounds,
        beyond_member_us: against(What::Member, read(1), beyond),
        beyond_one_file_us: against(What::OneFile, read(1), beyond),
        share_of_one_file: against(What::OneFile, read(DEPTH), |array, other| {
            array.requests_per_second / other.requests_per_second
        }),
        measurements: measurements.collect(),
    }
}

const fn op_name(transfer: Transfer) -> &'static str {
    match transfer {
        Transfer::Read => "read",
        Transfer::Write => "write",
    }
}

fn print(report: &CostReport) -> io::Result<()> {
    let columns = [
        ("device", Align::Left),
        ("requests", Align::Left),
        ("depth", Align::Right),
        ("per second", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("CPU each", Align::Right),
    ];
    let mut table = Table::new(&columns);
    let us = |us: Spread| Nanos((us.median * 1e3) as u64).to_string();
    for load in LOADS {
        let (op, depth) = (op_name(load.0), load.1);
        let with_load = |one: &&MeasurementReport| one.op == op && one.depth == depth;
        for one in report.measurements.iter().filter(with_load) {
            table.row([
                one.what.name().to_owned(),
                format!("{op}s"),
                depth.to_string(),
                count(one.requests_per_second.median.round() as u64),
                us(one.p50_us),
                us(one.p99_us),
                one.cpu_us.map_or_else(|| NONE.to_owned(), us),
            ]);
        }
    }
    let mut out = console::out(false);
    write!(out, "{table}")?;
    let CostReport { level, members, backend, policy, rounds, .. } = report;
    writeln!(out, "Reads of the array, medians of {rounds} rounds (least to most):")?;
    writeln!(out, "  depth 1: {} beyond a member's own", report.beyond_member_us.in_us())?;
    let beyond = report.beyond_one_file_us.in_us();
    writeln!(out, "  depth 1: {beyond} beyond one file's over the same back end")?;
    let share = report.share_of_one_file.as_ratio();
    writeln!(out, "  depth {DEPTH}: {share} of one file's per second over the same back end")?;
    let chunks = match level {
        1 => String::new(),
        _ => format!(", chunks of {}", trimtab_report::bytes(report.chunk)),
    };
    let machine = &report.machine;
    writeln!(
        out,
        "level {level}, {members} members{chunks}, policy {policy}, over {backend}; {machine}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_of_all_rounds() {
        let odd = Spread::of([3.0, 1.0, 2.5]);
        assert_eq!((odd.median, odd.least, odd.most), (2.5, 1.0, 3.0));
        assert_eq!(Spread::of([4.0, 1.0]).median, 2.5);
        assert_eq!(Spread::of([-1.5, 6.25]).in_us(), "2.38 µs (-1.50 to 6.25)");
        assert_eq!(Spread::of([0.5]).as_ratio(), "0.50 (0.50 to 0.50)");
    }

    #[test]
    fn drive_for_comparison_is_a_valid_one() {
        let profile = DriveProfile::parse(AT_ONCE).unwrap().with_capacity(2 * MEMBER).unwrap();
        assert!(profile.capacity_bytes() >= MEMBER);
    }
}
