//! The undo log of writes that are not flushed: a drive's volatile write cache, as a power cut sees
//! it.
//!
//! Content changes at once when a write arrives. The old data is logged here, in order of the
//! writes, until a flush that arrived after the write is answered. A power cut goes through the log
//! from the newest write to the oldest, and restores the old data of those writes, or parts of
//! writes, that it loses. A sector that a newer write keeps is not touched; so each sector ends as
//! the newest of its writes that was kept, or as it was flushed.
//!
//! The log is bounded in bytes. Beyond that the oldest writes count as durable: a drive's cache
//! writes back too when it is full.

use std::collections::{BTreeMap, HashSet, VecDeque};

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::content::Payload;

/// Of eight unflushed writes, a power cut keeps this number whole and loses this number whole; the
/// others are torn.
const KEPT_OF_8: u32 = 3;
const LOST_OF_8: u32 = 3;

/// The effect of a power cut on writes that were not flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PowerLoss {
    /// Writes kept whole.
    pub kept: u64,
    /// Writes lost whole.
    pub lost: u64,
    /// Writes of which some sectors were kept.
    pub torn: u64,
}

/// A write, with the data it replaced.
struct Entry {
    offset: u64,
    before: Payload,
}

impl Entry {
    fn length(&self) -> u64 {
        self.before.bytes().len() as u64
    }
}

/// The writes since the last flush.
pub(super) struct UndoLog {
    entries: VecDeque<Entry>,
    /// Number of the oldest entry, among all writes ever logged.
    first: u64,
    bytes: u64,
    limit: u64,
}

/// Sectors to restore: first byte and old data.
pub(super) type Before = BTreeMap<u64, Box<[u8]>>;

impl UndoLog {
    pub(super) const fn new(limit: u64) -> Self {
        Self { entries: VecDeque::new(), first: 0, bytes: 0, limit }
    }

    /// Bytes written and not flushed, and the most there may be.
    pub(super) const fn used(&self) -> (u64, u64) {
        (self.bytes, self.limit)
    }

    /// Logs a write that replaced `before`.
    pub(super) fn record(&mut self, offset: u64, before: Payload) {
        let entry = Entry { offset, before };
        self.bytes += entry.length();
        self.entries.push_back(entry);
        while self.bytes > self.limit {
            self.forget_oldest();
        }
    }

    /// The position of a flush that begins now.
    pub(super) fn mark(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Makes the writes before the mark durable.
    pub(super) fn commit(&mut self, mark: u64) {
        while self.first < mark && !self.entries.is_empty() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.bytes -= entry.length();
            self.first += 1;
        }
    }

    /// Draws what a power cut loses, and clears the log. The same writes and the same seed lose the
    /// same sectors.
    pub(super) fn lose(&mut self, seed: u64, sector: usize) -> (Before, PowerLoss) {
        let (mut before, mut kept, mut loss) =
            (Before::new(), HashSet::new(), PowerLoss::default());
        for (number, entry) in self.entries.iter().enumerate().rev() {
            let bytes = entry.before.bytes();
            // Seeded by its number, so that later writes do not change it.
            let draw = seed.wrapping_add((number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut fate = Fate::draw(draw, bytes.len() / sector, &mut loss);
            for (index, old) in bytes.chunks(sector).enumerate() {
                let at = entry.offset + (index * sector) as u64;
                let keeps = fate.keeps(index);
                if kept.contains(&at) {
                    continue;
                }
                if keeps {
                    kept.insert(at);
                } else {
                    // Of two lost writes, the older one has the data to restore.
                    before.insert(at, old.into());
                }
            }
        }
        self.commit(self.mark());
        (before, loss)
    }
}

/// The effect of a power cut on one write.
enum Fate {
    Kept,
    Lost,
    /// A prefix of its sectors is kept.
    CutOff(usize),
    /// Each sector is kept or not.
    Scattered(Pcg64),
}

impl Fate {
    fn draw(seed: u64, sectors: usize, loss: &mut PowerLoss) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        // A single sector cannot be torn.
        let of = if sectors > 1 { 8 } else { KEPT_OF_8 + LOST_OF_8 };
        let drawn = random.random_range(0..of);
        if drawn < KEPT_OF_8 {
            loss.kept += 1;
            Self::Kept
        } else if drawn < KEPT_OF_8 + LOST_OF_8 {
            loss.lost += 1;
            Self::Lost
        } else {
            loss.torn += 1;
            match random.random_bool(0.5) {
                true => Self::CutOff(random.random_range(1..sectors)),
                false => Self::Scattered(random),
            }
        }
    }

    /// Whether this sector is kept. To be called for each sector once, in order.
    fn keeps(&mut self, index: usize) -> bool {
        match self {
            Self::Kept => true,
            Self::Lost => false,
            Self::CutOff(first) => index < *first,
            Self::Scattered(random) => random.random_bool(0.5),
        }
    }
}
