//! Which of several devices make an array, and what it has to do first.

mod message;
mod replacements;
#[cfg(test)]
mod tests;

use trimtab_array::Level;

use crate::SuperblockError;
use crate::bitmap::Bitmap;
use crate::identity::Uuid;
use crate::superblock::{Consistency, DeviceRole, Superblock};

/// A device that may belong to the array.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What to call it in messages: its path.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its superblock, or what is wrong with it.
    pub superblock: Result<Superblock, SuperblockError>,
    /// Its bitmap, if it has one that can be read.
    pub bitmap: Option<Bitmap>,
}

/// What becomes of a device. [`Assembly::lines`] has a line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It is a member, and has all that was written.
    Fresh {
        /// Its index in the layout.
        role: usize,
    },
    /// It is a member that was being rebuilt, which goes on.
    Rebuilding {
        /// Its index in the layout.
        role: usize,
        /// Bytes that have been rebuilt.
        done_to: u64,
    },
    /// It was a member that is away since, and the bitmap has all that it missed: it can be taken
    /// back without copying all of it.
    Returning {
        /// Its index in the layout.
        role: usize,
        /// How many events it missed.
        behind: u64,
    },
    /// It was a member, and missed writes that no bitmap has. It can be added as a new one.
    Stale {
        /// How many events it missed.
        behind: u64,
    },
    /// The array has it as failed.
    Faulty,
    /// It waits until it is needed.
    Spare,
    /// It is to replace a member that is still there, and has a part of what that has, or all of it.
    Replacement {
        /// The index of the member in the layout.
        role: usize,
        /// Bytes that it has; none if it has everything.
        done_to: Option<u64>,
    },
    /// Another one says that it is the same device.
    Duplicate {
        /// The index of the other candidate.
        of: usize,
    },
    /// It belongs to another array.
    OtherArray {
        /// Which one.
        uuid: Uuid,
    },
    /// Its superblock says of the array what those of the others do not.
    Differs {
        /// In what.
        what: &'static str,
    },
    /// The device is smaller than its superblock says.
    TooSmall {
        /// Bytes that the superblock needs.
        needs: u64,
    },
    /// It has no superblock that can be used.
    Unusable(SuperblockError),
}

/// Whether the array can start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// All members are there.
    Complete,
    /// It can, without these members.
    Degraded {
        /// Their indices.
        missing: Vec<usize>,
    },
    /// Data may be wrong: md would not start it without `--force`. A write was under way when it
    /// stopped, and what is computed from its parities for these members may be wrong.
    DirtyDegraded {
        /// Their indices.
        missing: Vec<usize>,
    },
    /// Too few members are there.
    TooFew {
        /// Indices of the members that are missing.
        missing: Vec<usize>,
        /// How many may be.
        most: usize,
    },
    /// Two devices were used apart from each other: only their owner knows which has the data.
    Split {
        /// Their indices among the candidates.
        devices: [usize; 2],
    },
}

/// What members have to be made equal in, before or while the array runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resync {
    /// Nothing: it was stopped in order.
    None,
    /// Everything from this byte of the members, from where data begin.
    From(u64),
    /// What the bitmap says.
    Bitmap,
    /// What the partial parity logs say. If one of them is damaged, everything.
    Ppl,
}

/// A rebuild of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    /// The index of the device among the candidates.
    pub device: usize,
    /// The index of the member that it is to be.
    pub role: usize,
    /// Bytes from where data begin that need no copy.
    pub from: u64,
    /// Only what the bitmap says is copied.
    pub by_bitmap: bool,
}

/// An array, of the devices that were found.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The index of the candidate whose superblock is the newest: it says what the array is.
    pub newest: usize,
    /// What becomes of each candidate.
    pub states: Vec<MemberState>,
    /// The candidate that is each member of the layout.
    pub members: Vec<Option<usize>>,
    /// Whether the array can start.
    pub start: Start,
    /// What to resynchronise.
    pub resync: Resync,
    /// Members to rebuild.
    pub rebuilds: Vec<Rebuild>,
    /// Members to replace: devices that are filled while the members are used.
    pub replacements: Vec<Rebuild>,
    lines: Vec<String>,
}

/// No device has a superblock that can be used, or there are several arrays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// No device has a superblock that can be used.
    #[error("assemble: none of {devices} devices has a superblock that can be used{first}")]
    None {
        /// How many there are.
        devices: usize,
        /// What is wrong with the first.
        first: String,
    },
    /// The array that was asked for is not among them.
    #[error("assemble: no device belongs to the array {uuid}")]
    Missing {
        /// The array.
        uuid: Uuid,
    },
    /// Devices of several arrays, and none was asked for.
    #[error(
        "assemble: the devices belong to several arrays, {first} and {second}: give those of one"
    )]
    Several {
        /// One of them.
        first: Uuid,
        /// Another one.
        second: Uuid,
    },
}

impl Assembly {
    /// Decides. `wanted` says which array, if devices of several are there.
    ///
    /// A member is fresh if its superblock is at most one event older than the newest, because md
    /// writes to a member only what all superblocks permit, and a crash may come while they are
    /// written; and if the newest superblock does not have it as failed.
    ///
    /// # Errors
    /// There is no array, or several and none was wanted.
    pub fn of(candidates: &[Candidate], wanted: Option<Uuid>) -> Result<Self, AssembleError> {
        let uuid = choose(candidates, wanted)?;
        let usable = |candidate: &Candidate| {
            let superblock = candidate.superblock.as_ref().ok()?;
            (superblock.array_uuid == uuid && candidate.bytes >= needs(superblock))
                .then_some(superblock.events)
        };
        let events = candidates.iter().map(usable).enumerate();
        // The first of several: `max_by_key` takes the last.
        let newest = events.rev().max_by_key(|(_, events)| *events).filter(|best| best.1.is_some());
        let Some((newest, _)) = newest else { return Err(AssembleError::Missing { uuid }) };
        let view =
            View { candidates, newest: candidates[newest].superblock.as_ref().expect("usable") };
        let mut states: Vec<_> = candidates.iter().map(|candidate| view.state(candidate)).collect();
        view.find_duplicates(&mut states);
        let mut members = view.members(&mut states);
        view.promote(&mut states, &mut members);
        let split = view.split(&states, &members);
        let (start, resync) = (view.start(&members, split), view.resync());
        let rebuilds = view.rebuilds(&states, &members);
        let replacements = view.replacements(&states);
        let lines = message::lines(candidates, &states, newest);
        Ok(Self { newest, states, members, start, resync, rebuilds, replacements, lines })
    }

    /// One line for each device: what becomes of it.
    #[must_use]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Whether the array can start without being forced.
    #[must_use]
    pub const fn can_start(&self) -> bool {
        matches!(self.start, Start::Complete | Start::Degraded { .. })
    }
}

/// Bytes that a device must have.
fn needs(superblock: &Superblock) -> u64 {
    superblock.data_offset.saturating_add(superblock.member_bytes())
}

fn choose(candidates: &[Candidate], wanted: Option<Uuid>) -> Result<Uuid, AssembleError> {
    let arrays = || candidates.iter().filter_map(|candidate| candidate.superblock.as_ref().ok());
    let Some(first) = arrays().next() else {
        let error = candidates.iter().find_map(|candidate| {
            let error = candidate.superblock.as_ref().err()?;
            Some(format!("; {}: {error}", candidate.name.escape_debug()))
        });
        let first = error.unwrap_or_default();
        return Err(AssembleError::None { devices: candidates.len(), first });
    };
    let first = first.array_uuid;
    match wanted {
        Some(uuid) if arrays().any(|superblock| superblock.array_uuid == uuid) => Ok(uuid),
        Some(uuid) => Err(AssembleError::Missing { uuid }),
        None => match arrays().find(|superblock| superblock.array_uuid != first) {
            Some(other) => Err(AssembleError::Several { first, second: other.array_uuid }),
            None => Ok(first),
        },
    }
}

/// The candidates as the newest superblock has them.
struct View<'a> {
    candidates: &'a [Candidate],
    newest: &'a Superblock,
}

impl View<'_> {
    fn state(&self, candidate: &Candidate) -> MemberState {
        let superblock = match &candidate.superblock {
            Ok(superblock) => superblock,
            Err(error) => return MemberState::Unusable(error.clone()),
        };
        if superblock.array_uuid != self.newest.array_uuid {
            return MemberState::OtherArray { uuid: superblock.array_uuid };
        }
        if let Some(what) = self.difference(superblock) {
            return MemberState::Differs { what };
        }
        if candidate.bytes < needs(superblock) {
            return MemberState::TooSmall { needs: needs(superblock) };
        }
        let behind = self.newest.events - superblock.events;
        match (self.newest.role_of(superblock.device_number), superblock.role()) {
            (DeviceRole::Active(role), DeviceRole::Active(own)) if role == own && behind <= 1 => {
                let role = usize::from(role);
                if superblock.is_replacement {
                    let done_to = superblock.recovery.map(|recovery| recovery.done_to);
                    return MemberState::Replacement { role, done_to };
                }
                match superblock.recovery {
                    None => MemberState::Fresh { role },
                    Some(recovery) if recovery.by_bitmap => MemberState::Returning { role, behind },
                    Some(recovery) => MemberState::Rebuilding { role, done_to: recovery.done_to },
                }
            }
            (_, DeviceRole::Active(own)) => self.state_of_absent(superblock, own.into(), behind),
            (DeviceRole::Faulty, _) | (_, DeviceRole::Faulty) => MemberState::Faulty,
            _ => MemberState::Spare,
        }
    }

    /// A device that thinks that it is a member, and the newest superblock does not, or is newer.
    fn state_of_absent(&self, superblock: &Superblock, role: usize, behind: u64) -> MemberState {
        let bitmap = self.current_bitmap();
        let is_known =
            bitmap.is_some_and(|bitmap| superblock.events >= bitmap.header().events_cleared);
        if is_known && superblock.recovery.is_none() && !superblock.is_replacement && behind > 0 {
            MemberState::Returning { role, behind }
        } else {
            MemberState::Stale { behind }
        }
    }

    /// The bitmap of the newest member, if it can be used.
    fn current_bitmap(&self) -> Option<&Bitmap> {
        let newest = |candidate: &&Candidate| candidate.superblock.as_ref() == Ok(self.newest);
        let bitmap = self.candidates.iter().find(newest)?.bitmap.as_ref()?;
        let (uuid, events) = (self.newest.array_uuid, self.newest.events);
        let covers = bitmap.header().sync_bytes == self.newest.size;
        (covers && bitmap.is_current(uuid, events)).then_some(bitmap)
    }

    /// What must be the same on all members.
    fn difference(&self, superblock: &Superblock) -> Option<&'static str> {
        let newest = self.newest;
        // RAID 0 uses each member as far as it goes; trimtab has no zones.
        let zones = newest.level == Level::Raid0
            && newest.member_bytes() != superblock.member_bytes()
            && superblock.role().index().is_some();
        [
            (newest.level != superblock.level, "the level"),
            (newest.layout != superblock.layout, "the layout"),
            (newest.chunk != superblock.chunk, "the chunk"),
            (newest.size != superblock.size, "the size"),
            (newest.created != superblock.created, "the time of creation"),
            (newest.raid_disks != superblock.raid_disks, "the number of members"),
            (zones, "the bytes of a member, and RAID 0 of unequal members is not supported"),
        ]
        .into_iter()
        .find_map(|(differs, what)| differs.then_some(what))
    }

    /// Devices that are the same as one before, or claim its role.
    fn find_duplicates(&self, states: &mut [MemberState]) {
        for later in 1..states.len() {
            let Some(superblock) = self.of_array(later, states) else { continue };
            let is_same = |&earlier: &usize| {
                self.of_array(earlier, states)
                    .is_some_and(|other| other.device_uuid == superblock.device_uuid)
            };
            let Some(earlier) = (0..later).find(is_same) else { continue };
            // Of copies of a device the newer one counts.
            let is_newer =
                self.of_array(earlier, states).expect("found").events < superblock.events;
            let (copy, of) = if is_newer { (earlier, later) } else { (later, earlier) };
            states[copy] = MemberState::Duplicate { of };
        }
    }

    /// The superblock of a candidate that may belong to the array.
    fn of_array(&self, index: usize, states: &[MemberState]) -> Option<&Superblock> {
        use MemberState::{Duplicate, OtherArray, Unusable};
        match states[index] {
            Duplicate { .. } | OtherArray { .. } | Unusable(_) => None,
            _ => self.candidates[index].superblock.as_ref().ok(),
        }
    }

    /// The candidate that is each member. Of two that claim a role the one that is ahead has it.
    fn members(&self, states: &mut [MemberState]) -> Vec<Option<usize>> {
        let mut members = vec![None; self.newest.raid_disks as usize];
        for (index, state) in states.iter_mut().enumerate() {
            let MemberState::Fresh { role } = *state else { continue };
            match members[role] {
                None => members[role] = Some(index),
                Some(of) => *state = MemberState::Duplicate { of },
            }
        }
        members
    }

    /// A device that was used apart from the members: it was one of them, they do not have it any
    /// more, and its own superblock has none of them in another role than its own. (One that only
    /// fell behind has those that were members then.)
    fn split(&self, states: &[MemberState], members: &[Option<usize>]) -> Option<[usize; 2]> {
        let is_apart = |device: usize| {
            let superblock = self.of_array(device, states)?;
            let own = superblock.role().index()?;
            let has = |role: usize| superblock.roles.iter().any(|one| one.index() == Some(role));
            let others = members.iter().enumerate().filter(|&(role, _)| role != own);
            let mut others =
                others.filter_map(|(role, member)| Some((role, (*member)?))).peekable();
            let &(_, first) = others.peek()?;
            others.all(|(role, _)| !has(role)).then_some([first.min(device), first.max(device)])
        };
        let absent = (0..states.len()).filter(|device| !members.contains(&Some(*device)));
        absent.filter_map(is_apart).next()
    }

    /// How many members may be missing.
    fn most_missing(&self) -> usize {
        match self.newest.level {
            Level::Raid1 => self.newest.raid_disks as usize - 1,
            level => level.parities(),
        }
    }

    fn start(&self, members: &[Option<usize>], split: Option<[usize; 2]>) -> Start {
        if let Some(devices) = split {
            return Start::Split { devices };
        }
        let missing = (0..members.len()).filter(|&role| members[role].is_none());
        let missing: Vec<_> = missing.collect();
        // While an array is resynchronised its logs do not have all that may differ.
        let has_ppl = matches!(self.newest.consistency, Consistency::Ppl { .. })
            && self.newest.in_sync_to == Some(0);
        let is_dirty = self.newest.in_sync_to.is_some();
        match missing.len() {
            0 => Start::Complete,
            count if count > self.most_missing() => {
                Start::TooFew { missing, most: self.most_missing() }
            }
            _ if is_dirty && self.newest.level.parities() > 0 && !has_ppl => {
                Start::DirtyDegraded { missing }
            }
            _ => Start::Degraded { missing },
        }
    }

    fn resync(&self) -> Resync {
        match (self.newest.in_sync_to, self.newest.consistency) {
            (None, _) => Resync::None,
            _ if self.newest.level == Level::Raid0 => Resync::None,
            (Some(0), Consistency::Ppl { .. }) => Resync::Ppl,
            (Some(from), _) if self.current_bitmap().is_none() => Resync::From(from),
            _ => Resync::Bitmap,
        }
    }

    /// Rebuilds that go on, members that come back, and spares for what is still missing.
    fn rebuilds(&self, states: &[MemberState], members: &[Option<usize>]) -> Vec<Rebuild> {
        let mut rebuilds: Vec<Rebuild> = Vec::new();
        if self.newest.level == Level::Raid0 {
            return rebuilds;
        }
        let is_open = |rebuilds: &[Rebuild], role: usize| {
            members[role].is_none() && rebuilds.iter().all(|rebuild| rebuild.role != role)
        };
        let by_state = states.iter().enumerate().filter_map(|(device, state)| match *state {
            MemberState::Rebuilding { role, done_to } => {
                Some(Rebuild { device, role, from: done_to, by_bitmap: false })
            }
            MemberState::Returning { role, .. } if self.current_bitmap().is_some() => {
                Some(Rebuild { device, role, from: 0, by_bitmap: true })
            }
            _ => None,
        });
        for rebuild in by_state {
            if is_open(&rebuilds, rebuild.role) {
                rebuilds.push(rebuild);
            }
        }
        let spares = (0..states.len()).filter(|&device| states[device] == MemberState::Spare);
        for device in spares {
            let role = (0..members.len()).find(|&role| is_open(&rebuilds, role));
            let Some(role) = role else { break };
            rebuilds.push(Rebuild { device, role, from: 0, by_bitmap: false });
        }
        rebuilds
    }
}
