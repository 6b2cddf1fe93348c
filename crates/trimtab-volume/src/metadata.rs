//! What the members' metadata are to say, and how far they do.
//!
//! Everything here is a state machine: changes are collected, [`Metadata::take_job`] gives what has to
//! be written next, and a thread writes it (keeper.rs). Until then what depends on it waits: a write
//! for its bit in the bitmap, an answer for the superblocks that say which member has failed.

use std::ops::Range;

use trimtab_md::{Bitmap, Consistency, DeviceRole, Recovery, Superblock, Timestamp};

/// A number of changes: what was changed up to there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u64);

/// What has to be written to the members.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) version: Version,
    /// By place; none where nothing is written.
    pub(crate) superblocks: Vec<Option<Superblock>>,
    pub(crate) bitmap: Option<Bitmap>,
    /// Whether superblocks are written, or the bitmap alone.
    pub(crate) all: bool,
    /// Data must be on stable storage on all members before anything is written.
    pub(crate) sync_first: bool,
}

impl Job {
    /// Whether it has something for the device at this place.
    pub(crate) fn has(&self, place: usize) -> bool {
        self.superblocks.get(place).is_some_and(Option::is_some)
    }
}

/// The metadata of an array.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// By place, of the devices that are there.
    superblocks: Vec<Option<Superblock>>,
    bitmap: Option<Bitmap>,
    events: u64,
    /// The superblocks say that members may differ.
    is_dirty: bool,
    /// A resync that an earlier server began goes on from where it was. What is written from now on may differ before
    /// that as well, and without a bitmap or logs nothing else will say so.
    resumes: bool,
    changed: Version,
    written: Version,
    /// The last change that a write can wait for: a bit that was set, or that members may differ.
    marked: Version,
    /// What changed since the last job.
    superblocks_changed: bool,
    sync_first: bool,
    is_busy: bool,
    /// Ranges whose bits were cleared since the last job, and those of that job while it runs.
    settled: Vec<Range<u64>>,
    settling: Vec<Range<u64>>,
}

impl Metadata {
    pub(crate) fn new(superblocks: Vec<Option<Superblock>>, bitmap: Option<Bitmap>) -> Self {
        let events = superblocks.iter().flatten().map(|one| one.events).max().unwrap_or(1);
        let is_dirty = superblocks.iter().flatten().any(|one| one.in_sync_to.is_some());
        let is_begun = |one: &Superblock| one.in_sync_to.is_some_and(|bytes| bytes > 0);
        let resumes = bitmap.is_none()
            && superblocks.iter().flatten().any(|one| one.ppl_at().is_none() && is_begun(one));
        Self {
            superblocks,
            bitmap,
            events,
            is_dirty,
            resumes,
            changed: Version(0),
            written: Version(0),
            marked: Version(0),
            superblocks_changed: false,
            sync_first: false,
            is_busy: false,
            settled: Vec::new(),
            settling: Vec::new(),
        }
    }

    pub(crate) const fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    pub(crate) fn is_written(&self, version: Version) -> bool {
        self.written >= version
    }

    pub(crate) const fn bitmap(&self) -> Option<&Bitmap> {
        self.bitmap.as_ref()
    }

    pub(crate) fn superblock(&self, place: usize) -> Option<&Superblock> {
        self.superblocks.get(place)?.as_ref()
    }

    /// Superblocks are to be written.
    fn touch(&mut self) -> Version {
        self.changed.0 += 1;
        if !self.superblocks_changed {
            self.superblocks_changed = true;
            self.events += 1;
        }
        self.changed
    }

    /// The superblocks are to say whether members may differ. That they do not is written when all data
    /// are on stable storage.
    pub(crate) fn set_dirty(&mut self, is_dirty: bool) -> Version {
        if self.is_dirty == is_dirty {
            return self.changed;
        }
        (self.is_dirty, self.resumes) = (is_dirty, false);
        self.sync_first |= !is_dirty;
        self.set_in_sync_to(is_dirty.then_some(0));
        self.touch()
    }

    fn set_in_sync_to(&mut self, bytes: Option<u64>) {
        self.superblocks.iter_mut().flatten().for_each(|one| one.in_sync_to = bytes);
    }

    /// All of the members has been resynchronised. With partial parity logs the superblocks say that:
    /// from now on the logs have all that may differ.
    pub(crate) fn resynced(&mut self) {
        let is_waiting = |one: &Superblock| {
            one.ppl_at().is_some() && one.in_sync_to.is_some_and(|bytes| bytes > 0)
        };
        if !self.superblocks.iter().flatten().any(is_waiting) {
            return;
        }
        self.set_in_sync_to(Some(0));
        self.sync_first = true;
        self.touch();
    }

    /// The superblocks say what was recovered, which has not been written yet.
    pub(crate) fn recovered(&mut self) {
        self.touch();
    }

    /// A write to this range of the members is to begin. Returns what must be written before.
    pub(crate) fn intend(&mut self, range: Range<u64>) -> Version {
        if !self.is_dirty {
            self.marked = self.set_dirty(true);
        } else if std::mem::take(&mut self.resumes) {
            self.set_in_sync_to(Some(0));
            self.marked = self.touch();
        }
        let marked = self.bitmap.as_mut().and_then(|bitmap| bitmap.mark(range));
        if marked.is_some() {
            self.changed.0 += 1;
            self.marked = self.changed;
        }
        self.marked
    }

    /// The members have the same in a range again, and nothing is written there.
    pub(crate) fn settle(&mut self, range: Range<u64>) {
        let Some(bitmap) = &mut self.bitmap else { return };
        if bitmap.clear(range.clone()).is_some() {
            self.settled.push(range);
            bitmap.set_events_cleared(self.events);
            self.changed.0 += 1;
            self.sync_first = true;
        }
    }

    /// A device is not used any more. `role`: what the others say that it is.
    pub(crate) fn forget(&mut self, place: usize, role: DeviceRole) -> Version {
        let gone = self.superblocks.get_mut(place).and_then(Option::take);
        let Some(gone) = gone else { return self.changed };
        self.set_role(gone.device_number, role);
        self.touch()
    }

    fn set_role(&mut self, device_number: u32, role: DeviceRole) {
        for superblock in self.superblocks.iter_mut().flatten() {
            if let Some(place) = superblock.roles.get_mut(device_number as usize) {
                *place = role;
            }
        }
    }

    /// What no member that is there is called: roles that nothing has any more.
    pub(crate) fn forget_absent(&mut self) {
        let present: Vec<u32> =
            self.superblocks.iter().flatten().map(|one| one.device_number).collect();
        let Some(first) = self.superblocks.iter().flatten().next() else { return };
        let is_absent = |number: &usize| !present.contains(&(*number as u32));
        let all = first.roles.iter().enumerate();
        let stale: Vec<usize> = all
            .filter(|(_, role)| role.index().is_some())
            .map(|(number, _)| number)
            .filter(is_absent)
            .collect();
        for &number in &stale {
            self.set_role(number as u32, DeviceRole::Spare);
        }
        if !stale.is_empty() {
            self.touch();
        }
    }

    /// A number for a new device: one that no device has.
    pub(crate) fn free_number(&self) -> Option<u32> {
        let first = self.superblocks.iter().flatten().next()?;
        let (members, all) = (first.raid_disks, first.roles.len() as u32);
        (members..all).find(|&number| self.is_free(number))
    }

    /// Whether no device has this number.
    pub(crate) fn is_free(&self, number: u32) -> bool {
        let mut all = self.superblocks.iter().flatten();
        let has_role = |one: &Superblock| one.role_of(number) != DeviceRole::Spare;
        !all.any(|one| one.device_number == number || has_role(one))
    }

    /// A device takes a role, to be rebuilt from the first byte on.
    pub(crate) fn admit(&mut self, member: usize, mut superblock: Superblock) -> Version {
        superblock.recovery = Some(Recovery { done_to: 0, by_bitmap: false });
        superblock.is_replacement = false;
        self.enter(member, DeviceRole::Active(member as u16), superblock)
    }

    /// A device at this place is to replace the member, and has nothing yet.
    pub(crate) fn admit_replacement(
        &mut self,
        place: usize,
        member: usize,
        mut superblock: Superblock,
    ) -> Version {
        superblock.recovery = Some(Recovery { done_to: 0, by_bitmap: false });
        superblock.is_replacement = true;
        self.enter(place, DeviceRole::Active(member as u16), superblock)
    }

    /// A device at this place waits until a member fails.
    pub(crate) fn admit_spare(&mut self, place: usize, mut superblock: Superblock) -> Version {
        superblock.recovery = None;
        superblock.is_replacement = false;
        self.enter(place, DeviceRole::Spare, superblock)
    }

    /// What was at this place, if anything, to be admitted in another role.
    pub(crate) fn take(&mut self, place: usize) -> Option<Superblock> {
        self.superblocks.get_mut(place)?.take()
    }

    fn enter(&mut self, place: usize, role: DeviceRole, mut superblock: Superblock) -> Version {
        if let Some(other) = self.superblocks.iter().flatten().next() {
            superblock.in_sync_to = other.in_sync_to;
            superblock.roles.clone_from(&other.roles);
        }
        if place >= self.superblocks.len() {
            self.superblocks.resize_with(place + 1, || None);
        }
        let number = superblock.device_number;
        self.superblocks[place] = Some(superblock);
        self.set_role(number, role);
        self.touch()
    }

    /// The replacement at this place becomes the member, with as much as it has; the one before, if
    /// it is still there, is faulty.
    pub(crate) fn take_over(&mut self, member: usize, place: usize) -> Version {
        _ = self.forget(member, DeviceRole::Faulty);
        let Some(mut superblock) = self.take(place) else { return self.changed };
        superblock.is_replacement = false;
        self.superblocks[member] = Some(superblock);
        self.touch()
    }

    /// A device has been filled up to this byte; none: it has everything. Data are on stable storage
    /// before that is written.
    pub(crate) fn rebuilt(&mut self, place: usize, done_to: Option<u64>) -> Version {
        if let Some(superblock) = self.superblocks.get_mut(place).and_then(Option::as_mut) {
            superblock.recovery = done_to.map(|done_to| Recovery { done_to, by_bitmap: false });
        }
        self.sync_first = true;
        self.touch()
    }

    /// A read of this member was corrected by writing.
    pub(crate) fn corrected(&mut self, member: usize) {
        if let Some(superblock) = &mut self.superblocks[member] {
            superblock.corrected_reads = superblock.corrected_reads.saturating_add(1);
        }
    }

    /// What has to be written, if anything, and nothing is being written.
    pub(crate) fn take_job(&mut self, now: Timestamp) -> Option<Job> {
        if self.is_busy || self.written == self.changed {
            return None;
        }
        self.is_busy = true;
        self.settling = std::mem::take(&mut self.settled);
        let all = std::mem::take(&mut self.superblocks_changed);
        if all {
            for superblock in self.superblocks.iter_mut().flatten() {
                superblock.events = self.events;
                superblock.updated = now;
            }
            if let Some(bitmap) = &mut self.bitmap {
                bitmap.set_events(self.events);
            }
        }
        Some(Job {
            version: self.changed,
            superblocks: self.superblocks.clone(),
            bitmap: self.bitmap.clone(),
            all,
            sync_first: std::mem::take(&mut self.sync_first),
        })
    }

    /// A job has been carried out.
    pub(crate) fn written(&mut self, version: Version) {
        self.written = version;
        self.settling.clear();
        self.is_busy = false;
    }

    /// A job, of superblocks too if `all`, could not even begin: it has to be done again. Returns the
    /// ranges whose bits are set again: a member may not have on stable storage what was written there.
    pub(crate) fn not_written(&mut self, all: bool) -> Vec<Range<u64>> {
        self.sync_first = true;
        self.superblocks_changed |= all;
        self.is_busy = false;
        let ranges = std::mem::take(&mut self.settling);
        self.mark_again(&ranges);
        ranges
    }

    /// A member has failed. Returns the ranges whose bits are set again that no job has cleared yet: the
    /// flush before that comes too late for this member.
    pub(crate) fn unsettle(&mut self) -> Vec<Range<u64>> {
        let ranges = std::mem::take(&mut self.settled);
        self.mark_again(&ranges);
        ranges
    }

    fn mark_again(&mut self, ranges: &[Range<u64>]) {
        if let Some(bitmap) = &mut self.bitmap {
            ranges.iter().for_each(|range| _ = bitmap.mark(range.clone()));
        }
    }

    /// Whether nothing has to be written.
    pub(crate) fn is_settled(&self) -> bool {
        !self.is_busy && self.written == self.changed
    }
}

/// The bytes that a bit of the array's bitmap covers. An array without one is treated as if it had one
/// in memory.
pub(crate) fn region_bytes(superblock: &Superblock, bitmap: Option<&Bitmap>) -> u64 {
    const DEFAULT: u64 = 64 << 20;
    match (superblock.consistency, bitmap) {
        (Consistency::Bitmap { .. }, Some(bitmap)) => bitmap.header().chunk,
        _ => DEFAULT,
    }
}

/// The time, as superblocks have it.
pub(crate) fn timestamp() -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    Timestamp { seconds: now.as_secs(), microseconds: now.subsec_micros() }
}

#[cfg(test)]
mod tests;
