//! What a drive has taken and not yet made durable: its volatile write cache, as a power
//! cut sees it.
//!
//! Content changes at once when a write comes. What was there before is kept here, in
//! order of the writes, until a flush that came after the write is answered. A power cut
//! goes through the log from the newest write to the oldest, and puts back what was there
//! before those writes, or parts of writes, that it loses. A sector that a newer write
//! keeps stays as it is; so what is left of each sector is the newest of its writes that
//! was kept, or what was flushed.
//!
//! The log holds so many bytes at most. Beyond that the oldest writes count as durable: a
//! drive's cache writes back too when it is full.

use std::collections::{BTreeMap, HashSet, VecDeque};

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::content::Payload;

/// Of each eight writes that are not flushed, a power cut keeps and loses so many whole;
/// of the others it keeps a part.
const KEPT_OF_8: u32 = 3;
const LOST_OF_8: u32 = 3;

/// What a power cut has done to the writes that were not flushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Writes that are there all the same.
    pub kept: u64,
    /// Writes of which nothing is there.
    pub lost: u64,
    /// Writes of which some sectors are there.
    pub torn: u64,
}

/// A write, by what it replaced.
struct Entry {
    offset: u64,
    before: Payload,
}

impl Entry {
    fn length(&self) -> u64 {
        self.before.bytes().len() as u64
    }
}

/// The writes since what was flushed last.
pub(super) struct UndoLog {
    entries: VecDeque<Entry>,
    /// The number of the first of them, of all that there ever were.
    first: u64,
    bytes: u64,
    limit: u64,
}

/// Sectors as they are to be again: where they begin, and what was there.
pub(super) type Before = BTreeMap<u64, Box<[u8]>>;

impl UndoLog {
    pub(super) const fn new(limit: u64) -> Self {
        Self { entries: VecDeque::new(), first: 0, bytes: 0, limit }
    }

    /// Bytes that were written and not flushed, and the most there may be.
    pub(super) const fn used(&self) -> (u64, u64) {
        (self.bytes, self.limit)
    }

    /// A write comes, to where `before` is.
    pub(super) fn record(&mut self, offset: u64, before: Payload) {
        let entry = Entry { offset, before };
        self.bytes += entry.length();
        self.entries.push_back(entry);
        while self.bytes > self.limit {
            self.forget_oldest();
        }
    }

    /// Where a flush that comes now stands among the writes.
    pub(super) fn mark(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// What was written before the mark is durable.
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

    /// The power goes: draws what is lost, and forgets all writes. The same writes and
    /// the same seed lose the same sectors.
    pub(super) fn lose(&mut self, seed: u64, sector: usize) -> (Before, Loss) {
        let (mut before, mut kept, mut loss) = (Before::new(), HashSet::new(), Loss::default());
        for (number, entry) in self.entries.iter().enumerate().rev() {
            let bytes = entry.before.bytes();
            // By its place among the writes, so that later ones change nothing in it.
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
                    // Of two that are lost the older one says what was there.
                    before.insert(at, old.into());
                }
            }
        }
        self.commit(self.mark());
        (before, loss)
    }
}

/// What becomes of one write.
enum Fate {
    Kept,
    Lost,
    /// As many sectors are there as were written first.
    CutOff(usize),
    /// Each sector is there or not.
    Scattered(Pcg64),
}

impl Fate {
    fn draw(seed: u64, sectors: usize, loss: &mut Loss) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        // A single sector is there or not.
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

    /// Whether it keeps this sector; asked for each once, in their order.
    fn keeps(&mut self, index: usize) -> bool {
        match self {
            Self::Kept => true,
            Self::Lost => false,
            Self::CutOff(first) => index < *first,
            Self::Scattered(random) => random.random_bool(0.5),
        }
    }
}
