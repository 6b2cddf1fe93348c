//! Serving one row of a comparison on files or devices.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use trimtab_live::array::{self, Disk, LiveOptions, LiveRun};
use trimtab_sim::array::ArrayIo;
use trimtab_sim::compare::{Row, Served};
use trimtab_steer::Strategy;

use super::End;
use super::notes::RunNote;

/// Of so many refused reads one is sent all the same.
const TRIAL_EVERY: u32 = 1000;

/// Serves the requests of a row, and notes what it took of us, of the machine and of the
/// processes that serve them.
pub(super) fn measure_row(
    disks: &[Disk],
    row: &Row<'_>,
    requests: &[ArrayIo],
    servers: &[u32],
    end: &End,
) -> Result<(Served, RunNote), String> {
    let options = LiveOptions {
        seed: row.seed,
        trial_every: if row.thresholds.is_some() { TRIAL_EVERY } else { 0 },
        thresholds: row.thresholds.clone(),
        record: false,
    };
    let of_servers = || servers.iter().map(|&pid| cpu_time(Some(pid))).collect::<Vec<_>>();
    let (drives, own, machine) = (of_servers(), cpu_time(None), Machine::now());
    let run = serve(disks, (row.strategy)(), requests, &options, end, &mut || Ok(()))?;
    let share = |now: Duration, then: Duration| {
        100.0 * now.saturating_sub(then).as_secs_f64() / run.took.as_secs_f64().max(1e-9)
    };
    let mut note = RunNote::new(row.name, run.took, &run.lateness);
    note.cpu_percent = share(cpu_time(None), own);
    note.drive_cpu_percent =
        of_servers().into_iter().zip(drives).map(|(now, then)| share(now, then)).collect();
    note.stolen_percent = machine.stolen_percent();
    note.trials = run.figures.judged.sampled;
    let doubt = note.fell_behind().then_some(note.late_p99_ns).flatten();
    Ok((Served { figures: run.figures, doubt }, note))
}

/// Serves requests; `each` is called several times a second.
pub(super) fn serve(
    disks: &[Disk],
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &LiveOptions,
    end: &End,
    each: &mut dyn FnMut() -> Result<(), String>,
) -> Result<LiveRun, String> {
    let mut failed = None;
    let _first = First::begin();
    let run = array::run(disks, strategy, requests, options, &mut |_| {
        failed = each().err();
        match failed {
            None if !end.has_come() => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    });
    match failed {
        Some(why) => Err(why),
        None => run.map_err(|e| e.to_string()),
    }
}

/// While it lives this thread comes before others: how late a generator is on a busy
/// machine is nothing that a strategy is to be blamed for.
struct First {
    before: Option<i32>,
}

impl First {
    /// As the servers of emulated drives have it.
    const NICE: i32 = -19;

    fn begin() -> Self {
        let before = rustix::process::getpriority_process(None).ok();
        // Not vital, and not for everyone to have.
        _ = rustix::process::setpriority_process(None, Self::NICE);
        Self { before }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            _ = rustix::process::setpriority_process(None, before);
        }
    }
}

/// Opens a device or file past the page cache.
pub(super) fn open_direct(path: &Path, to_write: bool) -> Result<File, String> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).write(to_write).custom_flags(O_DIRECT).open(path);
    file.map_err(|e| format!("{}: cannot open for direct I/O: {e}", path.display()))
}

/// The processor time that a process has taken so far, or this thread, if none is named;
/// zero if it cannot be told.
pub(super) fn cpu_time(pid: Option<u32>) -> Duration {
    let whose = pid.map_or_else(|| "thread-self".to_owned(), |pid| pid.to_string());
    let read = || {
        let text = std::fs::read_to_string(format!("/proc/{whose}/stat")).ok()?;
        // The name, in parentheses, may hold anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
        let second = rustix::param::clock_ticks_per_second();
        Some(Duration::from_secs_f64(ticks as f64 / second as f64))
    };
    read().unwrap_or_default()
}

/// What the machine's processors have done so far, in ticks.
struct Machine {
    all: u64,
    /// Not for us, though they had something to do: the host gave their time to others.
    stolen: u64,
}

impl Machine {
    /// Zero if it cannot be told.
    fn now() -> Self {
        // user nice system idle iowait irq softirq steal (proc_stat(5))
        const STOLEN: usize = 7;
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<u64> =
            first.split_whitespace().skip(1).filter_map(|ticks| ticks.parse().ok()).collect();
        // Guests' time, which follows, is in the user's already.
        let all = ticks.iter().take(STOLEN + 1).sum();
        Self { all, stolen: ticks.get(STOLEN).copied().unwrap_or_default() }
    }

    /// Of a hundred, since then.
    fn stolen_percent(&self) -> f64 {
        let now = Self::now();
        let all = now.all.saturating_sub(self.all).max(1);
        100.0 * now.stolen.saturating_sub(self.stolen) as f64 / all as f64
    }
}
