//! The state of a drive that a reader's decisions are based on, and whether the model fits it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::{ArcSwapOption, Guard};
use trimtab_io::Nanos;
use trimtab_predict::{Model, OtherDrive, PredictorKind, Trained};

use crate::figures::FailOpenReason;
use trimtab_block::BlockDevice;
use trimtab_state::LiveDrive;

/// How often the reader looks for a lost state, or its new unit functions. That takes some
/// system calls, in the thread of a read that is admitted.
const TRY_EVERY: Nanos = Nanos::from_millis(100);

/// The source of the drive's state.
#[derive(Clone, Debug)]
pub enum Source {
    /// A state tracker has pinned it in this directory. If there is none, the reader looks
    /// again every 100 ms.
    Pinned(PathBuf),
    /// This process tracks it (`trimtab_tracker::StateTracker::drive`).
    Given(LiveDrive),
}

impl Default for Source {
    /// Pinned in `/sys/fs/bpf/trimtab`.
    fn default() -> Self {
        Self::Pinned("/sys/fs/bpf/trimtab".into())
    }
}

/// A state, and whether the model fits it.
pub(super) struct Ready {
    pub(super) drive: LiveDrive,
    fits: bool,
}

impl Ready {
    fn new(drive: LiveDrive, model: &Model) -> Arc<Self> {
        let fits = fits(&model.trained, &drive);
        Arc::new(Self { drive, fits })
    }
}

/// Whether a model may be evaluated for a drive. A forest depends on the unit functions that
/// it was trained with, so the tracker must use the same ones. Other models use no units.
fn fits(trained: &Trained, drive: &LiveDrive) -> bool {
    trained.kind() != PredictorKind::Trimtab || drive.tells_apart_by(trained.functions())
}

/// The source of the state, and the last state found.
pub(super) struct DriveStateSource {
    model: Option<Arc<Model>>,
    device: Option<BlockDevice>,
    /// Whether the reader reads from other drives too.
    is_one_of_several: bool,
    other_drive: Option<OtherDrive>,
    source: Source,
    oldest: Nanos,
    ready: ArcSwapOption<Ready>,
    tried: AtomicU64,
}

impl DriveStateSource {
    pub(super) fn new(
        model: Option<Arc<Model>>,
        device: Option<BlockDevice>,
        is_one_of_several: bool,
        source: Source,
        oldest: Nanos,
    ) -> Self {
        let other_drive = match (&model, &device) {
            (Some(model), Some(device)) => model.other_drive(&device.identity()),
            _ => None,
        };
        let (ready, tried) = (ArcSwapOption::empty(), AtomicU64::new(0));
        let this =
            Self { model, device, is_one_of_several, other_drive, source, oldest, ready, tried };
        this.find();
        this
    }

    pub(super) const fn model(&self) -> Option<&Arc<Model>> {
        self.model.as_ref()
    }

    /// How the drive differs from the model's, if it does.
    pub(super) const fn other_drive(&self) -> Option<&OtherDrive> {
        self.other_drive.as_ref()
    }

    /// The drive's state, if decisions may be based on it now.
    pub(super) fn at(&self, now: Nanos) -> Result<Guard<Option<Arc<Ready>>>, FailOpenReason> {
        if self.model.is_none() {
            return Err(FailOpenReason::NoModel);
        }
        if self.device.is_none() && matches!(self.source, Source::Pinned(_)) {
            return Err(FailOpenReason::NoDevice);
        }
        if self.other_drive.is_some() {
            return Err(FailOpenReason::OtherDrive);
        }
        let ready = self.ready.load();
        match self.reason(ready.as_deref(), now) {
            None => Ok(ready),
            Some(reason) => {
                if self.is_turn(now) {
                    self.find();
                }
                Err(reason)
            }
        }
    }

    fn reason(&self, ready: Option<&Ready>, now: Nanos) -> Option<FailOpenReason> {
        let Some(Ready { drive, fits }) = ready else { return Some(FailOpenReason::NotTracked) };
        match drive.age(now) {
            None => Some(FailOpenReason::NotTracked),
            Some(age) if age > self.oldest => Some(FailOpenReason::Stale),
            Some(_) if !fits || !drive.has_current_functions() => Some(FailOpenReason::OtherModel),
            Some(_) => None,
        }
    }

    /// Looks for a usable state.
    fn find(&self) {
        let Some(model) = &self.model else { return };
        let drive = match (&self.source, &self.device) {
            // One of several drives: the given state belongs to another one.
            (Source::Given(drive), Some(device))
                if self.is_one_of_several && drive.kernel_number() != device.kernel_number() =>
            {
                None
            }
            (Source::Given(drive), _) => {
                let mut drive = drive.clone();
                drive.refresh().is_ok().then_some(drive)
            }
            (Source::Pinned(directory), Some(device)) => LiveDrive::open(directory, device).ok(),
            (Source::Pinned(_), None) => None,
        };
        if let Some(drive) = drive {
            self.ready.store(Some(Ready::new(drive, model)));
        }
    }

    /// True for one thread at a time.
    fn is_turn(&self, now: Nanos) -> bool {
        let tried = self.tried.load(Relaxed);
        now.since(Nanos(tried)) >= TRY_EVERY
            && self.tried.compare_exchange(tried, now.0, Relaxed, Relaxed).is_ok()
    }
}
