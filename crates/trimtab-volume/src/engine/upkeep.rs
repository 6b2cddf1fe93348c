//! What is done beside requests: metadata, bits that are cleared, and windows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trimtab_array::Member;
use trimtab_io::{Nanos, monotonic};
use trimtab_md::Recovery;

use super::{Engine, Fatal, warn};
use crate::keeper::{self, Written};
use crate::member::MemberDevice;
use crate::metadata::{Version, timestamp};
use crate::slots::SlotState;
use crate::tasks::{Rebuild, Replace, Work};
use crate::windows::{WindowDone, WindowJob};

/// The time between two rounds in which bits are cleared, if no bitmap says it.
const ROUND_S: u32 = 5;
/// Bytes of a member that are rebuilt between two notes of how far it is.
const NOTED: u64 = 256 << 20;

/// Whether it is noted that a member has been rebuilt from one byte to another one.
pub(super) const fn is_noted(from: u64, to: u64) -> bool {
    from / NOTED != to / NOTED
}

impl Engine {
    pub(super) fn upkeep(&mut self) -> Result<(), Fatal> {
        if self.now >= self.next_round {
            let bitmap = self.metadata.bitmap();
            let seconds = bitmap.map_or(ROUND_S, |bitmap| bitmap.header().clear_interval_s);
            self.next_round = self.now + Nanos::from_secs(seconds.into());
            self.round(false);
        }
        self.answer_held();
        self.logs_go_on()?;
        self.begin_waiting()?;
        if self.slots.len() > self.layout.members() {
            self.take_spare();
        }
        self.schedule();
        self.write_metadata();
        Ok(())
    }

    /// Clears bits of regions that have been quiet, and notes that the members agree when none is
    /// set. Not without all members: those that come back need the bits.
    fn round(&mut self, at_once: bool) {
        if self.redundancy() == 0 || self.has_failed() {
            return;
        }
        if self.degraded() > 0 {
            // Those that are there agree when nothing is written.
            let written = self.figures.writes.requests;
            let is_quiet = std::mem::replace(&mut self.written_before, written) == written;
            if is_quiet && self.is_quiet() && self.shared.regions().is_synced() {
                self.note_agreement();
            }
            return;
        }
        let mut regions = self.shared.regions();
        for range in regions.round(at_once) {
            self.metadata.settle(range);
        }
        if regions.is_clean() && self.waiting.is_empty() && self.held.is_empty() {
            self.doubts = false;
            self.metadata.set_dirty(false);
        }
    }

    /// Notes that the members agree. Not while what is computed for one that is missing may be wrong: who
    /// assembles the array next would not be told.
    fn note_agreement(&mut self) {
        if !self.doubts || self.degraded() == 0 {
            self.metadata.set_dirty(false);
        }
    }

    /// Whether no write is in flight or waits.
    fn is_quiet(&self) -> bool {
        self.waiting.is_empty() && self.tasks.is_quiet(&(0..self.layout.stripes()))
    }

    /// The members that metadata are written to.
    fn devices(&self) -> Vec<Option<Arc<MemberDevice>>> {
        let all = self.slots.iter();
        all.map(|slot| slot.device.clone().filter(|_| slot.state.is_used())).collect()
    }

    /// Has changed metadata written.
    fn write_metadata(&mut self) {
        if let Some(job) = self.metadata.take_job(timestamp()) {
            self.keeper.give((job, self.devices()));
        }
    }

    /// Metadata have been written.
    pub(crate) fn metadata_written(
        &mut self,
        version: Version,
        all: bool,
        written: Written,
    ) -> Result<(), Fatal> {
        if written.is_nothing {
            let ranges = self.metadata.not_written(all);
            self.mark(&ranges);
        } else {
            self.metadata.written(version);
        }
        for (device, why) in written.failed {
            self.fail_device(&device, why);
        }
        self.rebuild_noted();
        self.replace_noted();
        self.upkeep()
    }

    /// Begins the next window, or its work.
    fn schedule(&mut self) {
        let is_busy = {
            let regions = self.shared.regions();
            if self.redundancy() == 0 || self.has_failed() {
                // Writes that wait for it fail like the others.
                self.tasks.withdraw();
                return;
            }
            if !self.tasks.has_window()
                && let Some((role, stripes)) = self.tasks.skipped(&self.layout, &regions)
            {
                drop(regions);
                self.stripes_rebuilt(role, stripes.start, stripes.end);
                return self.schedule();
            }
            if !self.tasks.has_window()
                && self.now >= self.tasks.next(&self.layout, &regions)
                && self.is_open
            {
                self.tasks.choose(self.now, &self.layout, &regions);
            }
            self.tasks.is_busy(&self.layout, &regions)
        };
        self.tasks.is_working = is_busy;
        self.shared.keeps_still.store(is_busy, Ordering::Relaxed);
        let is_refreshing = self.planner.refreshing() > 0;
        let Some(window) = self.tasks.window() else { return };
        let (work, stripes) = (window.work, window.stripes.clone());
        if window.is_sent || is_refreshing || !self.tasks.is_quiet(&stripes) {
            return;
        }
        if let Some(window) = self.tasks.window() {
            window.is_sent = true;
        }
        self.tasks.pace.begin(self.now);
        let with_offset = |place: usize, state: SlotState| {
            let slot = &self.slots[place];
            let device = slot.device.as_ref().filter(|_| slot.state == state)?;
            Some((Arc::downgrade(device), slot.data_offset))
        };
        let as_role = |role: usize, place: usize, state: SlotState| {
            with_offset(place, state).map(|(device, data_offset)| (role, device, data_offset))
        };
        let members = (0..self.layout.members()).map(|role| with_offset(role, SlotState::Active));
        let replace = self.tasks.replace();
        let of_replace =
            |replace: Replace| as_role(replace.role, replace.place, SlotState::Replacing);
        self.windows.give(WindowJob {
            layout: self.layout,
            members: members.collect(),
            target: match work {
                Work::Rebuild { role } => as_role(role, role, SlotState::Rebuilding),
                Work::Replace { .. } => replace.and_then(of_replace),
                _ => None,
            },
            is_copy: matches!(work, Work::Replace { .. }),
            // It has nothing to lose behind what it has already.
            twin: replace.filter(|replace| stripes.start < replace.next).and_then(of_replace),
            stripes,
            fixes: matches!(work, Work::Resync | Work::Check { repairs: true }),
        });
    }

    /// A window's work has been done.
    pub(crate) fn window_done(&mut self, done: WindowDone) -> Result<(), Fatal> {
        let WindowDone { mismatches, corrected, failed, lost } = done;
        self.windows.ended();
        for role in corrected {
            warn(format_args!("{}: what could not be read was written again", self.name(role)));
            self.metadata.corrected(role);
            self.slots[role].counted.corrected(self.now);
        }
        let has_failed = |place: usize| failed.iter().any(|one| self.slots[place].has(&one.0));
        let Some(window) = self.tasks.end_window(monotonic(), &self.layout) else {
            return Ok(());
        };
        if let Some(why) = &lost {
            warn(format_args!("too little can be read: {why}"));
        }
        match window.work {
            Work::Correct | Work::Abandoned => {}
            Work::Resync => {
                self.figures.resynced(mismatches);
                let is_whole = self.degraded() == 0;
                let mut regions = self.shared.regions();
                self.tasks.resynced(&window.stripes, &self.layout, &mut regions);
                // Where a member was lost meanwhile nothing is equal by that.
                if regions.is_synced() && is_whole {
                    self.metadata.resynced();
                }
            }
            Work::Check { repairs } => {
                let unreadable = u64::from(lost.is_some());
                self.tasks.checked(&window.stripes, mismatches, unreadable, &self.layout);
                if mismatches > 0 && !repairs {
                    warn(format_args!("{mismatches} stripes of {:?} do not fit", window.stripes));
                }
            }
            Work::Rebuild { role } if self.slots[role].state == SlotState::Rebuilding => match lost
            {
                Some(why) => self.fail(role, format!("it cannot be rebuilt: {why}")),
                None if has_failed(role) => {}
                None => self.stripes_rebuilt(role, window.stripes.start, window.stripes.end),
            },
            Work::Rebuild { .. } => {}
            Work::Replace { role } => match self.tasks.replace() {
                Some(replace) if replace.role == role && !has_failed(replace.place) => {
                    self.window_replaced(replace, &window.stripes, lost);
                }
                // It has failed, or is a member now: it is rebuilt from there on.
                _ => {}
            },
        }
        for (device, why) in failed {
            self.fail_device(&device, why);
        }
        self.upkeep()
    }

    /// A member is to be rebuilt.
    pub(crate) fn begin_rebuild(&mut self, rebuild: Rebuild) {
        self.tasks.begin_rebuild(rebuild);
        self.planner.rebuilt(Member(rebuild.role as u8), rebuild.next);
    }

    pub(super) fn stripes_rebuilt(&mut self, role: usize, start: u64, end: u64) {
        self.planner.rebuilt(Member(role as u8), end);
        self.tasks.rebuilt(&(start..end));
        let chunk = self.layout.chunk();
        if end == self.layout.stripes() {
            self.rebuild_ends = Some((role, self.metadata.rebuilt(role, None)));
            self.tasks.end_rebuild();
        } else if is_noted(start * chunk, end * chunk) {
            _ = self.metadata.rebuilt(role, Some(end * chunk));
        }
    }

    /// A member is used again when the superblocks say that it has everything.
    fn rebuild_noted(&mut self) {
        let Some((role, version)) = self.rebuild_ends else { return };
        if !self.metadata.is_written(version) {
            return;
        }
        self.rebuild_ends = None;
        if self.slots[role].state == SlotState::Rebuilding {
            self.slots[role].state = SlotState::Active;
            self.planner.regain(Member(role as u8));
            warn(format_args!("{} has been rebuilt", self.name(role)));
        }
    }

    /// Notes that the array was stopped in order. Nothing is in flight.
    pub(super) fn close(&mut self) {
        let devices = self.devices();
        for device in devices.iter().flatten() {
            if let Err(error) = device.sync() {
                // The bits stay: after the next start their regions are resynchronised.
                warn(format_args!("{}: a flush failed: {error}", device.path.display()));
                return;
            }
        }
        if self.has_failed() || self.redundancy() == 0 {
            return;
        }
        self.round(true);
        if let Some(Rebuild { role, next, .. }) = self.tasks.rebuild() {
            _ = self.metadata.rebuilt(role, Some(next * self.layout.chunk()));
        }
        if let Some(Replace { place, next, .. }) = self.tasks.replace()
            && self.replace_ends.is_none()
        {
            _ = self.metadata.rebuilt(place, Some(next * self.layout.chunk()));
        }
        if self.shared.regions().is_synced() {
            // Degraded: the bits stay for members that come back, but those that are there agree.
            self.note_agreement();
        }
        if let Some(job) = self.metadata.take_job(timestamp()) {
            for (device, why) in keeper::write(&job, &devices).failed {
                warn(format_args!("{}: {why}", device.path.display()));
            }
        }
    }

    /// How far a device has been filled, bytes.
    pub(crate) fn rebuilt_bytes(&self, place: usize) -> Option<u64> {
        let superblock = self.metadata.superblock(place)?;
        let Recovery { done_to, .. } = superblock.recovery?;
        let rebuild = self.tasks.rebuild().filter(|rebuild| rebuild.role == place);
        let replace = self.tasks.replace().filter(|replace| replace.place == place);
        let next = rebuild.map(|one| one.next).or(replace.map(|one| one.next));
        Some(next.map_or(done_to, |next| next * self.layout.chunk()))
    }
}
