//! The stack of devices below a file, kept up to date.
//!
//! Volumes are extended and moved, and arrays lose members, while files on them are open. The
//! stack is examined again once a second while it is read from, by the thread that also maps
//! files (refresh.rs); no read waits for that.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use trimtab_io::Nanos;

use crate::extents::Extents;
use crate::location::{NoDrive, Place};
use crate::refresh::{self, Refresh};
use crate::topology::{Disk, Resolved, Topology, joined};

const EVERY: Nanos = Nanos::from_millis(1000);
/// Disks that may be added while a file is open. The place of data on further disks is
/// unknown.
const SPARE: usize = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Layers {
    number: (u32, u32),
    /// All disks seen so far: a disk keeps its index.
    disks: Box<[OnceLock<Disk>]>,
    now: ArcSwap<Current>,
    looked: AtomicU64,
}

#[derive(Debug)]
struct Current {
    topology: Topology,
    /// For each of the topology's disks, its index here.
    indices: Vec<Option<usize>>,
}

impl Current {
    /// Assigns the next index to each new disk. Only one thread at a time calls this.
    fn new(topology: Topology, disks: &[OnceLock<Disk>]) -> Self {
        let index =
            |disk: &Disk| disks.iter().position(|slot| slot.get_or_init(|| disk.clone()) == disk);
        let indices = topology.disks().iter().map(index).collect();
        Self { topology, indices }
    }
}

impl Layers {
    pub(crate) fn new(number: (u32, u32), topology: Topology) -> Self {
        let slots = topology.disks().len() + SPARE;
        let disks: Box<[_]> = (0..slots).map(|_| OnceLock::new()).collect();
        let now = ArcSwap::from_pointee(Current::new(topology, &disks));
        Self { number, disks, now, looked: AtomicU64::new(0) }
    }

    pub(crate) fn disk(&self, index: usize) -> Option<&Disk> {
        self.disks.get(index)?.get()
    }

    pub(crate) const fn most_disks(&self) -> usize {
        self.disks.len()
    }

    pub(crate) fn only_disk(&self) -> Option<&Disk> {
        match self.now.load().indices[..] {
            [Some(index)] => self.disk(index),
            _ => None,
        }
    }

    /// Which disk holds a range of the file with these extents, or of the device.
    pub(crate) fn find(
        self: &Arc<Self>,
        extents: Option<&Extents>,
        offset: u64,
        length: u64,
        now: Nanos,
    ) -> Result<(usize, Place), NoDrive> {
        self.refresh_if_due(now);
        let current = self.now.load();
        let topology = &current.topology;
        let found = match extents {
            None => Some(topology.resolve(offset, length)),
            Some(extents) => {
                let mut found = None;
                extents.visit(offset, length.max(1), now, |place, length| {
                    let next = match place {
                        Place::At(place) => topology.resolve(place, length),
                        Place::Unmapped => topology.resolve_somewhere(),
                        // A hole needs no drive.
                        Place::Hole => return true,
                    };
                    let all = joined(found, next);
                    found = Some(all);
                    matches!(all, Resolved::At { .. } | Resolved::Within { .. })
                });
                found
            }
        };
        let index = |disk: usize| {
            current.indices.get(disk).copied().flatten().ok_or(NoDrive::UnknownMapping)
        };
        match found {
            None => Ok((0, Place::Hole)),
            Some(Resolved::At { disk, offset }) => Ok((index(disk)?, Place::At(offset))),
            Some(Resolved::Within { disk }) => Ok((index(disk)?, Place::Unmapped)),
            Some(Resolved::SeveralDrives) => Err(NoDrive::SeveralDrives),
            Some(Resolved::Unknown) => Err(NoDrive::UnknownMapping),
        }
    }

    fn refresh_if_due(self: &Arc<Self>, now: Nanos) {
        let looked = self.looked.load(Relaxed);
        if now.since(Nanos(looked)) >= EVERY
            && self.looked.compare_exchange(looked, now.0, Relaxed, Relaxed).is_ok()
            && looked > 0
            && !refresh::ask(Arc::downgrade(self) as Weak<dyn Refresh>)
        {
            self.looked.store(looked, Relaxed);
        }
    }
}

impl Refresh for Layers {
    fn refresh(&self) {
        // A device that was removed keeps its last topology: reads of it fail.
        if let Some(topology) = Topology::of(self.number)
            && topology != self.now.load().topology
        {
            self.now.store(Arc::new(Current::new(topology, &self.disks)));
        }
    }
}
