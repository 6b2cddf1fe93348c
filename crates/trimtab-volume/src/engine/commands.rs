//! What the user asks of a running array.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trimtab_array::Level;
use trimtab_md::Superblock;
use trimtab_serve::Error;

use super::{Engine, Fatal, Slot, SlotState};
use crate::figures::Latencies;
use crate::guard::Guarded;
use crate::member::MemberDevice;
use crate::spec::PolicyKind;
use crate::stat::{MemberStat, Stat, WithoutPolicy};
use crate::tasks::Rebuild;

/// Bytes of a sector.
const SECTOR: u64 = 512;

impl Engine {
    pub(crate) fn stat(&self) -> Stat {
        let (figures, counts) = (&self.figures, self.planner.counts());
        let regions = self.shared.regions();
        let level = self.layout.level();
        Stat {
            backend: "FUSE and loop".to_owned(),
            level: level.name().to_owned(),
            chunk: (level != Level::Raid1).then_some(self.layout.chunk()),
            capacity: self.layout.capacity(),
            policy: self.policy.name().to_owned(),
            state: self.state().to_owned(),
            uptime_s: trimtab_io::monotonic().since(figures.begun).as_secs_f64(),
            reads: figures.reads,
            writes: figures.writes,
            flushes: figures.flushes,
            read_latency: Latencies::from(&figures.read_latency),
            write_latency: Latencies::from(&figures.write_latency),
            in_flight: self.users.len(),
            members: (0..self.slots.len()).map(|role| self.member_stat(role)).collect(),
            refused: counts.refused,
            computed: counts.computed,
            extra_reads: counts.extra_reads,
            stripe_reads: counts.stripe_reads,
            refreshed: counts.refreshed,
            without_policy: WithoutPolicy {
                unsynced: self.shared.unsynced.load(Ordering::Relaxed),
                no_spare: self.shared.no_spare.load(Ordering::Relaxed),
                no_answer: self.predictable.no_answer,
                no_slot: self.predictable.no_slot,
            },
            to_resync: regions.unsynced_bytes(),
            resynced: figures.resynced,
            marked: regions.marked_bytes(),
            check: self.tasks.check(),
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

    fn member_stat(&self, role: usize) -> MemberStat {
        let (slot, counted) = (&self.slots[role], &self.figures.members[role]);
        let state = match slot.state {
            SlotState::Missing => "missing",
            SlotState::Active => "active",
            SlotState::Rebuilding => "rebuilding",
            SlotState::Failed => "failed",
        };
        MemberStat {
            path: slot.device.as_ref().map(|device| device.path.clone()),
            state: state.to_owned(),
            why: slot.why.clone(),
            rebuilt: self.rebuilt_bytes(role).map(|done| (done, self.layout.member_bytes())),
            in_flight: self.in_flight[role],
            helps: (self.policy == PolicyKind::Ioda && slot.device.is_some())
                .then(|| self.predictable.helps(role)),
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
        let path = |slot: &Slot| slot.device.as_ref().map(|device| device.path.clone());
        self.slots.iter().map(path).collect()
    }

    /// Begins to compare all stripes.
    pub(crate) fn begin_check(&mut self, repairs: bool) -> Result<(), Error> {
        if self.redundancy() == 0 {
            let level = self.layout.level();
            return Err(Error::BadInput(format!("{level} has nothing that could be checked")));
        }
        if self.degraded() > 0 {
            let why = "members are missing: what is computed for them cannot be checked";
            return Err(Error::Failed(why.to_owned()));
        }
        if self.tasks.check().is_some_and(|check| !check.is_complete) {
            return Err(Error::Failed("a check is under way: see `trimtab array stat`".to_owned()));
        }
        self.tasks.begin_check(repairs);
        Ok(())
    }

    /// The role of a member, by its path or its number.
    fn role_of(&self, member: &str) -> Result<usize, Error> {
        let is_it = |slot: &Slot| {
            slot.device.as_ref().is_some_and(|device| device.path.as_os_str() == member)
        };
        let by_number = member.parse().ok().filter(|&role| role < self.slots.len());
        let role = self.slots.iter().position(is_it).or(by_number);
        role.ok_or_else(|| Error::BadInput(format!("`{member}` is no member of the array")))
    }

    /// A member is to be used no more.
    pub(crate) fn fail_member(&mut self, member: &str) -> Result<(), Error> {
        let role = self.role_of(member)?;
        if !matches!(self.slots[role].state, SlotState::Active | SlotState::Rebuilding) {
            return Err(Error::BadInput(format!("`{member}` is not in use")));
        }
        let is_active = self.slots[role].state == SlotState::Active;
        if is_active && self.degraded() >= self.redundancy() {
            let why = "the array has no data without it";
            return Err(Error::BadInput(format!("`{member}`: {why}")));
        }
        self.fail(role, "by command".to_owned());
        Ok(())
    }

    /// Lets go of a member that has failed.
    pub(crate) fn remove_member(&mut self, member: &str) -> Result<(), Error> {
        let role = self.role_of(member)?;
        match self.slots[role].state {
            SlotState::Failed if self.in_flight[role] == 0 => {
                self.slots[role] = Slot::default();
                Ok(())
            }
            SlotState::Failed => {
                let requests = self.in_flight[role];
                Err(Error::Failed(format!("`{member}` still has {requests} requests in flight")))
            }
            _ => {
                Err(Error::BadInput(format!("`{member}` is in use: `trimtab array fail` it first")))
            }
        }
    }

    /// Takes a device in the place of a member that is missing.
    pub(crate) fn add_member(
        &mut self,
        device: MemberDevice,
        uuid: trimtab_md::Uuid,
    ) -> Result<(), Error> {
        let shown = device.path.display().to_string();
        if self.redundancy() == 0 {
            let level = self.layout.level();
            return Err(Error::BadInput(format!("{level} cannot take members in")));
        }
        if self.has_failed() {
            return Err(Error::Failed("too many members have failed".to_owned()));
        }
        if self.tasks.rebuild().is_some() || self.rebuild_ends.is_some() {
            return Err(Error::Failed("another member is being rebuilt: wait for that".to_owned()));
        }
        let role = self.slots.iter().position(|slot| slot.state == SlotState::Missing);
        let Some(role) = role.filter(|&role| self.in_flight[role] == 0) else {
            let why = "no member is missing: `trimtab array fail` and `remove` one first";
            return Err(Error::BadInput(why.to_owned()));
        };
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
        let superblock = Superblock {
            device_uuid: uuid,
            device_number: number,
            device_flags: 0,
            corrected_reads: 0,
            data_bytes: (found - like.data_offset) / SECTOR * SECTOR,
            ..like
        };
        let data_offset = superblock.data_offset;
        _ = self.metadata.admit(role, superblock);
        let state = SlotState::Rebuilding;
        self.slots[role] = Slot { device: Some(Arc::new(device)), state, data_offset, why: None };
        self.begin_rebuild(Rebuild { role, next: 0, by_bitmap: false });
        Ok(())
    }

    /// The superblock of a member that is in use: others have the same, but for the device.
    pub(crate) fn like(&self) -> Option<Superblock> {
        let mut active =
            (0..self.slots.len()).filter(|&role| self.slots[role].state == SlotState::Active);
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
