//! Serving one row of a comparison on files or devices.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use trimtab_emu::{Drive, PathCounts, PathStat};
use trimtab_steer::Strategy;
use trimtab_steer::driver::{ArrayIo, RunOptions};
use trimtab_uring::{Disk, UringOptions, UringRun};

use super::error::Error;
use super::notes::RunNote;
use crate::testbed::{Row, Served};

/// One in this many refused reads is sent nevertheless, as a forced sample.
const SAMPLE_EVERY: u32 = 1000;

/// Serves the requests of a row, and notes its use of the processors.
pub(super) fn measure_row(
    disks: &[Disk],
    row: &Row<'_>,
    requests: &[ArrayIo],
    drives: &[Drive],
    should_stop: &dyn Fn() -> bool,
) -> Result<(Served, RunNote), Error> {
    let thresholds = row.thresholds.clone();
    let options = UringOptions {
        sample_every: if thresholds.is_some() { SAMPLE_EVERY } else { 0 },
        run: RunOptions { seed: row.seed, thresholds, ..RunOptions::default() },
    };
    let meter = Meter::begin(drives);
    let run = serve(disks, (row.strategy)(), requests, &options, should_stop, &mut || Ok(()))?;
    let note = meter.note(row.name, &run);
    let doubt = note.fell_behind().then_some(note.late_p99_ns).flatten();
    Ok((Served { figures: run.figures, doubt }, note))
}

/// Serves requests; `each` is called several times a second.
pub(super) fn serve(
    disks: &[Disk],
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &UringOptions,
    should_stop: &dyn Fn() -> bool,
    each: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<UringRun, Error> {
    let mut failed = None;
    let _priority = Priority::raise();
    let run = trimtab_uring::run(disks, strategy, requests, options, &mut |_| {
        failed = each().err();
        match failed {
            None if !should_stop() => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    match failed {
        Some(why) => Err(why),
        None => Ok(run?),
    }
}

/// Raises this thread's priority until dropped: the lateness of a generator on a busy machine
/// must not count against a strategy.
struct Priority {
    before: Option<i32>,
}

impl Priority {
    /// The priority of the servers of emulated drives.
    const NICE: i32 = -19;

    fn raise() -> Self {
        let before = rustix::process::getpriority_process(None).ok();
        // Not essential, and not permitted for every user.
        _ = rustix::process::setpriority_process(None, Self::NICE);
        Self { before }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            _ = rustix::process::setpriority_process(None, before);
        }
    }
}

/// Opens a device or file past the page cache, for reading.
pub(super) fn open_direct(path: &Path) -> Result<File, Error> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(O_DIRECT).open(path);
    let what = "cannot open for direct I/O";
    file.map_err(|source| Error::Io { path: path.to_owned(), what, source })
}

/// The processor time that a process has used so far, or this thread, if none is given; zero
/// if it is unknown.
pub(super) fn cpu_time(pid: Option<u32>) -> Duration {
    let whose = pid.map_or_else(|| "thread-self".to_owned(), |pid| pid.to_string());
    let read = || {
        let text = std::fs::read_to_string(format!("/proc/{whose}/stat")).ok()?;
        // The name, in parentheses, may contain anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        let second = rustix::param::clock_ticks_per_second();
        Some(Duration::from_secs_f64(ticks as f64 / second as f64))
    };
    read().unwrap_or_default()
}

/// Measures a run's use of the processors.
pub(super) struct Meter<'a> {
    drives: &'a [Drive],
    of_drives: Vec<DriveUsage>,
    own: Duration,
    machine: Option<ProcessorTicks>,
}

/// The state of an emulated drive at one time.
struct DriveUsage {
    cpu: Duration,
    /// The block layer's figures of its reads; `None` if they are not measured.
    path: Option<PathStat>,
}

impl DriveUsage {
    fn now(drive: &Drive) -> Self {
        let path = drive.stat().ok().and_then(|stat| stat.path);
        Self { cpu: cpu_time(Some(drive.info().pid)), path }
    }
}

impl<'a> Meter<'a> {
    /// Starts before a run, with the emulated drives that serve it, if there are any.
    pub(super) fn begin(drives: &'a [Drive]) -> Self {
        let of_drives = drives.iter().map(DriveUsage::now).collect();
        Self { drives, of_drives, own: cpu_time(None), machine: ProcessorTicks::now() }
    }

    /// Ends after the run.
    pub(super) fn note(self, name: &str, run: &UringRun) -> RunNote {
        let now = Self::begin(self.drives);
        let share = |now: Duration, then: Duration| {
            100.0 * now.saturating_sub(then).as_secs_f64() / run.took.as_secs_f64().max(1e-9)
        };
        let percent = |share: f64| 100.0 * share;
        let drives = || now.of_drives.iter().zip(&self.of_drives);
        let paths = drives().map(|(now, then)| PathCounts::between(then.path, now.path));
        let path = paths.fold(PathCounts::default(), |all, one| all.plus(&one));
        let stolen = now.machine.zip(self.machine);
        RunNote {
            cpu_percent: share(now.own, self.own),
            drive_cpu_percent: drives().map(|(now, then)| share(now.cpu, then.cpu)).collect(),
            early_percent: path.early_share().map(percent),
            saturated_percent: path.saturated_share().map(percent),
            stolen_percent: stolen.map(|(now, then)| now.stolen_percent_since(&then)),
            forced_samples: run.figures.score.sampled,
            ..RunNote::new(name, run.took, &run.lateness)
        }
    }
}

/// The time that the machine's processors have spent.
struct ProcessorTicks {
    all: u64,
    /// Time that the host gave to others although there was work here.
    stolen: u64,
}

impl ProcessorTicks {
    fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Of the first line: user nice system idle iowait irq softirq steal, and more that is
    /// contained in these (`proc_stat(5)`).
    fn of(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = ticks.map_while(|ticks| ticks.parse().ok()).take(8).collect();
        let stolen = *ticks.get(7)?;
        Some(Self { all: ticks.iter().sum(), stolen })
    }

    /// Percent of all time.
    fn stolen_percent_since(&self, then: &Self) -> f64 {
        let all = self.all.saturating_sub(then.all).max(1);
        100.0 * self.stolen.saturating_sub(then.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let then = ProcessorTicks::of("cpu  10 1 4 80 5 0 0 100 7 0\ncpu0 1 1").unwrap();
        assert_eq!((then.all, then.stolen), (200, 100));
        let now = ProcessorTicks::of("cpu  20 1 4 160 5 0 0 110 9 9\n").unwrap();
        assert_eq!(now.stolen_percent_since(&then), 10.0);
        assert_eq!(then.stolen_percent_since(&now), 0.0);
        // Kernels that do not report it.
        for nothing in ["", "cpu  1 2 3 4 5 6 7", "intr 1 2 3 4 5 6 7 8"] {
            assert!(ProcessorTicks::of(nothing).is_none(), "{nothing}");
        }
    }
}
