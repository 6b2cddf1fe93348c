//! Blocks on three drives, each verified whenever it is read.
//!
//! A block's content is derived from its number and its version, so that each read shows
//! whether it is the right block, the right version and complete. A writer has exclusive
//! access to a block; data of a failed write on a drive are not read until the block has been
//! written again.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use trimtab_read::{Figures, ReadError, ReadOptions, Reader, Urgency};

pub(crate) const DRIVES: usize = 3;
pub(crate) const BLOCKS: u64 = 6_000;
const BLOCK: usize = 4096;
/// A write is complete when this many drives have it.
const QUORUM: usize = 2;
/// Longer than any drive is unavailable.
const PATIENCE: Duration = Duration::from_secs(60);

/// The open files of a drive; `None` while it is dead.
pub(crate) struct Open {
    reader: Reader,
    writer: File,
}

impl Open {
    pub(crate) fn new(device: &str, options: &ReadOptions) -> Self {
        const O_DIRECT: i32 = 0o40000;
        let writer = OpenOptions::new().write(true).custom_flags(O_DIRECT).open(device).unwrap();
        Self { reader: Reader::open(device, options).unwrap(), writer }
    }
}

/// A block's content.
#[derive(Default)]
struct Block {
    version: u64,
    /// Whether a drive may hold something else.
    stale: [bool; DRIVES],
}

/// Counters of the work done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) repaired: AtomicU64,
}

pub(crate) struct Store {
    drives: [RwLock<Option<Arc<Open>>>; DRIVES],
    blocks: Vec<Mutex<Block>>,
    pub(crate) done: Done,
}

#[repr(align(4096))]
struct Page([u8; BLOCK]);

fn content(block: u64, version: u64) -> Page {
    let mut page = Page([0; BLOCK]);
    page.0[..8].copy_from_slice(&block.to_le_bytes());
    page.0[8..16].copy_from_slice(&version.to_le_bytes());
    Pcg64Mcg::seed_from_u64(block << 32 ^ version).fill_bytes(&mut page.0[16..]);
    page
}

impl Store {
    /// Writes all blocks once.
    pub(crate) fn new(open: [Open; DRIVES]) -> Self {
        let drives = open.map(|open| RwLock::new(Some(Arc::new(open))));
        let blocks = (0..BLOCKS).map(|_| Mutex::default()).collect();
        let store = Self { drives, blocks, done: Done::default() };
        (0..BLOCKS).for_each(|block| store.write(block));
        store
    }

    fn drive(&self, drive: usize) -> Option<Arc<Open>> {
        self.drives[drive].read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes a drive, or adds it again. Removed means that nothing of it is open any more.
    pub(crate) fn swap(&self, drive: usize, open: Option<Open>) {
        let before = {
            let mut place = self.drives[drive].write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, open.map(Arc::new))
        };
        // Threads may be in the middle of a read; a dead drive soon gives errors.
        while before.as_ref().is_some_and(|before| Arc::strong_count(before) > 1) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Reads and writes at random until `until`.
    pub(crate) fn work(&self, seed: u64, until: Instant) {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        while Instant::now() < until {
            let block = random.random_range(0..BLOCKS);
            if random.random_bool(0.3) {
                self.write(block);
            } else {
                self.read(block, &mut random);
            }
        }
    }

    fn block(&self, block: u64) -> std::sync::MutexGuard<'_, Block> {
        // Poisoned only if the test has failed.
        self.blocks[block as usize].lock().unwrap()
    }

    fn write(&self, number: u64) {
        let mut block = self.block(number);
        let version = block.version + 1;
        let begun = Instant::now();
        let mut has_it = [false; DRIVES];
        while has_it.iter().filter(|&&has| has).count() < QUORUM {
            assert!(begun.elapsed() < PATIENCE, "block {number} cannot be written: {has_it:?}");
            for (drive, has_it) in has_it.iter_mut().enumerate().filter(|(_, has)| !**has) {
                *has_it = self.write_to(drive, number, version);
            }
        }
        *block = Block { version, stale: has_it.map(|has| !has) };
        self.done.writes.fetch_add(1, Relaxed);
    }

    fn write_to(&self, drive: usize, block: u64, version: u64) -> bool {
        let page = content(block, version);
        let written = self
            .drive(drive)
            .is_some_and(|open| open.writer.write_all_at(&page.0, block * BLOCK as u64).is_ok());
        self.done.errors.fetch_add(u64::from(!written), Relaxed);
        written
    }

    /// Reads from one drive after the other, from the last without a deadline.
    fn read(&self, number: u64, random: &mut Pcg64Mcg) {
        let block = self.block(number);
        let first = random.random_range(0..DRIVES);
        let order = (0..DRIVES).map(|i| (first + i) % DRIVES);
        let order: Vec<_> = order.filter(|&drive| !block.stale[drive]).collect();
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "block {number} cannot be read");
            for (i, &drive) in order.iter().enumerate() {
                let is_last = i + 1 == order.len();
                let urgency = if is_last { Urgency::None } else { Urgency::LatencyCritical };
                if self.read_from(drive, number, block.version, urgency) {
                    self.done.reads.fetch_add(1, Relaxed);
                    return;
                }
            }
        }
    }

    /// Whether the drive returned data, which must be correct.
    fn read_from(&self, drive: usize, block: u64, version: u64, urgency: Urgency) -> bool {
        let Some(open) = self.drive(drive) else { return false };
        let mut page = Page([0; BLOCK]);
        match open.reader.read_exact_at(&mut page.0, block * BLOCK as u64, urgency) {
            Ok(()) => {
                let (found, right) = (&page.0, content(block, version));
                let number = |at: usize| u64::from_le_bytes(found[at..at + 8].try_into().unwrap());
                assert!(
                    *found == right.0,
                    "drive {drive}, block {block}, version {version}: found block {}, version {}",
                    number(0),
                    number(8)
                );
                true
            }
            Err(ReadError::Refused(_) | ReadError::TimedOut(_)) => {
                self.done.refused.fetch_add(1, Relaxed);
                false
            }
            Err(ReadError::Io(_)) => {
                self.done.errors.fetch_add(1, Relaxed);
                false
            }
        }
    }

    /// Makes urgent reads from one drive, at most a thousand a second, and counts those that
    /// were not refused. Without pauses all of them would be over before a probe completes.
    pub(crate) fn urgent_reads(&self, drive: usize, reads: u64) -> u64 {
        let fits = |&block: &u64| !self.block(block).stale[drive];
        let read = |block: u64| {
            thread::sleep(Duration::from_millis(1));
            let guard = self.block(block);
            self.read_from(drive, block, guard.version, Urgency::LatencyCritical)
        };
        (0..BLOCKS).filter(fits).take(reads as usize).filter(|&block| read(block)).count() as u64
    }

    /// The readers' counters.
    pub(crate) fn figures(&self) -> Vec<Figures> {
        (0..DRIVES).filter_map(|drive| Some(self.drive(drive)?.reader.figures())).collect()
    }

    /// Writes stale blocks again, and then verifies all blocks of each drive.
    pub(crate) fn repair_and_verify(&self) {
        for number in 0..BLOCKS {
            let mut block = self.block(number);
            for drive in 0..DRIVES {
                if block.stale[drive] {
                    assert!(self.write_to(drive, number, block.version), "drive {drive}");
                    block.stale[drive] = false;
                    self.done.repaired.fetch_add(1, Relaxed);
                }
                let came = self.read_from(drive, number, block.version, Urgency::None);
                assert!(came, "drive {drive}, block {number} cannot be read at the end");
            }
        }
    }
}
