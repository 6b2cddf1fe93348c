//! A device or file to read from.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trimtab_io::{Nanos, monotonic};
use trimtab_predict::{Forecast, Model, OtherDrive, Verdict};

use crate::admission::{Admission, ReadRequest};
use crate::auto_reads::SharedAuto;
use crate::error::{Error, Refusal, Urgency};
use crate::figures::Figures;
use crate::forecast::{Detail, Outlook, duration};
use crate::lane::Lanes;
use crate::memory::Memory;
use crate::options::ReadOptions;
use crate::token::{AdmissionReason, ReadToken};
use trimtab_block::BlockDevice;
use trimtab_block::{Location, Place};

/// A device or file, and the known state of the drives below. Any number of threads may read
/// from it at once; no read waits for a lock (without io_uring, a read with a deadline takes
/// one briefly).
pub struct Reader {
    pub(super) file: Arc<File>,
    /// Whether it was opened past the page cache.
    pub(super) is_direct: bool,
    pub(super) location: Location,
    pub(super) lanes: Lanes,
    pub(super) most_abandoned: u32,
    pub(super) memory: Memory,
    pub(super) auto: SharedAuto,
}

/// The forecast for a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The expected latency, if the model predicts one.
    pub wait: Option<Duration>,
    /// Whether that is late by the model's label.
    pub is_late: bool,
    /// The probability that it is late, 0 to 1.
    pub probability: f32,
}

impl Reader {
    /// Opens a device or file for reading.
    ///
    /// # Errors
    /// It cannot be opened, or an option is out of range. Missing state of the drive is not an
    /// error: reads are then admitted.
    pub fn open(path: impl AsRef<Path>, options: &ReadOptions) -> Result<Self, Error> {
        const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
        let path = path.as_ref();
        let flags = if options.direct { O_DIRECT } else { 0 };
        let file = File::options().read(true).custom_flags(flags).open(path);
        let failed = |source| Error::Open { path: path.to_owned(), source };
        Self::new(file.map_err(failed)?, path, options)
    }

    /// Reads from an open file, in the mode in which it was opened.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn from_file(file: File, options: &ReadOptions) -> Result<Self, Error> {
        use std::os::fd::AsRawFd as _;
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        let path = std::fs::read_link(&link).unwrap_or_else(|_| link.into());
        Self::new(file, &path, options)
    }

    fn new(file: File, path: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let rules = options.rules()?;
        let auto = SharedAuto::new(&options.auto)?;
        let failed = |source| Error::Open { path: path.to_owned(), source };
        let flags = rustix::fs::fcntl_getfl(&file).map_err(|e| failed(e.into()))?;
        let file = Arc::new(file);
        let place = Location::of(&file).map_err(failed)?;
        Ok(Self {
            file,
            is_direct: flags.contains(rustix::fs::OFlags::DIRECT),
            lanes: Lanes::new(&place, path, options, rules),
            most_abandoned: options.most_abandoned,
            memory: Memory::new(options.memory_below),
            auto,
            location: place,
        })
    }

    /// The forecast for a read that would be sent now; `None` without a usable state and
    /// model. Changes no counter.
    #[must_use]
    pub fn expect(&self, length: u64, offset: u64) -> Option<Expected> {
        let now = monotonic();
        let (lane, found) = self.lane(offset, length, now);
        let Outlook { forecast, .. } =
            self.outlook(lane, found, length, offset, now, Detail::Everything).ok()?.0;
        let is_late = forecast.verdict == Verdict::Late;
        let (wait, probability) = (duration(forecast.wait), forecast.probability);
        Some(Expected { wait, is_late, probability })
    }

    /// The model's forecast for a read that would be sent at `now` ([`monotonic`]), for callers
    /// that choose among several readers; `None` without a usable state and model. Changes no
    /// counter.
    #[must_use]
    pub fn forecast(&self, now: Nanos, length: u64, offset: u64) -> Option<Forecast> {
        let (lane, found) = self.lane(offset, length, now);
        let known = self.outlook(lane, found, length, offset, now, Detail::Everything).ok()?;
        Some(known.0.forecast)
    }

    /// Decides on a read of this many bytes at this offset, which the caller sends.
    ///
    /// A read that would be refused is admitted if the page cache holds it, as by
    /// [`read_at`](Self::read_at). The caller enforces the deadline. The token of an abandoned
    /// read must be dropped when the read has completed, not before, so that it counts as
    /// outstanding.
    ///
    /// # Errors
    /// It is refused.
    pub fn admit(
        &self,
        length: u64,
        offset: u64,
        urgency: Urgency,
    ) -> Result<ReadToken<'_>, Refusal> {
        let now = monotonic();
        match self.ask(ReadRequest::Length(length), offset, urgency, now)? {
            Admission::Send(token) => Ok(token),
            Admission::Done(_) => {
                Ok(self.lanes.main(&self.location).token(AdmissionReason::NoForecast, None))
            }
        }
    }

    /// Its counters so far, over all drives.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let all = self.lanes.all().map(|lane| lane.counters().figures());
        all.fold(Figures::default(), |sum, figures| sum.plus(&figures))
    }

    /// The file that it reads from.
    #[must_use]
    pub const fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The disk that is read from, if it is a single one that the block layer sees. For a
    /// device built on several, use [`device_at`](Self::device_at).
    #[must_use]
    pub fn device(&self) -> Option<&BlockDevice> {
        self.location.disk().map(|disk| &disk.device)
    }

    /// The disk that holds a range (offset and length, bytes), if a single one does.
    #[must_use]
    pub fn device_at(&self, offset: u64, length: u64) -> Option<&BlockDevice> {
        let (disk, _) = self.location.find(offset, length, monotonic()).ok()?;
        self.location.disk_at(disk).map(|disk| &disk.device)
    }

    /// The offset on its disk of the byte at an offset, if it is on one and that is known.
    #[must_use]
    pub fn device_offset(&self, offset: u64) -> Option<u64> {
        match self.location.find(offset, 1, monotonic()) {
            Ok((_, Place::At(place))) => Some(place),
            _ => None,
        }
    }

    /// The model that decisions are based on.
    #[must_use]
    pub fn model(&self) -> Option<&Model> {
        self.lanes.model()
    }

    /// How the (first) drive differs from the one that the model was trained on, if that is
    /// known. Then nothing is refused.
    #[must_use]
    pub fn other_drive(&self) -> Option<&OtherDrive> {
        self.lanes.main(&self.location).drive_state.other_drive()
    }

    /// The file in which its counters are published; `None` if they are not. With several
    /// drives there is one for each, and this is the first.
    #[must_use]
    pub fn published_at(&self) -> Option<PathBuf> {
        self.lanes.main(&self.location).published.path().map(Path::to_owned)
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let device = self.device().map(|device| &device.name);
        f.debug_struct("Reader").field("file", &self.file).field("device", &device).finish()
    }
}
