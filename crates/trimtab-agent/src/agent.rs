//! The drives, and the work on them.

use std::sync::Arc;
use std::time::Duration;

use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_read::{ReaderSums, readers};
use trimtab_record::monitor::Monitor;
use trimtab_report::count;
use trimtab_state::LiveDrive;
use trimtab_tracker::{StateTracker, TrackerOptions};

use crate::Log;
use crate::config::{Config, DriveConfig};
use crate::drive::Drive;
use crate::error::Error;
use crate::metrics::{self, DriveSummary};
use crate::surroundings::Surroundings;
use crate::training::Outcome;

/// Checks that the drives of a configuration exist, that their models load and were trained on
/// them, and that models can be trained again if that is configured.
///
/// # Errors
/// The first problem.
pub fn check(config: &Config, log: &Log) -> Result<(), Error> {
    for drive in find(config)? {
        drive.load(log)?;
        if config.retrain {
            drive.can_be_trained()?;
        }
    }
    Ok(())
}

fn find(config: &Config) -> Result<Vec<Drive>, Error> {
    let drive = |one: &DriveConfig| {
        Ok(Drive::new(BlockDevice::find(&one.device)?, one.model.clone(), config))
    };
    config.drives.iter().map(drive).collect()
}

fn initial_model(drive: &Drive, log: &Log) -> Option<Arc<Model>> {
    drive.load(log).unwrap_or_else(|error| {
        log(&format!("{}: no model used, until SIGHUP: {error}", drive.device.name));
        None
    })
}

/// The drives, with the recorder and the tracker that observe them.
pub struct Agent {
    drives: Vec<Drive>,
    monitor: Monitor,
    tracker: StateTracker,
    live: Vec<LiveDrive>,
    readers: ReaderSums,
    retrain: bool,
    retrain_pause: Duration,
    surroundings: Surroundings,
    log: Log,
}

impl Agent {
    /// Attaches the programs, loads the models and pins the state. A model that cannot be
    /// loaded does not affect the other drives, nor prevent a restart after a crash: its drive
    /// has no model until [`reload`](Self::reload).
    ///
    /// # Errors
    /// A device does not exist, the process may not load BPF programs, or the pins are in use.
    pub fn start(config: &Config, log: Log) -> Result<Self, Error> {
        let drives = find(config)?;
        let models: Vec<_> = drives.iter().map(|drive| initial_model(drive, &log)).collect();
        if config.retrain {
            for drive in &drives {
                if let Err(error) = drive.can_be_trained() {
                    log(&format!("{}: {error}", drive.device.name));
                }
            }
        }
        let devices: Vec<BlockDevice> = drives.iter().map(|drive| drive.device.clone()).collect();
        // The recorder first: it detects devices that are named twice.
        let mut monitor = Monitor::load(&devices, 1)?;
        let functions = |model: &Option<Arc<Model>>| {
            model.as_ref().map_or(Vec::new(), |model| model.trained.functions().to_vec())
        };
        let functions = models.iter().map(functions).collect();
        let options = TrackerOptions { functions, ..TrackerOptions::default() };
        let mut tracker = StateTracker::load(&devices, &options)?;
        if !config.pin_directory.as_os_str().is_empty() {
            let directory = &config.pin_directory;
            tracker
                .pin(directory)
                .map_err(|source| Error::Pin { directory: directory.clone(), source })?;
        }
        for (i, model) in models.into_iter().enumerate() {
            monitor.drive_mut(i).set_model(model);
            monitor.drive_mut(i).keep(config.kept_requests());
        }
        let live = (0..devices.len()).map(|i| tracker.drive(i)).collect::<Result<_, _>>()?;
        let (retrain, retrain_pause) = (config.retrain, config.retrain_pause());
        let readers = ReaderSums::default();
        let surroundings = Surroundings::of(&drives);
        Ok(Self {
            drives,
            monitor,
            tracker,
            live,
            readers,
            retrain,
            retrain_pause,
            surroundings,
            log,
        })
    }

    /// The names of the drives.
    pub fn drive_names(&self) -> impl Iterator<Item = &str> {
        self.drives.iter().map(|drive| drive.device.name.as_str())
    }

    /// Applies the events since the last call, checks for drift and runs trainings. Call it
    /// every [`POLL`](trimtab_record::monitor::POLL).
    ///
    /// # Errors
    /// The disk cannot be used for sorting (which happens while a drive is stalled).
    pub fn turn(&mut self) -> Result<(), Error> {
        self.monitor.poll()?;
        for i in 0..self.drives.len() {
            self.drives[i].drift.turn(self.monitor.drive(i));
            self.train(i);
            if let Some(outcome) = self.drives[i].trained() {
                self.take(i, outcome);
            }
        }
        Ok(())
    }

    /// Reports drives that were detached, and pins the state again if its file was removed.
    /// Call it each second.
    pub fn check_surroundings(&mut self) {
        self.surroundings.check_drives(&self.drives, &self.log);
        self.surroundings.check_pins(&mut self.tracker, &self.log);
    }

    /// Starts a training if a drive needs one. Only one runs at a time, since each copies the
    /// recorded requests and needs memory to train on them. Drives take turns, because each is
    /// asked before its own training is marked as finished.
    fn train(&mut self, i: usize) {
        if !self.retrain || self.drives.iter().any(Drive::is_training) {
            return;
        }
        let (drive, began) = (&mut self.drives[i], self.monitor.started_unix());
        if drive.train(self.monitor.drive(i), self.retrain_pause, began) {
            let name = &drive.device.name;
            (self.log)(&format!("{name}: its model does not fit any more, training"));
        }
    }

    /// Handles the outcome of a training.
    fn take(&mut self, i: usize, outcome: Outcome) {
        let what = match outcome {
            Outcome::Trained(model) => {
                let reads = count(model.card.training.reads as u64);
                match self.install(i, model) {
                    Ok(()) => {
                        self.drives[i].count_trained();
                        format!("trained again, on {reads} reads")
                    }
                    Err(error) => {
                        self.drives[i].count_failed();
                        format!(
                            "trained again, but the old model stays in use until SIGHUP: {error}"
                        )
                    }
                }
            }
            Outcome::Void => {
                self.drives[i].put_off();
                "its model was replaced or loaded while it was trained again: the result is \
                 dropped (SIGHUP loads the files as they are)"
                    .to_owned()
            }
            Outcome::Failed(error) => {
                let error = self.drives[i].can_be_trained().err().unwrap_or(error);
                self.drives[i].count_failed();
                format!("cannot train again, the model stays: {error}")
            }
        };
        (self.log)(&format!("{}: {what}", self.drives[i].device.name));
    }

    /// Makes this the drive's model, for the pinned state and for the figures. If the tracker
    /// rejects it, the previous model stays.
    fn install(&mut self, i: usize, model: Arc<Model>) -> Result<(), Error> {
        let functions = model.trained.functions();
        // Readers of the state detect that the unit functions changed, and refuse nothing
        // until they have loaded the new model.
        if self.live[i].functions() != functions {
            self.tracker.set_functions(i, functions)?;
            self.live[i].refresh_patiently()?;
        }
        self.monitor.drive_mut(i).set_model(Some(model));
        self.drives[i].begin_anew();
        Ok(())
    }

    /// Loads all models again. One that cannot be loaded stays as it was.
    pub fn reload(&mut self) {
        for i in 0..self.drives.len() {
            // Also if it cannot be loaded: it is about to be replaced.
            self.drives[i].make_training_void();
            let loaded = self.drives[i].load(&self.log).and_then(|model| match model {
                None => Ok(false),
                Some(model) => Ok(self.install(i, model).map(|()| true)?),
            });
            let what = match loaded {
                Ok(false) => continue,
                Ok(true) => "model loaded again".to_owned(),
                Err(error) => format!("the model stays: {error}"),
            };
            (self.log)(&format!("{}: {what}", self.drives[i].device.name));
        }
    }

    /// The metrics, in the text format of Prometheus.
    pub fn metrics(&mut self) -> String {
        self.readers.look(&readers());
        let summary = |(i, drive): (usize, &'_ Drive)| {
            let figures = self.monitor.drive(i);
            let counters = self.live[i].counters();
            DriveSummary {
                // The name borrows from the drive, not from the loop.
                device: &self.drives[i].device.name,
                figures,
                in_flight: self.live[i].in_flight(),
                missed: counters.missed + counters.table_full,
                moved: drive.drift.last().map(|checked| checked.comparison.shift()),
                retrain: drive.should_be_trained(figures),
                readers: self.readers.of(drive.device.number).copied(),
                trained: drive.trained,
                failed: drive.failed,
            }
        };
        let drives: Vec<DriveSummary<'_>> = self.drives.iter().enumerate().map(summary).collect();
        metrics::page(&drives, &self.monitor.losses())
    }
}
