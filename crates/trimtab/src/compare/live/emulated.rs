//! Emulated drives, made for a comparison and removed after it.

use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use trimtab_block::BlockDevice;
use trimtab_emu::{Drive, Fill, RunDirectory, Spec};
use trimtab_io::{LatencyHistogram, Nanos, Op};
use trimtab_live::array::{Disk, LiveOptions, LiveRun};
use trimtab_record::{Recorder, RecorderOptions};
use trimtab_sim::array::ArrayIo;
use trimtab_sim::compare::{Comparison, Rig, Row, Served};
use trimtab_steer::strategies;
use trimtab_trace::Record;

use super::notes::{Notes, PHASE_ONE};
use super::serve::{Meter, measure_row, serve};
use crate::drive::{Leash, on_leash};
use crate::interrupt::Interrupt;

/// How long the recorder waits for the last answers.
const PATIENCE: Duration = Duration::from_secs(5);

/// So much of phase one is served before anything is measured.
const WARM_UP: Nanos = Nanos::from_secs(3);

/// How often something is tried that an idle drive alone allows, and the time between:
/// others may look at a new device too, or at one that was written to.
const TRIES: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(5);

/// Emulated drives.
pub(super) struct Emulated<'a> {
    comparison: &'a Comparison,
    home: RunDirectory,
    drives: Vec<Drive>,
    /// They go with these, whatever becomes of us.
    leashes: Vec<Leash>,
    depths: Vec<u32>,
    notes: Notes,
    end: Interrupt,
}

/// The drives that a scenario wants.
pub(super) fn specs(comparison: &Comparison, seed: u64) -> impl Iterator<Item = Spec> {
    comparison.wanted().enumerate().map(move |(number, wanted)| Spec {
        seed: Comparison::drive_seed(seed, number),
        fill: Fill { share: wanted.fill, overwrites: wanted.overwrites },
        ..Spec::new(format!("compare-{}-{number}", std::process::id()), wanted.profile.clone())
    })
}

impl<'a> Emulated<'a> {
    pub(super) fn new(comparison: &'a Comparison, end: Interrupt) -> Result<Self> {
        let depths = comparison.wanted().map(|wanted| wanted.queue_depth).collect();
        let (home, notes) = (RunDirectory::from_environment(), Notes::default());
        let (drives, leashes) = (Vec::new(), Vec::new());
        Ok(Self { comparison, home, drives, leashes, depths, notes, end })
    }

    pub(super) fn into_notes(mut self) -> Notes {
        std::mem::take(&mut self.notes)
    }

    /// The drives, as the scenario wants them.
    fn make(&mut self, seed: u64) -> Result<()> {
        self.remove();
        for spec in specs(self.comparison, seed) {
            if self.end.has_come() {
                bail!("ended before it was complete");
            }
            self.leashes.push(on_leash(&spec)?);
            self.drives.push(Drive::find(&self.home, &spec.name)?);
        }
        Ok(())
    }

    fn remove(&mut self) {
        for drive in self.drives.drain(..) {
            // It may have died; then the next one of its name cleans up.
            _ = drive.remove(true);
        }
        self.leashes.clear();
    }

    fn disks(&self) -> Result<Vec<Disk>, String> {
        let disk = |(drive, &depth): (&Drive, &u32)| {
            let path = drive.info().device.clone();
            let file = drive.open().map_err(|e| e.to_string())?;
            Ok(Disk { path, file, depth })
        };
        self.drives.iter().zip(&self.depths).map(disk).collect()
    }
}

impl Emulated<'_> {
    /// Does something that an idle drive alone allows with each of them.
    fn when_idle(&self, act: fn(&Drive) -> Result<(), trimtab_emu::Error>) -> Result<(), String> {
        for drive in &self.drives {
            let mut tries = TRIES;
            while let Err(error) = act(drive) {
                tries -= 1;
                if tries == 0 {
                    return Err(error.to_string());
                }
                thread::sleep(BETWEEN);
            }
        }
        Ok(())
    }

    /// Serves the beginning of phase one, so that the drives find under this load how much
    /// earlier than their models say they have to answer: each has estimated that alone, in a
    /// machine that had nothing else to do, and goes on correcting it in use. The flash is as
    /// before when this is over.
    fn warm_up(&mut self, requests: &[ArrayIo]) -> Result<(), String> {
        self.when_idle(Drive::snapshot)?;
        let first = requests.partition_point(|io| io.at < WARM_UP);
        let base = Box::new(strategies::Base::new("base"));
        let (disks, options) = (self.disks()?, LiveOptions::default());
        serve(&disks, base, &requests[..first], &options, &self.end, &mut || Ok(()))?;
        self.when_idle(Drive::restore)?;
        let lead = |drive: &Drive| {
            drive.stat().map(|stat| stat.compensation_us).map_err(|e| e.to_string())
        };
        let leads = self.drives.iter().map(lead).collect::<Result<_, _>>()?;
        self.notes.leads_us.push(leads);
        Ok(())
    }

    /// Serves requests without a strategy; and what the way to each drive added to its
    /// reads: the difference of what we see and what the drive says it did.
    fn serve_logged(
        &self,
        requests: &[ArrayIo],
        each: &mut dyn FnMut() -> Result<(), String>,
    ) -> Result<(LiveRun, Vec<LatencyHistogram>), String> {
        let options = LiveOptions { record: true, ..LiveOptions::default() };
        let base = Box::new(strategies::Base::new("base"));
        self.drives.iter().try_for_each(Drive::begin_log).map_err(|e| e.to_string())?;
        let run = serve(&self.disks()?, base, requests, &options, &self.end, each)?;
        let of = |(drive, records): (&Drive, &Vec<Record>)| {
            let said = drive.end_log().map_err(|e| e.to_string())?;
            Ok(trimtab_emu::added_latency(reads(records), said))
        };
        let ways = self.drives.iter().zip(&run.records).map(of).collect::<Result<_, String>>()?;
        Ok((run, ways))
    }
}

impl Rig for Emulated<'_> {
    fn prepare(&mut self, seed: u64) -> Result<(), String> {
        self.notes.begin(seed);
        self.make(seed).map_err(|e| format!("{e:#}"))
    }

    fn record(&mut self, requests: &[ArrayIo]) -> Result<Vec<Vec<Record>>, String> {
        self.warm_up(requests)?;
        let failed = |e: trimtab_record::Error| e.to_string();
        let devices = self
            .drives
            .iter()
            .map(|drive| BlockDevice::find(&drive.info().device.to_string_lossy()))
            .map(|found| found.map_err(|e| e.to_string()));
        let devices: Vec<_> = devices.collect::<Result<_, _>>()?;
        let mut recording =
            Recorder::load(&devices, &RecorderOptions::default()).map_err(failed)?.start();
        let mut all = Vec::new();
        let poll = &mut || recording.poll(&mut all).map_err(failed);
        let meter = Meter::begin(&self.drives);
        let (run, ways) = self.serve_logged(requests, poll)?;
        let note = meter.note(PHASE_ONE, &run);
        self.notes.add_phase_one(note);
        ways.iter().for_each(|way| self.notes.added.merge(way));
        let outcome = recording.stop(PATIENCE, |rest, _| {
            all.extend_from_slice(rest);
            Ok::<_, trimtab_record::Error>(())
        });
        let outcome = outcome.map_err(failed)?;
        self.notes.lost += outcome.losses.total();
        self.notes.recorded += outcome.records;
        let of = |device: &BlockDevice| {
            let id = outcome.names.find_device(&device.name);
            let ours = |r: &&Record| Some(r.device) == id && matches!(r.op, Op::Read | Op::Write);
            all.iter().filter(ours).copied().collect()
        };
        let records = devices.iter().map(of).collect();
        let gap = self.comparison.gap();
        thread::sleep(Duration::from_nanos(gap.0));
        self.when_idle(Drive::snapshot)?;
        Ok(records)
    }

    fn serve(&mut self, row: Row<'_>) -> Result<Served, String> {
        self.when_idle(Drive::restore)?;
        if row.ideal {
            self.when_idle(Drive::idealise)?;
        }
        let disks = self.disks()?;
        let (served, note) = measure_row(&disks, &row, row.requests, &self.drives, &self.end)?;
        self.notes.add(note);
        Ok(served)
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

/// Of each read its first byte and how long it took.
fn reads(records: &[Record]) -> Vec<(u64, Nanos)> {
    let reads = records.iter().filter(|record| record.op == Op::Read);
    reads.filter_map(|record| Some((record.offset, record.service_time()?))).collect()
}
