//! Members that are replaced while they are used.
//!
//! What replaces a member gets its stripes one after the other, and all writes to those that it has
//! already: it is its twin up to there. So whichever of the two fails, the other one goes on: the
//! member alone, or the replacement as a member that is being rebuilt from there on.
//!
//! At the end the superblocks say first that the replacement has everything, and then that it is the
//! member and the other one has failed. Between the two a crash finds both complete.

use std::ops::Range;
use std::sync::Arc;

use trimtab_io::{Op, Request};
use trimtab_md::{DeviceRole, Superblock};
use trimtab_serve::Error;

use super::upkeep::is_noted;
use super::{Engine, warn};
use crate::member::MemberDevice;
use crate::metadata::Version;
use crate::slots::{Slot, SlotState};
use crate::tasks::{Rebuild, Replace};

impl Engine {
    /// A member is to be replaced by a device.
    pub(crate) fn replace_member(
        &mut self,
        member: &str,
        device: MemberDevice,
        uuid: trimtab_md::Uuid,
    ) -> Result<(), Error> {
        let role = self.role_to_replace(member)?;
        let superblock = self.superblock_of_new(&device, uuid)?;
        let place = self.free_place();
        self.slots[place] = Slot::new(device, SlotState::Replacing, superblock.data_offset);
        self.fill_to_replace(role, place, superblock);
        Ok(())
    }

    /// The device at this place, with this superblock, begins to replace a member.
    pub(super) fn fill_to_replace(&mut self, role: usize, place: usize, superblock: Superblock) {
        self.slots[place].state = SlotState::Replacing;
        _ = self.metadata.admit_replacement(place, role, superblock);
        self.begin_replace(Replace { role, place, next: 0 });
    }

    /// The role of a member that can be replaced now.
    pub(crate) fn role_to_replace(&self, member: &str) -> Result<usize, Error> {
        let role = self.place_named(member)?;
        if self.redundancy() == 0 {
            let level = self.layout.level();
            return Err(Error::BadInput(format!("{level} cannot take members in")));
        }
        if self.logs.is_some() {
            let why = "with partial parity logs no member is replaced while it is used; have a \
                       spare, and fail the member (`trimtab array add`, `fail`)";
            return Err(Error::BadInput(why.to_owned()));
        }
        if self.has_failed() {
            return Err(Error::Failed("too many members have failed".to_owned()));
        }
        if role >= self.layout.members() || self.slots[role].state != SlotState::Active {
            let why = "is no active member: what is missing is added (`trimtab array add`)";
            return Err(Error::BadInput(format!("`{member}` {why}")));
        }
        if self.tasks.replace().is_some() {
            return Err(Error::Failed(
                "another member is being replaced: wait for that".to_owned(),
            ));
        }
        Ok(role)
    }

    /// A place behind the members that nothing has.
    pub(super) fn free_place(&mut self) -> usize {
        let is_free = |slot: &Slot| slot.state == SlotState::Missing && slot.device.is_none();
        let members = self.layout.members();
        match self.slots[members..].iter().position(is_free) {
            Some(place) => members + place,
            None => {
                self.slots.push(Slot::default());
                self.slots.len() - 1
            }
        }
    }

    pub(super) fn begin_replace(&mut self, replace: Replace) {
        self.tasks.begin_replace(replace);
        self.finish_replace_at_the_end(replace);
    }

    /// What else gets a request to a member, and where its data begin.
    pub(super) fn twin_of(
        &self,
        role: usize,
        request: &Request,
    ) -> Option<(Arc<MemberDevice>, u64)> {
        let replace = self.tasks.replace().filter(|replace| replace.role == role)?;
        let is_meant = match request.op {
            Op::Read => false,
            Op::Write | Op::Discard => self.layout.stripe_at(request.offset).0 < replace.next,
            Op::Flush => true,
        };
        let slot = &self.slots[replace.place];
        let device = slot.device.clone().filter(|_| is_meant)?;
        Some((device, slot.data_offset))
    }

    /// What replaces a member did not do what both were asked for. A member that it has become
    /// meanwhile fails by its own answer.
    pub(super) fn twin_failed(&mut self, place: usize) {
        if self.slots[place].state == SlotState::Replacing {
            self.fail_extra(place, "a write failed".to_owned());
        }
    }

    /// A device behind the members is not used any more.
    pub(super) fn fail_extra(&mut self, place: usize, why: String) {
        if !self.slots[place].state.is_used() {
            return;
        }
        warn(format_args!("{} is not used any more: {why}", self.name(place)));
        let slot = &mut self.slots[place];
        (slot.state, slot.why) = (SlotState::Failed, Some(why));
        self.given_up.extend(slot.device.clone());
        if self.tasks.replace().is_some_and(|replace| replace.place == place) {
            self.tasks.end_replace();
            self.replace_ends = None;
        }
        if !self.has_failed() {
            self.failure = Some(self.metadata.forget(place, DeviceRole::Faulty));
        }
    }

    /// A device that was replaced is not waited for any more.
    pub(super) fn fail_leaving(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        (slot.state, slot.why) = (SlotState::Failed, Some("by command".to_owned()));
        self.given_up.extend(slot.device.clone());
    }

    /// Lets go of a device that was replaced, when nothing is in flight to it.
    pub(super) fn release(&mut self, place: usize) {
        let slot = &self.slots[place];
        if slot.state == SlotState::Leaving && slot.in_flight == 0 {
            self.slots[place] = Slot::default();
        }
    }

    /// A window of the member has been copied, or could not be.
    pub(super) fn window_replaced(
        &mut self,
        replace: Replace,
        stripes: &Range<u64>,
        lost: Option<String>,
    ) {
        if let Some(why) = lost {
            self.fail_extra(replace.place, format!("it cannot be filled: {why}"));
            return;
        }
        self.tasks.replaced(stripes);
        let chunk = self.layout.chunk();
        if is_noted(stripes.start * chunk, stripes.end * chunk) {
            _ = self.metadata.rebuilt(replace.place, Some(stripes.end * chunk));
        }
        self.finish_replace_at_the_end(Replace { next: stripes.end, ..replace });
    }

    fn finish_replace_at_the_end(&mut self, replace: Replace) {
        if replace.next == self.layout.stripes() {
            self.replace_ends = Some(self.metadata.rebuilt(replace.place, None));
        }
    }

    /// What has everything becomes the member when the superblocks say so.
    pub(super) fn replace_noted(&mut self) {
        let Some(version) = self.replace_ends else { return };
        let Some(Replace { role, place, .. }) = self.tasks.replace() else { return };
        if !self.metadata.is_written(version) {
            return;
        }
        let (before, after) = (self.name(role), self.name(place));
        let version = self.swap(role, place, SlotState::Active, SlotState::Leaving);
        // Until they do so, a crash makes the old device the member again: nothing may be on the new one
        // only.
        self.failure = Some(version);
        warn(format_args!("{before} has been replaced by {after}"));
        self.release(place);
    }

    /// A member has failed: what was to replace it is a member from now on, and is rebuilt from
    /// where it was.
    pub(super) fn replacement_takes_over(&mut self, role: usize) {
        let replace = self.tasks.replace().filter(|replace| replace.role == role);
        let Some(Replace { place, next, .. }) = replace else { return };
        if self.tasks.rebuild().is_some() || self.rebuild_ends.is_some() {
            // One member is rebuilt at a time: it waits for that.
            self.becomes_spare(place);
            return;
        }
        let why = self.slots[role].why.take();
        _ = self.swap(role, place, SlotState::Rebuilding, SlotState::Failed);
        self.slots[place].why = why;
        self.begin_rebuild(Rebuild { role, next, by_bitmap: false });
        if next == self.layout.stripes() {
            self.stripes_rebuilt(role, next, next);
        }
    }

    /// A member and what replaces it change their places: when the superblocks say so.
    fn swap(&mut self, role: usize, place: usize, new: SlotState, old: SlotState) -> Version {
        self.tasks.end_replace();
        self.replace_ends = None;
        self.slots.swap(role, place);
        (self.slots[role].state, self.slots[place].state) = (new, old);
        self.metadata.take_over(role, place)
    }
}
