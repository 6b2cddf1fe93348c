//! What the user asks of a running array.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trimtab_array::Level;
use trimtab_md::{Consistency, Superblock};
use trimtab_serve::Error;

use super::{Engine, Fatal};
use crate::buckets::Buckets;
use crate::figures::Latencies;
use crate::guard::Guarded;
use crate::member::MemberDevice;
use crate::slots::{Slot, SlotState};
use crate::spec::PolicyKind;
use crate::stat::{MemberStat, Replacement, Stat, WithoutPolicy};

/// Bytes of a sector.
const SECTOR: u64 = 512;

impl Engine {
    pub(crate) fn stat(&self) -> Stat {
        let (figures, counts) = (&self.figures, self.planner.counts());
        let regions = self.shared.regions();
        let level = self.layout.level();
        Stat {
            backend: self.backend.text().to_owned(),
            level: level.name().to_owned(),
            chunk: (level != Level::Raid1).then_some(self.layout.chunk()),
            consistency: match self.like().map(|like| like.consistency) {
                _ if level == Level::Raid0 => "none",
                Some(Consistency::Bitmap { .. }) => "bitmap",
                Some(Consistency::Ppl { .. }) => "partial parity log",
                _ => "resync",
            }
            .to_owned(),
            capacity: self.layout.capacity(),
            policy: self.policy.name().to_owned(),
            state: self.state().to_owned(),
            uptime_s: trimtab_io::monotonic().since(figures.begun).as_secs_f64(),
            reads: figures.reads,
            writes: figures.writes,
            flushes: figures.flushes,
            discards: figures.discards,
            read_latency: Latencies::from(&figures.read_latency),
            write_latency: Latencies::from(&figures.write_latency),
            read_buckets_ns: Buckets::from(&figures.read_latency),
            write_buckets_ns: Buckets::from(&figures.write_latency),
            in_flight: self.users.len(),
            members: self.stats(0..self.layout.members()),
            others: self.stats(self.layout.members()..self.slots.len()),
            refused: counts.refused,
            computed: counts.computed,
            extra_reads: counts.extra_reads,
            stripe_reads: counts.stripe_reads,
            refreshed: counts.refreshed,
            turns: self.planner.policy().turns().map(Into::into),
            without_policy: WithoutPolicy {
                unsynced: self.shared.unsynced.load(Ordering::Relaxed),
                no_spare: self.shared.no_spare.load(Ordering::Relaxed),
                no_help: self.predictable.no_help,
                no_slot: self.predictable.no_slot,
            },
            to_resync: regions.unsynced_bytes(),
            in_doubt: self.in_doubt,
            resynced: figures.resynced,
            marked: regions.marked_bytes(),
            check: self.tasks.check(),
            rates: self.tasks.pace.rates(),
            rate: self.tasks.is_working.then(|| self.tasks.pace.rate(trimtab_io::monotonic())),
            stripes: self.layout.stripes(),
            lacking: Vec::new(),
        }
    }

    fn state(&self) -> &'static str {
        match self.degraded() {
            lost if lost > self.redundancy() => "failed",
            0 if self.metadata.is_dirty() => "active",
            0 => "clean",
            _ => "degraded",
        }
    }

    /// Of the devices at these places; behind the members only of those that are there.
    fn stats(&self, places: Range<usize>) -> Vec<MemberStat> {
        let members = self.layout.members();
        let is_shown =
            |place: &usize| *place < members || self.slots[*place].state != SlotState::Missing;
        places.filter(is_shown).map(|place| self.member_stat(place)).collect()
    }

    fn member_stat(&self, place: usize) -> MemberStat {
        let slot = &self.slots[place];
        let counted = &slot.counted;
        let replace = self.tasks.replace().filter(|replace| replace.role == place);
        let path_of = |slot: &Slot| slot.device.as_ref().map(|device| device.path.clone());
        let replacement = replace.and_then(|replace| {
            Some(Replacement {
                path: path_of(&self.slots[replace.place])?,
                done: replace.next * self.layout.chunk(),
                all: self.layout.member_bytes(),
            })
        });
        MemberStat {
            path: path_of(slot),
            state: slot.state.name().to_owned(),
            why: slot.why.clone(),
            rebuilt: self.rebuilt_bytes(place).map(|done| (done, self.layout.member_bytes())),
            replacement,
            in_flight: slot.in_flight,
            helps: (self.policy == PolicyKind::Ioda
                && slot.device.is_some()
                && place < self.layout.members())
            .then(|| self.predictable.helps(place)),
            no_help: self.predictable.refusal(place).map(str::to_owned),
            refused: counted.refused,
            read_latency: Latencies::from(&counted.reads),
            write_latency: Latencies::from(&counted.writes),
            read_errors: counted.read_errors,
            write_errors: counted.write_errors,
            corrected: counted.corrected,
        }
    }

    pub(crate) fn set_policy(&mut self, policy: PolicyKind) {
        self.policy = policy;
        let inner = policy.policy(self.layout.members());
        let shared = Arc::clone(&self.shared);
        self.planner.set_policy(Box::new(Guarded::new(inner, self.layout, shared)));
    }

    /// The members' devices, by role.
    pub(crate) fn member_paths(&self) -> Vec<Option<PathBuf>> {
        let path = |slot: &Slot| {
            let is_used = matches!(slot.state, SlotState::Active | SlotState::Rebuilding);
            slot.device.as_ref().filter(|_| is_used).map(|device| device.path.clone())
        };
        // Spares and replacements are behind the members.
        self.slots[..self.layout.members()].iter().map(path).collect()
    }

    /// Begins to compare all stripes.
    pub(crate) fn begin_check(&mut self, repairs: bool) -> Result<(), Error> {
        if self.redundancy() == 0 {
            let level = self.layout.level();
            return Err(Error::BadInput(format!("{level} has nothing that could be checked")));
        }
        if self.degraded() > 0 {
            let why = "members are missing, and what is computed for them cannot be checked: add \
                       others first (`trimtab array add`)";
            return Err(Error::Failed(why.to_owned()));
        }
        if self.tasks.check().is_some_and(|check| !check.is_complete) {
            return Err(Error::Failed("a check is under way: see `trimtab array stat`".to_owned()));
        }
        self.tasks.begin_check(repairs);
        Ok(())
    }

    /// The place of a device, by its path, or of a member by its number.
    pub(super) fn place_named(&self, member: &str) -> Result<usize, Error> {
        let by_number = member.parse().ok().filter(|&role| role < self.layout.members());
        let is_it = |slot: &Slot| slot.is_at(Path::new(member));
        let place = self.slots.iter().position(is_it).or(by_number);
        place.ok_or_else(|| Error::BadInput(format!("`{member}` is no member of the array")))
    }

    /// A member is to be used no more.
    pub(crate) fn fail_member(&mut self, member: &str) -> Result<(), Error> {
        let role = self.place_named(member)?;
        if self.slots[role].state == SlotState::Leaving {
            self.fail_leaving(role);
            return Ok(());
        }
        if !self.slots[role].state.is_used() {
            return Err(Error::BadInput(format!("`{member}` is not in use")));
        }
        if role >= self.layout.members() {
            self.fail_extra(role, "by command".to_owned());
            return Ok(());
        }
        let is_active = self.slots[role].state == SlotState::Active;
        if is_active && self.degraded() >= self.redundancy() {
            let why = "the array has no data without it";
            return Err(Error::BadInput(format!("`{member}`: {why}")));
        }
        self.fail(role, "by command".to_owned());
        Ok(())
    }

    /// Lets go of a device that has failed, or of a spare. Or returns why it cannot be let go of yet: a
    /// late write would reach whatever the device is used for next.
    pub(crate) fn remove_member(&mut self, member: &str) -> Result<Option<String>, Error> {
        let place = self.place_named(member)?;
        if self.slots[place].state == SlotState::Spare {
            self.retire_spare(place);
        }
        match self.slots[place].state {
            SlotState::Failed => {
                let requests = self.slots[place].in_flight;
                if requests > 0 {
                    return Ok(Some(format!("`{member}` still has {requests} requests in flight")));
                }
                // Metadata, or a window of stripes.
                let device = self.slots[place].device.as_ref();
                if device.is_some_and(|device| Arc::strong_count(device) > 1) {
                    return Ok(Some(format!("`{member}` is held by work that has not ended")));
                }
                self.slots[place] = Slot::default();
                Ok(None)
            }
            SlotState::Missing => {
                Err(Error::BadInput(format!("`{member}` is missing: nothing is there")))
            }
            _ => {
                Err(Error::BadInput(format!("`{member}` is in use: `trimtab array fail` it first")))
            }
        }
    }

    /// The superblock that a new device gets, if it can be used.
    pub(crate) fn superblock_of_new(
        &self,
        device: &MemberDevice,
        uuid: trimtab_md::Uuid,
    ) -> Result<Superblock, Error> {
        let shown = device.path.display();
        let Some(like) = self.like() else {
            return Err(Error::Failed("no member has a superblock".to_owned()));
        };
        let block_bytes = self.block_bytes;
        if device.block_bytes > block_bytes {
            return Err(Error::BadInput(format!(
                "{shown} is read and written in blocks of {} bytes, the array in blocks of \
                 {block_bytes}",
                device.block_bytes
            )));
        }
        let needed = like.data_offset + like.member_bytes();
        let found = device.metadata.bytes();
        if found < needed {
            let why = format!("{shown} has {found} bytes, the array needs {needed}");
            return Err(Error::BadInput(why));
        }
        let Some(number) = self.metadata.free_number() else {
            return Err(Error::Failed("the superblocks have no place for one more".to_owned()));
        };
        Ok(Superblock {
            device_uuid: uuid,
            device_number: number,
            device_flags: 0,
            corrected_reads: 0,
            data_bytes: (found - like.data_offset) / SECTOR * SECTOR,
            ..like
        })
    }

    /// The superblock of a member that is in use: others have the same, but for the device.
    pub(crate) fn like(&self) -> Option<Superblock> {
        let mut active =
            (0..self.layout.members()).filter(|&role| self.slots[role].state == SlotState::Active);
        active.find_map(|role| self.metadata.superblock(role)).cloned()
    }

    /// Whether a device is none of the array's.
    pub(crate) fn check_new(&self, path: &Path) -> Result<(), Error> {
        let mut devices = self.slots.iter().filter_map(|slot| slot.device.as_ref());
        match devices.find(|device| device.is_at(path)) {
            Some(_) => {
                let shown = path.display();
                let why = "is a member already: `trimtab array fail` and `remove` it first";
                Err(Error::BadInput(format!("{shown} {why}")))
            }
            None => Ok(()),
        }
    }

    /// After a command: what it has changed is carried out.
    pub(crate) fn after_command(&mut self) -> Result<(), Fatal> {
        self.upkeep()
    }
}
