use trimtab_array::Level;

use super::*;
use crate::create::tests::{member, new_array};
use crate::superblock::Recovery;
use crate::{NewArray, NewConsistency};

const BYTES: u64 = 32 << 20;

/// The members of a new array at event 10.
fn candidates(level: Level, members: usize, consistency: NewConsistency) -> Vec<Candidate> {
    of_array(&NewArray { consistency, ..new_array(level, members, BYTES) })
}

fn of_array(array: &NewArray) -> Vec<Candidate> {
    let metadata = array.create().unwrap().into_iter().enumerate();
    let candidate = |(index, mut one): (usize, crate::NewMetadata)| {
        one.superblock.events = 10;
        if let Some(bitmap) = &mut one.bitmap {
            bitmap.set_events(10);
            bitmap.set_events_cleared(5);
        }
        Candidate {
            name: format!("disk{index}"),
            bytes: BYTES,
            superblock: Ok(one.superblock),
            bitmap: one.bitmap,
        }
    };
    metadata.map(candidate).collect()
}

fn superblock(candidate: &mut Candidate) -> &mut Superblock {
    candidate.superblock.as_mut().unwrap()
}

fn assemble(candidates: &[Candidate]) -> Assembly {
    let assembly = Assembly::of(candidates, None).unwrap();
    assert_eq!(assembly.lines().len(), candidates.len());
    for (line, candidate) in assembly.lines().iter().zip(candidates) {
        assert!(line.starts_with(&format!("{}: ", candidate.name)) && !line.contains('\n'));
    }
    assembly
}

#[test]
fn order_of_devices_does_not_matter() {
    let mut devices = candidates(Level::Raid5, 4, NewConsistency::Resync);
    devices.reverse();
    let assembly = assemble(&devices);
    assert_eq!(assembly.members, [Some(3), Some(2), Some(1), Some(0)]);
    assert_eq!((assembly.start, assembly.resync), (Start::Complete, Resync::None));
}

#[test]
fn members_one_event_behind_are_fresh_unless_they_failed() {
    let mut devices = candidates(Level::Raid5, 4, NewConsistency::Resync);
    superblock(&mut devices[1]).events = 9;
    assert_eq!(assemble(&devices).start, Start::Complete);
    for index in [0, 2, 3] {
        superblock(&mut devices[index]).roles[1] = DeviceRole::Faulty;
    }
    let assembly = assemble(&devices);
    assert_eq!(assembly.states[1], MemberState::Stale { behind: 1 });
    assert_eq!(assembly.start, Start::Degraded { missing: vec![1] });
    assert!(assembly.can_start());
    superblock(&mut devices[3]).events = 8;
    let assembly = assemble(&devices);
    assert_eq!(assembly.start, Start::TooFew { missing: vec![1, 3], most: 1 });
    assert!(!assembly.can_start());
}

#[test]
fn bitmap_brings_members_back_that_missed_only_what_it_has() {
    let mut devices = candidates(Level::Raid1, 3, NewConsistency::Bitmap(None));
    for index in [0, 1] {
        superblock(&mut devices[index]).roles[2] = DeviceRole::Faulty;
    }
    superblock(&mut devices[2]).events = 5;
    let assembly = assemble(&devices);
    assert_eq!(assembly.states[2], MemberState::Returning { role: 2, behind: 5 });
    let back = Rebuild { device: 2, role: 2, from: 0, by_bitmap: true };
    assert_eq!(assembly.rebuilds, [back]);
    superblock(&mut devices[2]).events = 4;
    assert_eq!(assemble(&devices).states[2], MemberState::Stale { behind: 6 });
    superblock(&mut devices[2]).events = 5;
    for device in &mut devices[..2] {
        device.bitmap.as_mut().unwrap().set_events(9);
    }
    let assembly = assemble(&devices);
    assert_eq!(assembly.states[2], MemberState::Stale { behind: 5 });
    assert_eq!(assembly.rebuilds, []);
}

#[test]
fn dirty_arrays_are_resynchronised_from_where_they_were() {
    let dirty = |consistency, from| {
        let mut devices = candidates(Level::Raid6, 4, consistency);
        devices.iter_mut().for_each(|device| superblock(device).in_sync_to = Some(from));
        devices
    };
    assert_eq!(assemble(&dirty(NewConsistency::Resync, 0)).resync, Resync::From(0));
    assert_eq!(assemble(&dirty(NewConsistency::Resync, 1 << 20)).resync, Resync::From(1 << 20));
    let mut devices = dirty(NewConsistency::Bitmap(None), 0);
    assert_eq!(assemble(&devices).resync, Resync::Bitmap);
    devices.iter_mut().for_each(|device| device.bitmap = None);
    assert_eq!(assemble(&devices).resync, Resync::From(0));
    devices.remove(2);
    let assembly = assemble(&devices);
    assert_eq!(assembly.start, Start::DirtyDegraded { missing: vec![2] });
    assert!(!assembly.can_start());
    // The log knows what a missing member would have.
    let mut devices = candidates(Level::Raid5, 4, NewConsistency::Ppl);
    devices.iter_mut().for_each(|device| superblock(device).in_sync_to = Some(0));
    devices.remove(0);
    let assembly = assemble(&devices);
    assert_eq!(assembly.start, Start::Degraded { missing: vec![0] });
    assert_eq!(assembly.resync, Resync::Ppl);
    devices.iter_mut().for_each(|device| superblock(device).in_sync_to = Some(4096));
    assert_eq!(assemble(&devices).start, Start::DirtyDegraded { missing: vec![0] });
}

#[test]
fn rebuilds_go_on_and_spares_take_missing_roles() {
    let spares = vec![member(BYTES, 8), member(BYTES, 9)];
    let mut devices = of_array(&NewArray { spares, ..new_array(Level::Raid6, 4, BYTES) });
    superblock(&mut devices[1]).recovery = Some(Recovery { done_to: 1 << 20, by_bitmap: false });
    assert_eq!(assemble(&devices).states[1], MemberState::Rebuilding { role: 1, done_to: 1 << 20 });
    devices.remove(0);
    let assembly = assemble(&devices);
    assert_eq!(assembly.start, Start::Degraded { missing: vec![0, 1] });
    assert_eq!(
        assembly.rebuilds,
        [
            Rebuild { device: 0, role: 1, from: 1 << 20, by_bitmap: false },
            Rebuild { device: 3, role: 0, from: 0, by_bitmap: false },
        ]
    );
}

#[test]
fn replacements_go_on_and_take_the_place_of_a_member_that_is_gone() {
    let spares = vec![member(BYTES, 8)];
    let mut devices = of_array(&NewArray { spares, ..new_array(Level::Raid5, 3, BYTES) });
    for device in &mut devices {
        superblock(device).roles[3] = DeviceRole::Active(1);
    }
    superblock(&mut devices[3]).is_replacement = true;
    superblock(&mut devices[3]).recovery = Some(Recovery { done_to: 1 << 20, by_bitmap: false });
    let assembly = assemble(&devices);
    let going_on = Rebuild { device: 3, role: 1, from: 1 << 20, by_bitmap: false };
    assert_eq!((&assembly.start, &assembly.replacements[..]), (&Start::Complete, &[going_on][..]));
    assert_eq!(assembly.rebuilds, []);
    // Without the member it is an ordinary rebuild.
    let without: Vec<_> = [0, 2, 3].map(|index| devices[index].clone()).into();
    let assembly = assemble(&without);
    assert_eq!(assembly.start, Start::Degraded { missing: vec![1] });
    assert_eq!(assembly.rebuilds, [Rebuild { device: 2, ..going_on }]);
    assert_eq!(assembly.replacements, []);
    // One that has everything takes the place, also while the superblocks are being written.
    superblock(&mut devices[3]).recovery = None;
    assert_eq!(assemble(&devices).members[1], Some(1));
    let all = superblock(&mut devices[0]).member_bytes();
    assert_eq!(assemble(&devices).replacements, [Rebuild { from: all, ..going_on }]);
    superblock(&mut devices[0]).roles[1] = DeviceRole::Faulty;
    superblock(&mut devices[0]).events = 11;
    let assembly = assemble(&devices);
    assert_eq!((&assembly.start, assembly.members[1]), (&Start::Complete, Some(3)));
    // One that missed something is of no use.
    superblock(&mut devices[3]).events = 8;
    assert_eq!(assemble(&devices).states[3], MemberState::Stale { behind: 3 });
}

#[test]
fn devices_that_do_not_belong_are_told_apart() {
    let mut devices = candidates(Level::Raid5, 3, NewConsistency::Resync);
    let mut stranger = devices[0].clone();
    superblock(&mut stranger).array_uuid = Uuid([1; 16]);
    let mut copy = devices[1].clone();
    superblock(&mut copy).events = 3;
    let mut different = devices[2].clone();
    superblock(&mut different).chunk *= 2;
    superblock(&mut different).device_uuid = Uuid([77; 16]);
    let mut cut = devices.remove(2);
    cut.bytes = BYTES / 2;
    devices.extend([stranger, copy, different, cut]);
    devices.push(Candidate {
        name: "empty".to_owned(),
        bytes: BYTES,
        superblock: Err(SuperblockError::None),
        bitmap: None,
    });
    let uuid = devices[0].superblock.as_ref().unwrap().array_uuid;
    let error = Assembly::of(&devices, None).unwrap_err();
    assert!(matches!(error, AssembleError::Several { .. }), "{error}");
    let assembly = Assembly::of(&devices, Some(uuid)).unwrap();
    let says = [
        "member 0",
        "member 1",
        "another array, 01010101:",
        "the same member as disk1",
        "differs from the newest member (disk0) in the chunk",
        "it was cut",
        "none of md",
    ];
    for (line, says) in assembly.lines().iter().zip(says) {
        assert!(line.contains(says), "{says}: {line}");
    }
    assert_eq!(assembly.start, Start::Degraded { missing: vec![2] });
    let nobody = Uuid([50; 16]);
    assert_eq!(
        Assembly::of(&devices, Some(nobody)).unwrap_err(),
        AssembleError::Missing { uuid: nobody }
    );
    let error = Assembly::of(&devices[6..], None).unwrap_err().to_string();
    assert!(error.contains("empty: superblock: none"), "{error}");
    assert!(Assembly::of(&[], None).is_err());
}

#[test]
fn halves_of_a_mirror_that_parted_are_not_mixed() {
    let mut devices = candidates(Level::Raid1, 2, NewConsistency::Bitmap(None));
    superblock(&mut devices[0]).roles[1] = DeviceRole::Faulty;
    superblock(&mut devices[1]).roles[0] = DeviceRole::Faulty;
    assert_eq!(assemble(&devices).start, Start::Split { devices: [0, 1] });
    superblock(&mut devices[1]).events = 30;
    assert_eq!(assemble(&devices).start, Start::Split { devices: [0, 1] });
    assert_eq!(assemble(&devices[..1]).start, Start::Degraded { missing: vec![1] });
}

#[test]
fn members_that_were_replaced_are_stale_and_no_other_half() {
    // Of a mirror of 0 and 1, number 2 replaced 1; then 0 went.
    let mut devices =
        of_array(&NewArray { spares: vec![member(BYTES, 8)], ..new_array(Level::Raid1, 2, BYTES) });
    for index in [0, 2] {
        let superblock = superblock(&mut devices[index]);
        superblock.roles[1] = DeviceRole::Spare;
        superblock.roles[2] = DeviceRole::Active(1);
        superblock.events = 20;
    }
    let assembly = assemble(&devices);
    assert_eq!(assembly.states[1], MemberState::Stale { behind: 10 });
    assert_eq!(assembly.start, Start::Complete);
    assert_eq!(assemble(&devices[1..]).start, Start::Degraded { missing: vec![0] });
    // Of a RAID 6, 2 failed, then 3, and then a spare took the place of 2.
    let spares = vec![member(BYTES, 8)];
    let mut devices = of_array(&NewArray { spares, ..new_array(Level::Raid6, 4, BYTES) });
    superblock(&mut devices[3]).roles[2] = DeviceRole::Faulty;
    for index in [0, 1, 4] {
        let superblock = superblock(&mut devices[index]);
        superblock.roles[2..5].copy_from_slice(&[
            DeviceRole::Faulty,
            DeviceRole::Faulty,
            DeviceRole::Active(2),
        ]);
        superblock.events = 20;
    }
    let assembly = assemble(&devices);
    assert_eq!(assembly.start, Start::Degraded { missing: vec![3] });
    assert_eq!(assembly.states[3], MemberState::Stale { behind: 10 });
}

#[test]
fn raid0_needs_all_members_of_the_same_size() {
    let devices = candidates(Level::Raid0, 2, NewConsistency::Resync);
    assert_eq!(assemble(&devices).start, Start::Complete);
    assert_eq!(assemble(&devices[1..]).start, Start::TooFew { missing: vec![0], most: 0 });
    let mut array = new_array(Level::Raid0, 2, BYTES);
    array.members[1] = Some(member(BYTES / 2, 1));
    let line = assemble(&of_array(&array)).lines()[1].clone();
    assert!(line.contains("unequal members"), "{line}");
}
