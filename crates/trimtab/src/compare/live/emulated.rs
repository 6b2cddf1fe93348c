//! Emulated drives, made for a comparison and removed after it.

use std::fs::{File, OpenOptions};
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use trimtab_io::{Nanos, Op};
use trimtab_live::array::{self, Disk, LiveOptions, LiveRun};
use trimtab_live::drive::{Data, Drive, Fill, Home, Load, Spec, measure};
use trimtab_live::record::{BlockDevice, Options, Recorder};
use trimtab_sim::array::{ArrayFigures, ArrayIo};
use trimtab_sim::compare::{Comparison, Rig, Row};
use trimtab_steer::{Strategy, strategies};
use trimtab_trace::Record;

use super::End;
use super::notes::{Notes, RunNote};
use crate::drive::in_background;

/// Of so many refused reads one is sent all the same.
pub(super) const TRIAL_EVERY: u32 = 1000;

/// How long the recorder waits for the last answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the way to a drive is measured.
const CHECK: Nanos = Nanos::from_millis(1_500);

/// Emulated drives.
pub(super) struct Emulated<'a> {
    comparison: &'a Comparison,
    home: Home,
    drives: Vec<Drive>,
    depths: Vec<u32>,
    notes: Notes,
    end: End,
}

impl<'a> Emulated<'a> {
    pub(super) fn new(comparison: &'a Comparison, end: End) -> Result<Self> {
        let depths = comparison.wanted().map(|wanted| wanted.queue_depth).collect();
        let (home, notes) = (Home::from_environment(), Notes::default());
        Ok(Self { comparison, home, drives: Vec::new(), depths, notes, end })
    }

    pub(super) fn into_notes(mut self) -> Notes {
        std::mem::take(&mut self.notes)
    }

    /// The drives, as the scenario wants them.
    fn make(&mut self, seed: u64) -> Result<()> {
        self.remove();
        for (number, wanted) in self.comparison.wanted().enumerate() {
            let spec = Spec {
                name: format!("compare-{}-{number}", std::process::id()),
                profile: wanted.profile.clone(),
                seed: Comparison::drive_seed(seed, number),
                fill: Fill { share: wanted.fill, overwrites: wanted.overwrites },
                data: Data::None,
                scheduler: "none".to_owned(),
                block_bytes: 512,
                faults: Vec::new(),
            };
            spec.check()?;
            in_background(&spec, |_| {})?;
            self.drives.push(Drive::find(&self.home, &spec.name)?);
        }
        Ok(())
    }

    fn remove(&mut self) {
        for drive in self.drives.drain(..) {
            // It may have died; then the next one of its name cleans up.
            _ = drive.remove(true);
        }
    }

    fn disks(&self) -> Result<Vec<Disk>, String> {
        let disk = |(drive, &depth): (&Drive, &u32)| {
            let path = drive.info().device.clone();
            let file = open_direct(&path, true)?;
            Ok(Disk { path, file, depth })
        };
        self.drives.iter().zip(&self.depths).map(disk).collect()
    }

    fn on_disks(
        &self,
        strategy: Box<dyn Strategy>,
        requests: &[ArrayIo],
        options: &LiveOptions,
        each: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<LiveRun, String> {
        serve(&self.disks()?, strategy, requests, options, &self.end, each)
    }

    fn cpu(&self) -> Vec<Duration> {
        self.drives.iter().map(|drive| cpu_time(Some(drive.info().pid))).collect()
    }
}

impl Rig for Emulated<'_> {
    fn prepare(&mut self, seed: u64) -> Result<(), String> {
        self.make(seed).map_err(|e| format!("{e:#}"))?;
        // On one that is like the first but not of the array: reading changes a drive.
        let measured = measure(&self.drives[0], Load { depth: 1, time: CHECK, seed });
        self.notes.added_ns = measured.map_err(|e| e.to_string())?.added.quantile(0.5);
        self.make(seed).map_err(|e| format!("{e:#}"))
    }

    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, String> {
        let failed = |e: trimtab_live::record::Error| e.to_string();
        let devices = self
            .drives
            .iter()
            .map(|drive| BlockDevice::find(&drive.info().device.to_string_lossy()).map_err(failed));
        let devices: Vec<_> = devices.collect::<Result<_, _>>()?;
        let mut recording = Recorder::load(&devices, &Options::default()).map_err(failed)?.start();
        let mut all = Vec::new();
        let base = Box::new(strategies::Base::new("base"));
        self.on_disks(base, requests, &LiveOptions::default(), &mut || {
            recording.poll(&mut all).map_err(failed)
        })?;
        let outcome = recording.stop(PATIENCE, |rest, _| {
            all.extend_from_slice(rest);
            Ok::<_, trimtab_live::record::Error>(())
        });
        let outcome = outcome.map_err(failed)?;
        self.notes.lost += outcome.losses.total();
        let of = |device: &BlockDevice| {
            let id = outcome.names.find_device(&device.name);
            let ours = |r: &&Record| Some(r.device) == id && matches!(r.op, Op::Read | Op::Write);
            all.iter().filter(ours).copied().collect()
        };
        let records = devices.iter().map(of).collect();
        let gap = self.comparison.gap();
        std::thread::sleep(Duration::from_nanos(gap.0));
        self.drives.iter().try_for_each(Drive::snapshot).map_err(|e| e.to_string())?;
        Ok(records)
    }

    fn serve(&mut self, row: Row<'_>) -> Result<ArrayFigures, String> {
        self.drives.iter().try_for_each(Drive::restore).map_err(|e| e.to_string())?;
        if row.ideal {
            self.drives.iter().try_for_each(Drive::idealise).map_err(|e| e.to_string())?;
        }
        let options = LiveOptions {
            seed: row.seed,
            trial_every: if row.thresholds.is_some() { TRIAL_EVERY } else { 0 },
            thresholds: row.thresholds,
            record: false,
        };
        let (cpu, own) = (self.cpu(), cpu_time(None));
        let run = self.on_disks(row.strategy, row.requests, &options, &mut || Ok(()))?;
        let mut note = RunNote::new(row.name, run.took, &run.lateness);
        let share = |time: Duration| 100.0 * time.as_secs_f64() / run.took.as_secs_f64().max(1e-9);
        let taken = self.cpu().into_iter().zip(cpu).map(|(now, then)| now.saturating_sub(then));
        note.drive_cpu_percent = taken.map(share).collect();
        note.cpu_percent = share(cpu_time(None).saturating_sub(own));
        note.trials = run.figures.judged.sampled;
        self.notes.runs.push(note);
        Ok(run.figures)
    }

    fn has_ideal(&self) -> bool {
        true
    }
}

impl Drop for Emulated<'_> {
    fn drop(&mut self) {
        self.remove();
    }
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

/// Opens a device or file past the page cache.
pub(super) fn open_direct(path: &Path, to_write: bool) -> Result<File, String> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).write(to_write).custom_flags(O_DIRECT).open(path);
    file.map_err(|e| format!("{}: cannot open for direct I/O: {e}", path.display()))
}

/// The processor time that a process has taken so far, ours if none is named; zero if
/// it cannot be told.
pub(super) fn cpu_time(pid: Option<u32>) -> Duration {
    let whose = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
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
