//! One of the agent's drives: its model, whether that still fits, and its training.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_predict::{Model, Recorded};
use trimtab_record::monitor::DriveFigures;
use trimtab_train::retrain;

use crate::Log;
use crate::config::Config;
use crate::drift_check::DriftCheck;
use crate::error::{Error, advice};
use crate::training::{Outcome, Training};

/// The pause after a training that failed, even if the configuration sets none.
const PUT_OFF: Duration = Duration::from_secs(60);

/// A drive and the file of its model.
pub(crate) struct Drive {
    pub(crate) device: BlockDevice,
    pub(crate) path: Option<PathBuf>,
    pub(crate) drift: DriftCheck,
    check_every: Duration,
    training: Option<Training>,
    /// When it may be trained again.
    earliest: Instant,
    /// How often it was trained, and how often training failed.
    pub(crate) trained: u64,
    pub(crate) failed: u64,
}

impl Drive {
    pub(crate) fn new(device: BlockDevice, path: Option<PathBuf>, config: &Config) -> Self {
        let check_every = config.drift_check();
        Self {
            device,
            path,
            drift: DriftCheck::new(check_every),
            check_every,
            training: None,
            earliest: Instant::now(),
            trained: 0,
            failed: 0,
        }
    }

    /// The model in its file; `None` without a file. A model of another drive is an error.
    pub(crate) fn load(&self, log: &Log) -> Result<Option<Arc<Model>>, Error> {
        let Some(path) = &self.path else { return Ok(None) };
        let failed = |source| Error::Model { source, advice: advice(path, Access::READ_OK) };
        let model = Model::load(path).map_err(failed)?;
        if let Some(caution) = model.caution() {
            log(&format!("warning: {}: {caution}", path.display()));
        }
        match model.other_drive(&self.device.identity()) {
            Some(other) => Err(Error::OtherDrive { path: path.clone(), other }),
            None => Ok(Some(Arc::new(model))),
        }
    }

    /// Checks that a new model could replace the model's files.
    pub(crate) fn can_be_trained(&self) -> Result<(), Error> {
        let Some(path) = &self.path else { return Ok(()) };
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let access = Access::WRITE_OK | Access::EXEC_OK;
        accessat(CWD, directory, access, AtFlags::EACCESS).map_err(|e| Error::Unwritable {
            path: path.clone(),
            source: e.into(),
            advice: advice(directory, access),
        })
    }

    /// A new model is in use, and no reads were scored by it yet. A training in progress
    /// belongs to the previous model.
    pub(crate) fn begin_anew(&mut self) {
        self.make_training_void();
        self.drift = DriftCheck::new(self.check_every);
    }

    /// Whether the model no longer fits.
    pub(crate) fn should_be_trained(&self, figures: &DriveFigures) -> bool {
        self.drift.calls_for_training(figures)
    }

    /// Starts a training in the background, if one is due. Returns whether it did. `began` is
    /// the origin of the records' times.
    pub(crate) fn train(&mut self, figures: &DriveFigures, pause: Duration, began: Nanos) -> bool {
        let (Some(path), Some(model)) = (&self.path, figures.model()) else { return false };
        if self.training.is_some()
            || Instant::now() < self.earliest
            || !self.should_be_trained(figures)
        {
            return false;
        }
        self.earliest = Instant::now() + pause;
        let (model, kept) = (Arc::clone(model), figures.kept());
        let name = format!("{}, by the agent", self.device.name);
        // The new model is this drive's, even if the previous one was trained on another
        // drive.
        let identity = self.device.identity();
        self.training = Some(Training::start(path, move || {
            let mut model = retrain(&model, &name, &on_the_unix_clock(kept, began))?;
            model.card.drive = Some(identity);
            Ok(model)
        }));
        true
    }

    pub(crate) const fn is_training(&self) -> bool {
        self.training.is_some()
    }

    /// The result of a training in progress will be dropped.
    pub(crate) fn make_training_void(&mut self) {
        if let Some(training) = &mut self.training {
            training.make_void();
        }
    }

    /// The outcome of a training, once it has ended.
    pub(crate) fn trained(&mut self) -> Option<Outcome> {
        Some(self.training.take_if(|training| training.is_finished())?.finish())
    }

    /// Postpones the next training, though the last one has changed nothing.
    pub(crate) fn put_off(&mut self) {
        self.earliest = self.earliest.max(Instant::now() + PUT_OFF);
    }

    /// A training's model is in use.
    pub(crate) const fn count_trained(&mut self) {
        self.trained += 1;
    }

    /// A training's model is not in use.
    pub(crate) fn count_failed(&mut self) {
        self.failed += 1;
        self.put_off();
    }
}

/// So that the card gives the time of the last read trained on.
fn on_the_unix_clock(mut recorded: Vec<Recorded>, began: Nanos) -> Vec<Recorded> {
    for one in &mut recorded {
        one.request.arrival += began;
        one.complete += began;
    }
    recorded
}
