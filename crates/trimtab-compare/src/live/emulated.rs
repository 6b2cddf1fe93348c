//! Emulated drives, made for a comparison and removed after it.

use std::any::Any;
use std::thread;
use std::time::Duration;

use trimtab_block::BlockDevice;
use trimtab_device::DriveProfile;
use trimtab_emu::{Drive, Fill, RunDirectory, Spec};
use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_record::{Recorder, RecorderOptions};
use trimtab_steer::driver::{ArrayIo, LogEntry, RunOptions};
use trimtab_steer::strategies;
use trimtab_trace::Record;
use trimtab_uring::{Disk, UringOptions, UringRun};

use super::ShouldStop;
use super::error::Error;
use super::notes::{Notes, PHASE_ONE};
use super::serve::{Meter, measure_row, serve};
use crate::error::TestbedError;
use crate::spec::Comparison;
use crate::testbed::{Row, Served, Testbed};

/// How long the recorder waits for the last completions.
const PATIENCE: Duration = Duration::from_secs(5);

/// The part of phase one that is served before anything is measured.
const WARM_UP: Nanos = Nanos::from_secs(3);

/// How often an operation that needs an idle drive is tried, and the pause between attempts:
/// other programs may read a new device too, or one that was written to.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(5);

/// Lifetime guard of an emulated drive: the drive ends when this is dropped, or this process
/// ends.
pub type DriveGuard = Box<dyn Any>;

/// Starts the server of an emulated drive in a separate process.
pub type StartDrive =
    Box<dyn FnMut(&Spec) -> Result<DriveGuard, Box<dyn std::error::Error + Send + Sync>>>;

/// Emulated drives, made as a scenario describes them.
pub struct Emulated<'a> {
    comparison: &'a Comparison,
    run_directory: RunDirectory,
    drives: Vec<Drive>,
    start: StartDrive,
    /// The drives end with these, even if this process is killed.
    guards: Vec<DriveGuard>,
    depths: Vec<u32>,
    notes: Notes,
    should_stop: ShouldStop,
}

/// The emulated drives that a scenario describes.
pub fn drive_specs(comparison: &Comparison, seed: u64) -> impl Iterator<Item = Spec> {
    comparison.wanted_drives().enumerate().map(move |(number, wanted)| {
        let name = format!("compare-{}-{number}", std::process::id());
        let seed = Comparison::drive_seed(seed, number);
        let mut spec = Spec { seed, ..Spec::new(name, wanted.profile.clone()) };
        // A disk has nothing to fill.
        if let DriveProfile::Flash(_) = wanted.profile {
            spec.fill = Fill { share: wanted.fill, overwrites: wanted.overwrites };
        }
        spec
    })
}

impl<'a> Emulated<'a> {
    /// A testbed for this comparison, whose drives `start` makes.
    #[must_use]
    pub fn new(comparison: &'a Comparison, start: StartDrive, should_stop: ShouldStop) -> Self {
        Self {
            comparison,
            run_directory: RunDirectory::from_environment(),
            drives: Vec::new(),
            start,
            guards: Vec::new(),
            depths: comparison.wanted_drives().map(|wanted| wanted.queue_depth).collect(),
            notes: Notes::default(),
            should_stop,
        }
    }

    /// How the comparison was measured.
    #[must_use]
    pub fn into_notes(mut self) -> Notes {
        std::mem::take(&mut self.notes)
    }

    /// Makes the drives as the scenario describes them.
    fn make(&mut self, seed: u64) -> Result<(), Error> {
        self.remove();
        for spec in drive_specs(self.comparison, seed) {
            if (self.should_stop)() {
                return Err(Error::Ended);
            }
            self.guards.push((self.start)(&spec).map_err(Error::Start)?);
            self.drives.push(Drive::find(&self.run_directory, &spec.name)?);
        }
        Ok(())
    }

    fn remove(&mut self) {
        for drive in self.drives.drain(..) {
            // It may have ended; then the next one of its name cleans up.
            _ = drive.remove(true);
        }
        self.guards.clear();
    }

    fn disks(&self) -> Result<Vec<Disk>, Error> {
        let disk = |(drive, &depth): (&Drive, &u32)| {
            let path = drive.info().device.clone();
            let file = drive.open()?;
            Ok(Disk { path, file, depth })
        };
        self.drives.iter().zip(&self.depths).map(disk).collect()
    }
}

impl Emulated<'_> {
    /// Performs an operation on each drive while it is idle.
    fn when_idle(&self, act: fn(&Drive) -> Result<(), trimtab_emu::Error>) -> Result<(), Error> {
        for drive in &self.drives {
            let mut tries = TRIES;
            while let Err(error) = act(drive) {
                tries -= 1;
                if tries == 0 {
                    return Err(error.into());
                }
                thread::sleep(BETWEEN);
            }
        }
        Ok(())
    }

    /// Serves the beginning of phase one, so that the drives correct their latency
    /// compensation under this load: each has estimated it alone, on an idle machine, and goes
    /// on correcting it in use. The flash is as before afterwards.
    fn warm_up(&mut self, requests: &[ArrayIo]) -> Result<(), Error> {
        self.when_idle(Drive::snapshot)?;
        let first = requests.partition_point(|io| io.at < WARM_UP);
        let base = Box::new(strategies::Base::new("base"));
        let (disks, options) = (self.disks()?, UringOptions::default());
        serve(&disks, base, &requests[..first], &options, &*self.should_stop, &mut || Ok(()))?;
        self.when_idle(Drive::restore)?;
        let compensation = |drive: &Drive| drive.stat().map(|stat| stat.compensation_us);
        let all = self.drives.iter().map(compensation).collect::<Result<_, _>>()?;
        self.notes.compensation_us.push(all);
        Ok(())
    }

    /// Serves requests without a strategy. Also returns the latency that the path to each
    /// drive added to its reads: the difference between the measurement here and the drive's
    /// own log.
    fn serve_logged(
        &self,
        requests: &[ArrayIo],
        each: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<(UringRun, Vec<LatencyHistogram>), Error> {
        let log = RunOptions { log: true, ..RunOptions::default() };
        let options = UringOptions { run: log, ..UringOptions::default() };
        let base = Box::new(strategies::Base::new("base"));
        self.drives.iter().try_for_each(Drive::begin_log)?;
        let run = serve(&self.disks()?, base, requests, &options, &*self.should_stop, each)?;
        let of = |(drive, log): (&Drive, &Vec<LogEntry>)| {
            let said = drive.end_log()?;
            Ok(trimtab_emu::added_latency(reads(log), said))
        };
        let paths = self.drives.iter().zip(&run.log).map(of).collect::<Result<_, Error>>()?;
        Ok((run, paths))
    }
}

impl Testbed for Emulated<'_> {
    fn prepare(&mut self, seed: u64) -> Result<(), TestbedError> {
        self.notes.begin(seed);
        Ok(self.make(seed)?)
    }

    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, TestbedError> {
        self.warm_up(requests)?;
        let device = |drive: &Drive| BlockDevice::find(&drive.info().device.to_string_lossy());
        let devices = self.drives.iter().map(device).collect::<Result<Vec<_>, _>>();
        let devices = devices.map_err(|e| Error::Record(e.into()))?;
        let recorder =
            Recorder::load(&devices, &RecorderOptions::default()).map_err(Error::from)?;
        let mut recording = recorder.start();
        let mut all = Vec::new();
        let poll = &mut || recording.poll(&mut all).map_err(Error::from);
        let meter = Meter::begin(&self.drives);
        let (run, paths) = self.serve_logged(requests, poll)?;
        let note = meter.note(PHASE_ONE, &run);
        self.notes.add_phase_one(note);
        paths.iter().for_each(|path| self.notes.added.merge(path));
        let outcome = recording.stop(PATIENCE, |rest, _| {
            all.extend_from_slice(rest);
            Ok::<_, trimtab_record::Error>(())
        });
        let outcome = outcome.map_err(Error::from)?;
        self.notes.lost += outcome.losses.total();
        self.notes.recorded += outcome.records;
        let of = |device: &BlockDevice| {
            let id = outcome.names.find_device(&device.name);
            let own = |r: &&Record| Some(r.device) == id && matches!(r.op, Op::Read | Op::Write);
            all.iter().filter(own).copied().collect()
        };
        let records = devices.iter().map(of).collect();
        let gap = self.comparison.gap();
        thread::sleep(Duration::from_nanos(gap.0));
        self.when_idle(Drive::snapshot)?;
        Ok(records)
    }

    fn serve(&mut self, row: Row<'_>) -> Result<Served, TestbedError> {
        self.when_idle(Drive::restore)?;
        if row.ideal {
            self.when_idle(Drive::idealise)?;
        }
        let disks = self.disks()?;
        // Immediately before the first request: their times count from now.
        for (drive, faults) in self.drives.iter().zip(&self.comparison.faults) {
            faults.iter().try_for_each(|&fault| drive.fault(fault)).map_err(Error::from)?;
        }
        let measured = measure_row(&disks, &row, row.requests, &self.drives, &*self.should_stop);
        self.drives.iter().try_for_each(Drive::clear_faults).map_err(Error::from)?;
        let (served, note) = measured?;
        self.notes.add(note);
        Ok(served)
    }

    fn has_ideal(&self) -> bool {
        true
    }

    fn has_faults(&self) -> bool {
        true
    }
}

impl Drop for Emulated<'_> {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The first byte and the service time of each read.
fn reads(log: &[LogEntry]) -> Vec<(u64, Nanos)> {
    let reads = log.iter().filter(|entry| entry.op == Op::Read);
    let took = |entry: &LogEntry| Some(entry.complete?.since(entry.issue?));
    reads.filter_map(|entry| Some((entry.offset, took(entry)?))).collect()
}
