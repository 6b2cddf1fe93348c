//! Devices that wait until a member fails.

use std::path::Path;

use trimtab_md::{DeviceRole, Uuid};
use trimtab_serve::Error;

use super::{Engine, warn};
use crate::member::MemberDevice;
use crate::slots::{Slot, SlotState};
use crate::tasks::Rebuild;

impl Engine {
    /// A device becomes a spare. If a member is missing it takes its place at once.
    pub(crate) fn add_member(&mut self, device: MemberDevice, uuid: Uuid) -> Result<(), Error> {
        self.check_takes_in()?;
        let superblock = self.superblock_of_new(&device, uuid)?;
        let place = self.free_place();
        self.slots[place] = Slot::new(device, SlotState::Spare, superblock.data_offset);
        _ = self.metadata.admit_spare(place, superblock);
        Ok(())
    }

    /// Whether the array can take a device in.
    pub(crate) fn check_takes_in(&self) -> Result<(), Error> {
        if self.redundancy() == 0 {
            let level = self.layout.level();
            return Err(Error::BadInput(format!("{level} cannot take members in")));
        }
        if self.has_failed() {
            return Err(Error::Failed("too many members have failed".to_owned()));
        }
        Ok(())
    }

    /// A spare is to be let go of: it is used no more.
    pub(super) fn retire_spare(&mut self, place: usize) {
        let slot = &mut self.slots[place];
        (slot.state, slot.why) = (SlotState::Failed, Some("removed".to_owned()));
        self.given_up.extend(slot.device.clone());
        _ = self.metadata.forget(place, DeviceRole::Spare);
    }

    /// A member is to be replaced by this device, if that is a spare.
    pub(crate) fn replace_by_spare(&mut self, member: &str, path: &Path) -> Result<bool, Error> {
        let role = self.role_to_replace(member)?;
        let is_it = |slot: &Slot| slot.state == SlotState::Spare && slot.is_at(path);
        let Some(place) = self.slots.iter().position(is_it) else { return Ok(false) };
        let Some(superblock) = self.metadata.take(place) else { return Ok(false) };
        self.fill_to_replace(role, place, superblock);
        Ok(true)
    }

    /// What was to replace a member waits as a spare.
    pub(super) fn becomes_spare(&mut self, place: usize) {
        self.tasks.end_replace();
        self.replace_ends = None;
        if let Some(superblock) = self.metadata.take(place) {
            _ = self.metadata.admit_spare(place, superblock);
        }
        self.slots[place].state = SlotState::Spare;
    }

    /// A spare takes the place of a member that has failed or is missing, if there are both. One at a
    /// time: the next one when the rebuild has ended.
    pub(super) fn take_spare(&mut self) {
        if self.tasks.rebuild().is_some() || self.rebuild_ends.is_some() || self.has_failed() {
            return;
        }
        let is_lost = |slot: &Slot| matches!(slot.state, SlotState::Missing | SlotState::Failed);
        let Some(role) = self.members().iter().position(is_lost) else { return };
        let is_spare = |slot: &Slot| slot.state == SlotState::Spare;
        let Some(place) = self.slots.iter().position(is_spare) else { return };
        let Some(superblock) = self.metadata.take(place) else { return };
        self.slots.swap(role, place);
        self.slots[role].state = SlotState::Rebuilding;
        warn(format_args!("{} takes the place of member {role}", self.name(role)));
        _ = self.metadata.admit(role, superblock);
        self.begin_rebuild(Rebuild { role, next: 0, by_bitmap: false });
    }
}
