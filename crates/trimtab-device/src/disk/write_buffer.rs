//! Written data that is not on the platters yet.

use trimtab_io::Nanos;

use super::layout::nanos;
use super::profile::DiskProfile;

#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    /// Extents, sectors, in order of arrival; they do not overlap.
    dirty: Vec<(u64, u64)>,
    /// Sectors of all.
    held: u64,
    most: u64,
    /// When the last write came.
    last: Nanos,
    after: Nanos,
}

/// Extents longer than this are not extended, sectors: the arm is held by one at a time.
const MOST_EXTENT: u64 = 2048;

impl WriteBuffer {
    pub(super) fn new(profile: &DiskProfile, sector_bytes: u64) -> Self {
        Self {
            dirty: Vec::new(),
            held: 0,
            most: u64::from(profile.cache.write_kib) * 1024 / sector_bytes,
            last: Nanos::ZERO,
            after: Nanos(nanos(profile.cache.write_back_after_ms * 1e3)),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Whether it holds all of this range.
    pub(super) fn holds(&self, first: u64, end: u64) -> bool {
        self.dirty.iter().any(|&(from, to)| from <= first && end <= to)
    }

    /// Takes written data; false if there is no room.
    pub(super) fn add(&mut self, first: u64, end: u64, now: Nanos) -> bool {
        if self.held + (end - first) > self.most {
            return false;
        }
        self.last = now;
        let (mut first, mut end) = (first, end);
        let mut held = self.held;
        // Rewritten and adjacent data becomes one extent.
        self.dirty.retain(|&(from, to)| {
            let overlaps = from < end && first < to;
            let continues = to == first && to - from < MOST_EXTENT;
            if overlaps || continues {
                held -= to - from;
                (first, end) = (first.min(from), end.max(to));
            }
            !(overlaps || continues)
        });
        self.held = held + (end - first);
        self.dirty.push((first, end));
        true
    }

    /// When it is written back, if it holds anything.
    pub(super) fn due(&self, flush: bool) -> Option<Nanos> {
        let wait = if flush { Nanos::ZERO } else { self.after };
        (!self.dirty.is_empty()).then(|| self.last + wait)
    }

    /// Takes the extent nearest to a sector, to be written.
    pub(super) fn take(&mut self, near: u64) -> Option<(u64, u64)> {
        let nearest = (0..self.dirty.len()).min_by_key(|&i| self.dirty[i].0.abs_diff(near))?;
        let (first, end) = self.dirty.swap_remove(nearest);
        self.held -= end - first;
        Some((first, end))
    }
}
