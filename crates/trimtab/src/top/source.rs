//! Where `trimtab top` gets its figures: from the recorder, or, without the privilege to load
//! BPF programs, from the kernel's own counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use trimtab_agent::DriftCheck;
use trimtab_block::{BlockDevice, DeviceStat, OpStat};
use trimtab_bpf::Error as BpfError;
use trimtab_io::{Nanos, Op};
use trimtab_predict::{Model, OtherDrive};
use trimtab_read::{ReaderSums, readers};
use trimtab_record::Error;
use trimtab_record::monitor::{Monitor, OpTotal, Totals};
use trimtab_report::count;

use super::row::{Past, Row, Sight};
use crate::model_facts;

/// How often the inflection point is computed, which takes half a second of processor time.
const DRIFT_EVERY: Duration = Duration::from_secs(60);

/// A model, and the name of its file.
#[derive(Clone)]
pub(super) struct NamedModel {
    pub(super) file: String,
    pub(super) model: Arc<Model>,
}

/// The drives, and their observers.
pub(super) struct Source {
    devices: Vec<BlockDevice>,
    eyes: Eyes,
    pasts: Vec<Past>,
    readers: ReaderSums,
}

enum Eyes {
    Recorder { monitor: Box<Monitor>, drift: Vec<DriftCheck>, origins: Vec<Option<Origin>> },
    Counters { sights: Vec<Sight>, began: Instant },
}

/// The origin of a model.
struct Origin {
    file: String,
    /// Set if the model was trained on another drive than the one it is compared with. The
    /// comparison may be intended, so this is reported and not refused.
    other: Option<OtherDrive>,
}

impl Source {
    /// Observes drives, with models for some of them. Without the required privilege, and if
    /// there are no models, it falls back to the kernel's counters.
    pub(super) fn new(
        devices: Vec<BlockDevice>,
        models: Vec<Option<NamedModel>>,
        window: u32,
    ) -> Result<Self> {
        let eyes = match Monitor::load(&devices, window) {
            Ok(mut monitor) => {
                for (i, model) in models.iter().enumerate() {
                    let model = model.as_ref().map(|named| Arc::clone(&named.model));
                    monitor.drive_mut(i).set_model(model);
                }
                let drift = devices.iter().map(|_| DriftCheck::new(DRIFT_EVERY)).collect();
                let origin = |(named, device): (Option<NamedModel>, &BlockDevice)| {
                    let NamedModel { file, model } = named?;
                    Some(Origin { file, other: model.other_drive(&device.identity()) })
                };
                let origins = models.into_iter().zip(&devices).map(origin).collect();
                Eyes::Recorder { monitor: Box::new(monitor), drift, origins }
            }
            Err(Error::Bpf(BpfError::Privilege | BpfError::Kernel(_)))
                if models.iter().all(Option::is_none) =>
            {
                let sights = devices.iter().map(|_| Sight::default()).collect();
                Eyes::Counters { sights, began: Instant::now() }
            }
            Err(error) => return Err(error.into()),
        };
        let readers = ReaderSums::default();
        let mut this = Self { devices, eyes, pasts: Vec::new(), readers };
        this.poll()?;
        let (now, window) = (this.now(), Nanos::from_secs(window.into()));
        let past = |i| Past::new(now, &this.sight(i), window);
        this.pasts = (0..this.devices.len()).map(past).collect();
        Ok(this)
    }

    /// What is missing, if anything, and what is available nevertheless.
    pub(super) const fn note(&self) -> Option<&'static str> {
        match self.eyes {
            Eyes::Recorder { .. } => None,
            Eyes::Counters { .. } => Some(
                "no CAP_BPF and CAP_PERFMON, or no BTF: rates and depth only, from the kernel's \
                 counters; as root: latencies too",
            ),
        }
    }

    /// Processes pending events.
    pub(super) fn poll(&mut self) -> Result<()> {
        match &mut self.eyes {
            Eyes::Recorder { monitor, drift, .. } => {
                monitor.poll()?;
                drift.iter_mut().enumerate().for_each(|(i, drift)| drift.turn(monitor.drive(i)));
            }
            Eyes::Counters { sights, .. } => {
                for (sight, device) in sights.iter_mut().zip(&self.devices) {
                    // A drive that was removed has nothing in flight.
                    let in_flight = device.in_flight().unwrap_or_default();
                    sight.depth.saw(in_flight);
                    if let Ok(stat) = device.stat() {
                        sight.totals = totals(&stat);
                    }
                }
            }
        }
        Ok(())
    }

    /// Requests lost so far.
    pub(super) fn lost(&self) -> u64 {
        match &self.eyes {
            Eyes::Recorder { monitor, .. } => monitor.losses().total(),
            Eyes::Counters { .. } => 0,
        }
    }

    fn now(&self) -> Nanos {
        match &self.eyes {
            Eyes::Recorder { monitor, .. } => monitor.now(),
            Eyes::Counters { began, .. } => Nanos(began.elapsed().as_nanos() as u64),
        }
    }

    fn sight(&self, i: usize) -> Sight {
        match &self.eyes {
            Eyes::Recorder { monitor, .. } => {
                let drive = monitor.drive(i);
                Sight {
                    totals: *drive.totals(),
                    depth: drive.depth(),
                    recent: Some(drive.recent(monitor.now())),
                    score: drive.model().map(|_| drive.score()),
                }
            }
            Eyes::Counters { sights, .. } => sights[i].clone(),
        }
    }

    /// A row for each drive, as it is now.
    pub(super) fn rows(&mut self) -> Vec<Row> {
        let now = self.now();
        self.readers.look(&readers());
        (0..self.devices.len())
            .map(|i| {
                let sight = self.sight(i);
                let mut row = self.pasts[i].row(&self.devices[i].name, now, &sight);
                self.tell_of_model(i, &mut row);
                self.tell_of_readers(i, &mut row);
                row.lost = matches!(self.eyes, Eyes::Recorder { .. }).then(|| self.lost());
                row
            })
            .collect()
    }

    /// Adds the counters of the processes that read from the drive through `trimtab_read`.
    fn tell_of_readers(&self, i: usize, row: &mut Row) {
        let Some(sum) = self.readers.of(self.devices[i].number) else { return };
        let f = &sum.figures;
        row.tell(
            "readers",
            format!(
                "{}: of {} reads with a deadline {} refused, {} admitted and {} of them late",
                count(sum.readers),
                count(f.with_deadline),
                count(f.refused),
                count(f.admitted),
                count(f.late)
            ),
        );
        row.tell(
            "refused wrongly",
            format!(
                "{} of {} probes and samples were fast; {} reads admitted without a forecast",
                count(f.fast_forced_samples),
                count(f.forced_samples),
                count(f.failed_open.total())
            ),
        );
        row.tell(
            "not answered",
            format!(
                "{} reads timed out at their deadline; {} refused because too many were out",
                count(f.timed_out),
                count(f.bounded)
            ),
        );
        row.readers = Some(*f);
    }

    fn tell_of_model(&self, i: usize, row: &mut Row) {
        let Eyes::Recorder { monitor, drift, origins } = &self.eyes else { return };
        let drive = monitor.drive(i);
        let (Some(model), Some(origin)) = (drive.model(), &origins[i]) else { return };
        row.drift = drift[i].last().map(|checked| checked.comparison.shift());
        let calibration = drive.calibration();
        row.retrain = drift[i].calls_for_training(drive);
        if let Some(other) = &origin.other {
            row.tell("of another drive", other.to_string());
        }
        model_facts::of(&origin.file, model, &drive.score(), &drift[i], calibration)
            .into_iter()
            .for_each(|(name, value)| row.tell(name, value));
    }
}

fn totals(stat: &DeviceStat) -> Totals {
    let mut totals = Totals::default();
    let total = |stat: OpStat| OpTotal { requests: stat.requests, bytes: stat.bytes };
    totals.ops[Op::Read as usize] = total(stat.reads);
    totals.ops[Op::Write as usize] = total(stat.writes);
    totals.ops[Op::Discard as usize] = total(stat.discards);
    totals
}
