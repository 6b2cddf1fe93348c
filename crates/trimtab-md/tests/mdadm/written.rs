//! `mdadm --examine` on members that this crate wrote.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use trimtab_array::{Level, Rotation};
use trimtab_md::{
    ArrayName, Member, NewArray, NewConsistency, NewMember, Recovery, Timestamp, Uuid,
};
use trimtab_testdisk::{Feature, requires};

use crate::examined::Examined;

fn array(level: Level, count: usize, bytes: u64) -> NewArray {
    let member = |id| NewMember { bytes, uuid: Uuid([id; 16]), flags: 0 };
    NewArray {
        uuid: Uuid(*b"an array's uuid "),
        name: ArrayName::new("host:written").unwrap(),
        level,
        rotation: Rotation::LeftSymmetric,
        chunk: 128 << 10,
        members: (0..count).map(|id| Some(member(id as u8))).collect(),
        spares: vec![],
        consistency: NewConsistency::Resync,
        is_in_sync: true,
        now: Timestamp { seconds: 1_790_000_000, microseconds: 0 },
    }
}

fn read(path: &Path, at: usize, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    File::open(path).unwrap().read_exact_at(&mut content, at as u64).unwrap();
    content
}

/// Writes an array to files and holds what mdadm says of each against what was written.
fn check(array: &NewArray, change: impl Fn(&mut trimtab_md::NewMetadata)) {
    let directory = tempfile::tempdir().unwrap();
    let devices = array.members.iter().copied().flatten().chain(array.spares.iter().copied());
    for (index, (mut metadata, device)) in
        array.create().unwrap().into_iter().zip(devices).enumerate()
    {
        change(&mut metadata);
        let path = directory.path().join(format!("disk{index}"));
        File::create(&path).unwrap().set_len(device.bytes).unwrap();
        let member = Member::open(&path, true).unwrap();
        member.write_new(&metadata).unwrap();
        let superblock = &metadata.superblock;
        Examined::run("--examine", &path).agrees(superblock);
        assert_eq!(member.superblock().as_ref().ok(), Some(superblock));
        assert_eq!(member.bitmap(superblock).unwrap(), metadata.bitmap);
        if let Some(bitmap) = &metadata.bitmap {
            // mdadm looks for the superblock of block devices only: of a file it takes the beginning.
            let at = superblock.bitmap_at().unwrap() as usize;
            let area = read(&path, at, 64 << 10);
            let path = directory.path().join("bitmap");
            fs::write(&path, area).unwrap();
            Examined::run("--examine-bitmap", &path).agrees_with_bitmap(bitmap);
        }
        let log = member.ppl(superblock).unwrap();
        assert_eq!(log.map(|(header, _)| header), metadata.ppl);
    }
}

#[test]
fn mdadm_reads_what_was_written() {
    if !requires(&[Feature::Program("mdadm")]) {
        return;
    }
    for level in Level::ALL {
        for rotation in Rotation::ALL {
            check(&NewArray { rotation, ..array(level, 4, 32 << 20) }, |_| ());
        }
        if level != Level::Raid0 {
            for chunk in [None, Some(64 << 10)] {
                for is_in_sync in [true, false] {
                    let consistency = NewConsistency::Bitmap(chunk);
                    let array = NewArray { consistency, is_in_sync, ..array(level, 5, 32 << 20) };
                    check(&array, |_| ());
                }
            }
        }
    }
    let consistency = NewConsistency::Ppl;
    check(&NewArray { consistency, ..array(Level::Raid5, 3, 32 << 20) }, |_| ());
    let consistency = NewConsistency::Bitmap(None);
    // A sparse file for each.
    check(&NewArray { consistency, ..array(Level::Raid6, 4, 300 << 30) }, |_| ());
}

#[test]
fn mdadm_reads_spares_missing_members_and_rebuilds() {
    if !requires(&[Feature::Program("mdadm")]) {
        return;
    }
    let mut degraded = array(Level::Raid6, 5, 32 << 20);
    degraded.members[1] = None;
    degraded.spares.push(NewMember { bytes: 40 << 20, uuid: Uuid([77; 16]), flags: 0 });
    check(&degraded, |_| ());
    check(&degraded, |metadata| {
        metadata.superblock.events = 1234;
        if metadata.superblock.device_number == 2 {
            let recovery = Recovery { done_to: 1 << 20, by_bitmap: false };
            metadata.superblock.recovery = Some(recovery);
        }
    });
}

#[test]
fn other_versions_of_mdadm_are_refused_by_name() {
    // Where version 0.90, 1.0 and 1.1 have their superblocks in a device of 1 MiB and some bytes.
    const BYTES: u64 = (1 << 20) + 12_288;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk");
    for (at, major, version) in
        [((1 << 20) - 65_536, 0_u32, "0.90"), (BYTES - 8192, 1, "1.0"), (0, 1, "1.1")]
    {
        let file = File::create(&path).unwrap();
        file.set_len(BYTES).unwrap();
        file.write_all_at(&0xa92b_4efc_u32.to_le_bytes(), at).unwrap();
        file.write_all_at(&major.to_le_bytes(), at + 4).unwrap();
        let error = Member::open(&path, false).unwrap().superblock().unwrap_err().to_string();
        assert!(error.contains(&format!("version {version} of md's")), "{error}");
    }
    File::create(&path).unwrap().set_len(BYTES).unwrap();
    let error = Member::open(&path, false).unwrap().superblock().unwrap_err().to_string();
    assert!(error.contains("none of md"), "{error}");
    File::create(&path).unwrap().set_len(5000).unwrap();
    assert!(Member::open(&path, false).unwrap().superblock().is_err());
}
