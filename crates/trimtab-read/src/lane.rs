//! What a reader has for each drive that it reads from: a state, limits, counters.
//!
//! A file on one disk has one lane. One on a volume of several disks has a lane for each, made
//! with the first read from it, and one more for reads that are not one drive's.

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
use crate::token::{AdmissionReason, Judged, ReadToken};

/// A drive, as a reader has it.
pub(super) struct Lane {
    pub(super) known: DriveStateSource,
    pub(super) guard: AdmissionLimiter,
    /// On the drive, of all readers of this process.
    pub(super) outstanding: Arc<Outstanding>,
    pub(super) board: PublishedCounters,
    /// Of the drive, bytes; 0: there is none.
    pub(super) size: u64,
}

impl Lane {
    pub(super) const fn counters(&self) -> &Counters {
        self.board.counters()
    }

    pub(super) fn pass<'a>(
        &'a self,
        why: AdmissionReason,
        judged: Option<Judged<'a>>,
    ) -> ReadToken<'a> {
        ReadToken::new(self.counters(), &self.outstanding, why, judged)
    }
}

/// All lanes of a reader.
pub(super) struct Lanes {
    /// By the location's index of the disk.
    of_disks: Box<[OnceLock<Lane>]>,
    of_no_disk: OnceLock<Lane>,
    setup: Setup,
}

/// What each lane is made with.
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
    /// The main lane is made now, so that a reader that has read nothing is seen by others.
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

    /// That of the first disk; where there is none, that of no disk.
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

    /// Those that have been used.
    pub(super) fn all(&self) -> impl Iterator<Item = &Lane> {
        self.of_disks.iter().chain([&self.of_no_disk]).filter_map(OnceLock::get)
    }
}

impl Setup {
    /// `number`: what reads share that are out on the same drive.
    fn lane(&self, device: Option<&BlockDevice>, number: (u32, u32), size: u64) -> Lane {
        let published = device.map_or((0, 0), |device| device.number);
        let (model, source) = (self.model.clone(), self.source.clone());
        Lane {
            known: DriveStateSource::new(
                model,
                device.cloned(),
                self.has_several,
                source,
                self.oldest,
            ),
            guard: AdmissionLimiter::new(self.rules),
            outstanding: Outstanding::of(number),
            board: PublishedCounters::new(self.publish.as_deref(), published, &self.path),
            size,
        }
    }
}

impl Reader {
    /// The lane of a read, and where on its drive the read begins. Without a drive it begins
    /// where it does in the file.
    pub(super) fn lane(
        &self,
        offset: u64,
        length: u64,
        now: Nanos,
    ) -> (&Lane, Result<Place, NoDrive>) {
        match self.place.find(offset, length, now) {
            Ok((index, place)) => match self.lanes.of_disk(index, &self.place) {
                Some(lane) => (lane, Ok(place)),
                None => (self.lanes.of_no_disk(&self.place), Err(NoDrive::UnknownMapping)),
            },
            Err(why) => (self.lanes.of_no_disk(&self.place), Err(why)),
        }
    }
}
