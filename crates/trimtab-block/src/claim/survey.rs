//! A snapshot of which objects are in use, and their users.

use std::io;

use super::drives::Emulated;
use super::exports;
use super::holder::{Holder, InUse, Part};
use super::loops::{self, Loop};
use super::mounts::{self, Mount};
use super::number::{FileId, Identity, Kind, Number};
use super::swaps;

/// All users.
pub(super) struct Survey {
    mounts: Vec<Mount>,
    swaps: Vec<Identity>,
    loops: Vec<Loop>,
    drives: Vec<Emulated>,
    exports: Vec<(Identity, String)>,
}

impl Survey {
    /// # Errors
    /// The back end of a loop device cannot be determined.
    pub(super) fn take() -> io::Result<Self> {
        let mounts = mounts::all();
        let drives = Emulated::among(&mounts);
        let (swaps, loops) = (swaps::all(), loops::all()?);
        Ok(Self { swaps, loops, exports: exports::all(), mounts, drives })
    }

    /// The user of this object, of a part of it, or of an object below it. An emulated drive or
    /// array may be used itself if `served_too`.
    pub(super) fn user(&self, what: Identity, served_too: bool) -> Option<InUse> {
        self.user_beside(what, served_too, &mut Vec::new())
    }

    /// The back ends below a loop device or a partition of one, down to the last.
    pub(super) fn below(&self, what: Identity) -> Vec<Identity> {
        let mut found = vec![what];
        while let Kind::Device(number) = found[found.len() - 1].0
            && let Some(device) = self.loop_of(number)
            && !found.contains(&device.backing.identity)
        {
            found.push(device.backing.identity);
        }
        found.split_off(1)
    }

    /// Its user, other than the loop devices through which it was reached.
    fn user_beside(
        &self,
        what: Identity,
        served_too: bool,
        reached_by: &mut Vec<Number>,
    ) -> Option<InUse> {
        let number = match what.0 {
            Kind::Device(number) => number,
            Kind::File(file) => {
                let holder = self.user_of_file(file, reached_by)?;
                return Some(InUse { part: Part::Itself, holder });
            }
        };
        let partitions = number.partitions().into_iter();
        let parts = std::iter::once((number, Part::Itself))
            .chain(partitions.map(|number| (number, Part::Partition(number.name()))))
            .chain(number.disk().map(|disk| (disk, Part::Disk(disk.name()))));
        for (number, part) in parts {
            if let Some(holder) = self.user_of_device(number, reached_by) {
                return Some(InUse { part, holder });
            }
        }
        let disk = number.disk().unwrap_or(number);
        if let Some(drive) = self.drives.iter().find(|drive| drive.is(disk)) {
            return (!served_too).then(|| InUse { part: Part::Itself, holder: holder_of(drive) });
        }
        let device = self.loop_of(number)?;
        if let Some(holder) = self.emulates(device) {
            return (!served_too).then_some(InUse { part: Part::Itself, holder });
        }
        if reached_by.contains(&device.number) {
            return None;
        }
        reached_by.push(device.number);
        let InUse { part, holder } =
            self.user_beside(device.backing.identity, served_too, reached_by)?;
        let name = match part {
            Part::Itself => device.behind.clone(),
            Part::Partition(name) | Part::Disk(name) | Part::BackEnd(name) => name,
        };
        Some(InUse { part: Part::BackEnd(name), holder })
    }

    fn user_of_device(&self, number: Number, reached_by: &[Number]) -> Option<Holder> {
        let identity = Identity(Kind::Device(number));
        let is_of_it = |mount: &&Mount| mount.devices().any(|device| device == number);
        if let Some(mount) = self.mounts.iter().find(is_of_it) {
            let Mount { at, kind, process, .. } = mount.clone();
            return Some(Holder::Mount { at, kind, process });
        }
        if self.swaps.contains(&identity) {
            return Some(Holder::Swap);
        }
        let device = number.holders().into_iter().next().map(Holder::Device);
        let device = device.or_else(|| self.loop_over(identity, reached_by));
        device.or_else(|| self.export_of(identity))
    }

    fn user_of_file(&self, file: FileId, reached_by: &[Number]) -> Option<Holder> {
        let identity = Identity(Kind::File(file));
        if let Some(holder) = self.loop_over(identity, reached_by) {
            return Some(holder);
        }
        if self.swaps.contains(&identity) {
            return Some(Holder::Swap);
        }
        if let Some(holder) = self.export_of(identity) {
            return Some(holder);
        }
        let drive = self.drives.iter().find(|drive| drive.keeps_content_in(file))?;
        Some(Holder::Content { kind: drive.kind, name: drive.name.clone(), process: drive.process })
    }

    /// A loop device attached to it, other than those through which it was reached.
    fn loop_over(&self, what: Identity, reached_by: &[Number]) -> Option<Holder> {
        let is_over = |device: &&Loop| {
            device.backing.identity == what && !reached_by.contains(&device.number)
        };
        Some(Holder::Loop(self.loops.iter().find(is_over)?.number.name()))
    }

    fn export_of(&self, what: Identity) -> Option<Holder> {
        let export = self.exports.iter().find(|(exported, _)| *exported == what);
        export.map(|(_, nqn)| Holder::Exported(nqn.clone()))
    }

    /// The loop device that this is, or is a partition of.
    fn loop_of(&self, number: Number) -> Option<&Loop> {
        let disk = number.disk().unwrap_or(number);
        self.loops.iter().find(|device| device.number == disk)
    }

    /// The emulated drive that has this device.
    fn emulates(&self, device: &Loop) -> Option<Holder> {
        let file_system = device.backing.file_system;
        self.drives.iter().find(|drive| drive.has_file_system(file_system)).map(holder_of)
    }
}

fn holder_of(drive: &Emulated) -> Holder {
    Holder::Drive { kind: drive.kind, name: drive.name.clone(), process: drive.process }
}
