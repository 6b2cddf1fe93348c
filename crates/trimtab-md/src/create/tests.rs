use trimtab_array::{Level, Rotation};

use super::*;

pub(crate) fn member(bytes: u64, id: u8) -> NewMember {
    NewMember { bytes, uuid: Uuid([id; 16]), flags: 0 }
}

pub(crate) fn new_array(level: Level, members: usize, bytes: u64) -> NewArray {
    NewArray {
        uuid: Uuid([9; 16]),
        name: ArrayName::new("host:test").unwrap(),
        level,
        rotation: Rotation::LeftSymmetric,
        chunk: 64 << 10,
        members: (0..members).map(|id| Some(member(bytes, id as u8))).collect(),
        spares: vec![],
        consistency: NewConsistency::Resync,
        is_in_sync: true,
        now: Timestamp { seconds: 1_790_000_000, microseconds: 7 },
    }
}

#[test]
fn metadata_of_each_level_are_read_again() {
    for level in Level::ALL {
        for rotation in Rotation::ALL {
            for (consistency, is_in_sync) in [
                (NewConsistency::Resync, true),
                (NewConsistency::Bitmap(None), false),
                (NewConsistency::Ppl, true),
            ] {
                let array =
                    NewArray { rotation, consistency, is_in_sync, ..new_array(level, 4, 32 << 20) };
                let metadata = match array.create() {
                    Ok(metadata) => metadata,
                    Err(CreateError::Consistency { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                assert_eq!(metadata.len(), 4);
                for (index, NewMetadata { superblock, bitmap, ppl }) in metadata.iter().enumerate()
                {
                    assert_eq!(Superblock::parse(&superblock.to_bytes()).as_ref(), Ok(superblock));
                    assert_eq!(superblock.role(), DeviceRole::Active(index as u16));
                    let layout = superblock.array_layout().unwrap();
                    assert_eq!((layout.level(), layout.members()), (level, 4));
                    assert_eq!(bitmap.is_some(), superblock.bitmap_at().is_some());
                    assert_eq!(ppl.is_some(), superblock.ppl_at().is_some());
                    if let Some(bitmap) = bitmap {
                        assert_eq!(Bitmap::parse(&bitmap.to_bytes()).as_ref(), Ok(bitmap));
                        assert_eq!(bitmap.dirty_bytes(), superblock.size);
                    }
                }
            }
        }
    }
}

#[test]
fn least_member_counts_in_whole_chunks() {
    let mut array = new_array(Level::Raid5, 3, 32 << 20);
    array.members[1] = Some(member((20 << 20) + 70_000, 1));
    let superblock = &array.create().unwrap()[0].superblock;
    // 70 000 bytes have one chunk of 64 KiB.
    assert_eq!(superblock.size, (20 << 20) + (64 << 10) - superblock.data_offset);
    array.members[1] = Some(member(1 << 20, 1));
    let error = array.create().unwrap_err();
    assert!(matches!(error, CreateError::TooSmall { member: 1, .. }), "{error}");
}

#[test]
fn missing_members_and_spares_have_no_role() {
    let mut array = new_array(Level::Raid6, 4, 32 << 20);
    array.members[2] = None;
    array.spares = vec![member(32 << 20, 8)];
    let metadata = array.create().unwrap();
    let numbers: Vec<_> = metadata.iter().map(|one| one.superblock.device_number).collect();
    assert_eq!(numbers, [0, 1, 3, 4]);
    let superblock = &metadata[3].superblock;
    assert_eq!((superblock.role(), superblock.role_of(2)), (DeviceRole::Spare, DeviceRole::Spare));
    array.members[0] = None;
    assert!(array.create().is_ok());
    array.members[1] = None;
    assert!(matches!(array.create(), Err(CreateError::TooFew { found: 1, least: 2, .. })));
}

#[test]
fn arrays_that_cannot_be_are_refused_in_one_line() {
    let raid5 = || new_array(Level::Raid5, 3, 32 << 20);
    let bitmap = |chunk| NewArray { consistency: NewConsistency::Bitmap(Some(chunk)), ..raid5() };
    let spare = vec![member(32 << 20, 8)];
    let raid0 = || new_array(Level::Raid0, 2, 32 << 20);
    for (array, says) in [
        (new_array(Level::Raid5, 2, 32 << 20), "members"),
        (NewArray { chunk: 5000, ..raid5() }, "chunk"),
        (NewArray { chunk: 0, ..raid5() }, "chunk"),
        (NewArray { spares: vec![member(32 << 20, 8); 126], ..raid5() }, "128"),
        (NewArray { consistency: NewConsistency::Bitmap(None), ..raid0() }, "bitmap"),
        (NewArray { spares: spare, ..raid0() }, "spares"),
        (NewArray { consistency: NewConsistency::Ppl, ..raid0() }, "partial parity log"),
        (bitmap(1000), "power of two from 4096"),
        (bitmap(2048), "power of two from 4096"),
        (NewArray { members: vec![], ..raid5() }, "needs at least 1"),
    ] {
        let error = array.create().expect_err(says).to_string();
        assert!(error.contains(says) && !error.contains('\n'), "{says}: {error}");
    }
}
