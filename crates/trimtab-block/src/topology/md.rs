//! Arrays of md (the kernel's Documentation/admin-guide/md.rst).

use std::fs;
use std::path::{Path, PathBuf};

use super::striped::{Parity, Striped};
use super::sysfs::{names, number, text};
use super::{Member, Segment, Target};

/// An array, from its directory in `/sys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Array<D> {
    pub(super) level: String,
    pub(super) layout: u32,
    /// Bytes; 0 without chunks.
    pub(super) chunk: u64,
    /// By slot; `None` for a missing device.
    pub(super) slots: Vec<Option<Slot<D>>>,
    /// Its shape is being changed, or is not reported.
    pub(super) is_reshaped: bool,
}

/// A member, and the part of it that belongs to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot<D> {
    pub(super) device: D,
    /// Offset of the data, bytes.
    pub(super) at: u64,
    /// Bytes.
    pub(super) size: u64,
    /// It is up to date.
    pub(super) is_in_sync: bool,
    /// It is read only if no other member can be.
    pub(super) is_write_mostly: bool,
}

/// The most members of an array.
const MOST_SLOTS: usize = 4096;

impl Array<PathBuf> {
    /// The array with this directory (`/sys/block/md0/md`); its members are directories too.
    pub(super) fn read(directory: &Path) -> Option<Self> {
        let file = |name: &str| directory.join(name);
        let count: usize = number(&file("raid_disks"))?;
        let mut slots = vec![None; (count <= MOST_SLOTS).then_some(count)?];
        let members = names(directory).into_iter().filter(|name| name.starts_with("dev-"));
        for member in members.map(|name| file(&name)) {
            // Spares have `none`.
            let slot: Option<usize> = number(&member.join("slot"));
            if let Some(slot) = slot.and_then(|slot| slots.get_mut(slot)) {
                *slot = self::slot(&member);
            }
        }
        Some(Self {
            level: text(&file("level"))?,
            layout: number(&file("layout")).unwrap_or(0),
            chunk: number(&file("chunk_size")).unwrap_or(0),
            slots,
            is_reshaped: text(&file("reshape_position")).is_some_and(|at| at != "none"),
        })
    }
}

fn slot(member: &Path) -> Option<Slot<PathBuf>> {
    let state = text(&member.join("state"))?;
    let is = |wanted: &str| state.split(',').any(|word| word == wanted);
    Some(Slot {
        device: fs::canonicalize(member.join("block")).ok()?,
        at: number::<u64>(&member.join("offset"))?.checked_mul(512)?,
        size: number::<u64>(&member.join("size"))?.checked_mul(1024)?,
        is_in_sync: is("in_sync") && !is("faulty"),
        is_write_mostly: is("write_mostly"),
    })
}

impl<D> Array<D> {
    /// The same array with converted members.
    pub(super) fn map<E>(self, mut f: impl FnMut(D) -> Option<E>) -> Array<E> {
        let mut slot = |slot: Slot<D>| {
            let Slot { device, at, size, is_in_sync, is_write_mostly } = slot;
            Some(Slot { device: f(device)?, at, size, is_in_sync, is_write_mostly })
        };
        let slots = self.slots.into_iter().map(|given| given.and_then(&mut slot)).collect();
        let Self { level, layout, chunk, is_reshaped, .. } = self;
        Array { level, layout, chunk, slots, is_reshaped }
    }
}

impl Array<usize> {
    /// The mapping of an array of this many bytes. Empty if it is unknown.
    pub(super) fn segments(&self, size: u64) -> Vec<Segment> {
        let whole = |target| vec![Segment { start: 0, end: size, target }];
        if self.is_reshaped {
            return Vec::new();
        }
        let with_parity = |parity| {
            let chunk = self.chunk;
            let striped = Striped { chunk, first: 0, parity, members: self.members() };
            if striped.is_valid() { whole(Target::Striped(striped)) } else { Vec::new() }
        };
        match &*self.level {
            "linear" => self.concatenated(),
            "raid0" => self.zones(),
            "raid1" => whole(self.mirrored()),
            "raid4" => with_parity(Parity::Last(1)),
            "raid5" => Parity::of_layout(self.layout, 1).map(with_parity).unwrap_or_default(),
            "raid6" => Parity::of_layout(self.layout, 2).map(with_parity).unwrap_or_default(),
            // Usually, every layout has at least two copies of each chunk.
            "raid10" if self.copies() > 1 => whole(Target::Copies),
            _ => Vec::new(),
        }
    }

    /// Members that can be read, by slot.
    fn members(&self) -> Vec<Option<Member>> {
        let member = |slot: Slot<usize>| Member { node: slot.device, at: slot.at };
        let readable = |slot: &Slot<usize>| slot.is_in_sync;
        self.slots.iter().map(|slot| slot.filter(readable).map(member)).collect()
    }

    /// Copies of each chunk, in md's encoding: near ones in the lowest byte, far ones in the
    /// next.
    const fn copies(&self) -> u32 {
        (self.layout & 0xff) * (self.layout >> 8 & 0xff)
    }

    /// Reads go to any member; to write-mostly members only if there is no other.
    fn mirrored(&self) -> Target {
        let readable: Vec<_> = self.slots.iter().flatten().filter(|slot| slot.is_in_sync).collect();
        let preferred: Vec<_> =
            readable.iter().copied().filter(|slot| !slot.is_write_mostly).collect();
        match (&preferred[..], &readable[..]) {
            ([slot], _) | ([], [slot]) => Target::Linear(Member { node: slot.device, at: slot.at }),
            _ => Target::Copies,
        }
    }

    /// Members one after the other, each rounded down to whole chunks.
    fn concatenated(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut start: u64 = 0;
        for slot in &self.slots {
            let Some(slot) = slot else { return Vec::new() };
            let size = if self.chunk > 0 { slot.size - slot.size % self.chunk } else { slot.size };
            let Some(end) = start.checked_add(size) else { return Vec::new() };
            let target = Target::Linear(Member { node: slot.device, at: slot.at });
            segments.push(Segment { start, end, target });
            start = end;
        }
        segments
    }

    /// RAID 0: chunks are striped over the members that have space left, so members of unequal
    /// sizes make zones with fewer and fewer members.
    fn zones(&self) -> Vec<Segment> {
        /// `md/layout`: whether a zone's chunks are counted from the array's beginning, or
        /// from the zone's.
        const FROM_THE_ARRAYS: u32 = 1;
        const FROM_ITS_OWN: u32 = 2;

        let slots: Option<Vec<_>> = self.slots.iter().copied().collect();
        let (Some(slots), true) = (slots, self.chunk > 0) else { return Vec::new() };
        let usable = |slot: &Slot<usize>| slot.size - slot.size % self.chunk;
        let mut zones = Vec::new();
        let (mut start, mut done) = (0_u64, 0_u64);
        loop {
            let left: Vec<_> = slots.iter().filter(|slot| usable(slot) > done).collect();
            let Some(next) = left.iter().map(|slot| usable(slot)).min() else { return zones };
            let first = match self.layout {
                _ if start == 0 => 0,
                FROM_THE_ARRAYS => start / self.chunk,
                FROM_ITS_OWN => 0,
                // An option of the module decides; it is unknown here.
                _ => return zones,
            };
            let member =
                |slot: &&Slot<usize>| Some(Member { node: slot.device, at: slot.at + done });
            let members: Vec<_> = left.iter().map(member).collect();
            let Some(end) =
                (next - done).checked_mul(members.len() as u64).and_then(|n| n.checked_add(start))
            else {
                return zones;
            };
            let striped = Striped { chunk: self.chunk, first, parity: Parity::None, members };
            zones.push(Segment { start, end, target: Target::Striped(striped) });
            (start, done) = (end, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn slot(device: usize, size: u64) -> Option<Slot<usize>> {
        Some(Slot { device, at: 1 << 20, size, is_in_sync: true, is_write_mostly: false })
    }

    fn array(level: &str, layout: u32, slots: Vec<Option<Slot<usize>>>) -> Array<usize> {
        Array { level: level.to_owned(), layout, chunk: 64 * KIB, slots, is_reshaped: false }
    }

    fn member(node: usize) -> Member {
        Member { node, at: 1 << 20 }
    }

    #[test]
    fn mirror_has_one_drive_only_if_one_is_read() {
        let pair = array("raid1", 0, vec![slot(1, 640 * KIB), slot(2, 640 * KIB)]);
        let target = |array: &Array<usize>| array.segments(640 * KIB)[0].target.clone();
        assert_eq!(target(&pair), Target::Copies);
        let with = |change: fn(&mut Slot<usize>)| {
            let mut pair = pair.clone();
            change(pair.slots[0].as_mut().unwrap());
            target(&pair)
        };
        assert_eq!(with(|slot| slot.is_write_mostly = true), Target::Linear(member(2)));
        assert_eq!(with(|slot| slot.is_in_sync = false), Target::Linear(member(2)));
        let missing = Array { slots: vec![slot(1, 640 * KIB), None], ..pair.clone() };
        assert_eq!(target(&missing), Target::Linear(member(1)));
        assert_eq!(target(&array("raid10", 0x102, pair.slots)), Target::Copies);
    }

    #[test]
    fn concatenated_members_follow_each_other_in_whole_chunks() {
        let slots = vec![slot(1, 130 * KIB), slot(2, 64 * KIB)];
        let segments = array("linear", 0, slots).segments(192 * KIB);
        let segment = |start: u64, end: u64, node| Segment {
            start: start * KIB,
            end: end * KIB,
            target: Target::Linear(member(node)),
        };
        assert_eq!(segments, [segment(0, 128, 1), segment(128, 192, 2)]);
    }

    #[test]
    fn unequal_members_make_zones() {
        let slots = || vec![slot(1, 128 * KIB), slot(2, 320 * KIB), slot(3, 330 * KIB)];
        let zones = array("raid0", 2, slots()).segments(0);
        let ends: Vec<_> = zones.iter().map(|zone| (zone.start / KIB, zone.end / KIB)).collect();
        assert_eq!(ends, [(0, 384), (384, 768)]);
        let Target::Striped(second) = &zones[1].target else { panic!("{zones:?}") };
        let behind = |node| Some(Member { node, at: (1 << 20) + 128 * KIB });
        assert_eq!((second.first, &second.members[..]), (0, &[behind(2), behind(3)][..]));
        let Target::Striped(second) = &array("raid0", 1, slots()).segments(0)[1].target else {
            panic!("it is striped")
        };
        assert_eq!(second.first, 6);
        assert_eq!(array("raid0", 0, slots()).segments(0).len(), 1, "the layout is unknown");
    }

    #[test]
    fn parity_needs_a_known_layout_and_a_stable_shape() {
        let slots = vec![slot(1, 640 * KIB), slot(2, 640 * KIB), None];
        let raid5 = array("raid5", 2, slots);
        let Target::Striped(striped) = &raid5.segments(1280 * KIB)[0].target else {
            panic!("it is striped")
        };
        assert_eq!(striped.members, [Some(member(1)), Some(member(2)), None]);
        let reshaped = Array { is_reshaped: true, ..raid5.clone() };
        for unknown in [reshaped, Array { layout: 9, ..raid5.clone() }, Array { chunk: 0, ..raid5 }]
        {
            assert_eq!(unknown.segments(1280 * KIB), []);
        }
    }
}
