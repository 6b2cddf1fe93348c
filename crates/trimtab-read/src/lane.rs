//! Lanes: a reader's state, limits and counters for each drive that it reads from.
//!
//! A file on one disk has one lane. A file on a volume of several disks has a lane for each,
//! created with the first read from it, and one for reads that no single drive holds.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use trimtab_block::{BlockDevice, Location, NoDrive, Place};
use trimtab_io::Nanos;
use trimtab_predict::Model;

use crate::drive_state::{DriveStateSource, Source};
use crate::figures::Counters;
use crate::limiter::{AdmissionLimiter, Rules};
use crate::options::{ReadOptions, nanos};
use crate::outstanding::Outstanding;
use crate::publish::PublishedCounters;
use crate::reader::Reader;
use crate::token::{AdmissionReason, ReadToken, Scored};

/// The lane of one drive.
pub(super) struct Lane {
    pub(super) drive_state: DriveStateSource,
    pub(super) limiter: AdmissionLimiter,
    /// The drive's outstanding reads, of all readers of this process.
    pub(super) outstanding: Arc<Outstanding>,
    pub(super) published: PublishedCounters,
    /// The size of the drive, bytes; 0 without a drive.
    pub(super) size: u64,
}

impl Lane {
    pub(super) const fn counters(&self) -> &Counters {
        self.published.counters()
    }

    pub(super) fn token<'a>(
        &'a self,
        reason: AdmissionReason,
        scored: Option<Scored<'a>>,
    ) -> ReadToken<'a> {
        ReadToken::new(self.counters(), &self.outstanding, reason, scored)
    }
}

/// All lanes of a reader.
pub(super) struct Lanes {
    /// By the location's index of the disk.
    of_disks: Box<[OnceLock<Lane>]>,
    of_no_disk: OnceLock<Lane>,
    setup: Setup,
}

/// The parameters of every lane.
struct Setup {
    model: Option<Arc<Model>>,
    source: Source,
    oldest: Nanos,
    rules: Rules,
    publish: Option<PathBuf>,
    path: PathBuf,
    has_several: bool,
}

impl Lanes {
    /// Creates the main lane at once, so that other processes see a reader before its first
    /// read.
    pub(super) fn new(place: &Location, path: &Path, options: &ReadOptions, rules: Rules) -> Self {
        let of_disks = (0..place.most_disks()).map(|_| OnceLock::new()).collect();
        let setup = Setup {
            model: options.model.clone(),
            source: options.source.clone(),
            oldest: nanos(options.oldest),
            rules,
            publish: options.publish.clone(),
            path: path.to_owned(),
            has_several: place.most_disks() > 1,
        };
        let this = Self { of_disks, of_no_disk: OnceLock::new(), setup };
        this.main(place);
        this
    }

    pub(super) fn model(&self) -> Option<&Model> {
        self.setup.model.as_deref()
    }

    /// The lane of the first disk; without disks, that of no disk.
    pub(super) fn main(&self, place: &Location) -> &Lane {
        self.of_disk(0, place).unwrap_or_else(|| self.of_no_disk(place))
    }

    fn of_disk(&self, index: usize, place: &Location) -> Option<&Lane> {
        let lane = self.of_disks.get(index)?;
        if let Some(lane) = lane.get() {
            return Some(lane);
        }
        let disk = place.disk_at(index)?;
        Some(
            lane.get_or_init(|| self.setup.lane(Some(&disk.device), disk.device.number, disk.size)),
        )
    }

    fn of_no_disk(&self, place: &Location) -> &Lane {
        self.of_no_disk.get_or_init(|| self.setup.lane(None, place.number(), 0))
    }

    /// The lanes that exist.
    pub(super) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.of_disks.iter().chain([&self.of_no_disk]).filter_map(OnceLock::get)
    }
}

impl Setup {
    /// `number` identifies the drive, by which readers share its outstanding reads.
    fn lane(&self, device: Option<&BlockDevice>, number: (u32, u32), size: u64) -> Lane {
        let of_drive = device.map_or((0, 0), |device| device.number);
        let (model, source) = (self.model.clone(), self.source.clone());
        Lane {
            drive_state: DriveStateSource::new(
                model,
                device.cloned(),
                self.has_several,
                source,
                self.oldest,
            ),
            limiter: AdmissionLimiter::new(self.rules),
            outstanding: Outstanding::of(number),
            published: PublishedCounters::new(self.publish.as_deref(), of_drive, &self.path),
            size,
        }
    }
}

impl Reader {
    /// The lane of a read, and the read's offset on its drive; without a drive, its offset in
    /// the file.
    pub(super) fn lane(
        &self,
        offset: u64,
        length: u64,
        now: Nanos,
    ) -> (&Lane, Result<Place, NoDrive>) {
        match self.location.find(offset, length, now) {
            Ok((index, place)) => match self.lanes.of_disk(index, &self.location) {
                Some(lane) => (lane, Ok(place)),
                None => (self.lanes.of_no_disk(&self.location), Err(NoDrive::UnknownMapping)),
            },
            Err(why) => (self.lanes.of_no_disk(&self.location), Err(why)),
        }
    }
}
