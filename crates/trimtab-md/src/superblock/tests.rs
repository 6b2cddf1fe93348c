use proptest::prelude::*;
use trimtab_array::Level;

use super::*;
use crate::create::tests::{member, new_array};
use crate::{NewArray, NewConsistency};

fn superblock(level: Level, consistency: NewConsistency) -> Superblock {
    let spares = if level == Level::Raid0 { vec![] } else { vec![member(32 << 20, 7)] };
    let array = NewArray { consistency, spares, ..new_array(level, 4, 32 << 20) };
    array.create().unwrap()[1].superblock.clone()
}

/// A superblock with a field changed, and its checksum corrected.
fn with(superblock: &Superblock, change: impl FnOnce(&mut [u8])) -> Result<Superblock, String> {
    let mut block = superblock.to_bytes();
    change(&mut block);
    let sum = checksum(&block);
    put_u32(&mut block, at::SB_CSUM, sum);
    Superblock::parse(&block).map_err(|error| error.to_string())
}

#[test]
fn every_changed_bit_is_detected() {
    for consistency in [NewConsistency::Resync, NewConsistency::Bitmap(None), NewConsistency::Ppl] {
        let superblock = superblock(Level::Raid5, consistency);
        let block = superblock.to_bytes();
        let used = 256 + 2 * superblock.roles.len();
        for byte in 0..SUPERBLOCK_BYTES {
            for flip in 1..=255_u8 {
                let mut changed = block;
                changed[byte] ^= flip;
                match Superblock::parse(&changed) {
                    Err(error) => assert!(!error.to_string().contains('\n')),
                    // Behind the last role there is nothing.
                    Ok(parsed) => assert!(parsed == superblock && byte >= used, "{byte} ^ {flip}"),
                }
                if byte >= used {
                    break;
                }
            }
        }
    }
}

#[test]
fn other_versions_and_features_are_refused_by_name() {
    let raid5 = superblock(Level::Raid5, NewConsistency::Resync);
    let feature = |bits| with(&raid5, |block| put_u32(block, at::FEATURE_MAP, bits)).unwrap_err();
    for (bits, says) in [
        (Features::RESHAPE, "reshape"),
        (Features::BAD_BLOCKS, "bad blocks"),
        (Features::CLUSTERED, "cluster"),
        (Features::JOURNAL, "journal"),
        (Features::NEW_OFFSET | Features::RESHAPE_BACKWARDS, "reshape backwards, new data offset"),
        (1 << 13, "unknown bit 0x2000"),
        (Features::RAID0_LAYOUT, "feature_map"),
        (Features::PPL | Features::BITMAP, "feature_map"),
        (Features::RECOVERY_BITMAP, "feature_map"),
    ] {
        assert!(feature(bits).contains(says), "{}", feature(bits));
    }
    let put = |at: usize, value: u32| with(&raid5, |block| put_u32(block, at, value)).unwrap_err();
    for (at, value, says) in [
        (at::MAGIC, 0, "none"),
        (at::MAGIC, MAGIC.swap_bytes(), "0.90 of a big-endian"),
        (at::MAJOR_VERSION, 0, "version 0.0"),
        (at::MAJOR_VERSION, 2, "version 2"),
        (at::SUPER_OFFSET, 0, "version 1.1"),
        (at::SUPER_OFFSET, 2000, "version 1.0"),
        (at::LEVEL, 10, "raid10"),
        (at::LEVEL, !0, "linear"),
        (at::LEVEL, 77, "level 77"),
        (at::LAYOUT, 0, "left-asymmetric"),
        (at::LAYOUT, 16, "layout 16"),
        (at::PAD0, 1, "pad0"),
        (at::PAD3, 1, "pad3"),
        (at::RAID_DISKS, 0, "raid_disks"),
        (at::RAID_DISKS, 1, "dev_roles"),
        (at::CHUNKSIZE, 0, "chunksize"),
        (at::CHUNKSIZE, 7, "chunksize"),
        (at::SIZE, 0, "size"),
        (at::SIZE + 4, 1, "size"),
        (at::DATA_OFFSET, 15, "data_offset"),
        (at::DATA_SIZE + 4, !0, "data_size"),
        (at::DEV_NUMBER, 5000, "dev_number"),
        (at::RESYNC_OFFSET, !1, "resync_offset"),
    ] {
        assert!(put(at, value).contains(says), "{says}: {}", put(at, value));
    }
    let mut block = raid5.to_bytes();
    put_u32(&mut block, at::MAX_DEV, 1921);
    assert!(Superblock::parse(&block).unwrap_err().to_string().contains("max_dev"));
    assert_eq!(Superblock::parse(&[0; 100]), Err(SuperblockError::TooShort { found: 100 }));
    assert_eq!(Superblock::parse(&[0; 4096]), Err(SuperblockError::None));
}

#[test]
fn areas_lie_between_superblock_and_data() {
    let bitmap = superblock(Level::Raid1, NewConsistency::Bitmap(None));
    let at = |sectors: i32| {
        with(&bitmap, |block| put_u32(block, at::BITMAP_OFFSET, sectors.cast_unsigned()))
    };
    assert!(at(8).is_ok() && at(-1).is_ok() && at(-8).is_ok());
    for wrong in [0, 7, -9, i32::MIN, i32::MAX, (bitmap.data_offset / 512) as i32 - 8] {
        assert!(at(wrong).unwrap_err().contains("bitmap_offset"), "{wrong}");
    }
    let ppl = superblock(Level::Raid5, NewConsistency::Ppl);
    let size = |sectors| with(&ppl, |block| put_u16(block, at::PPL_SIZE, sectors));
    assert!(size(8).unwrap_err().contains("ppl.size"));
    assert!(size(16).is_ok());
    assert!(size(u16::MAX).unwrap_err().contains("ppl.offset"));
}

fn any_role() -> impl Strategy<Value = DeviceRole> {
    prop_oneof![
        Just(DeviceRole::Spare),
        Just(DeviceRole::Faulty),
        Just(DeviceRole::Journal),
        (0..4_u16).prop_map(DeviceRole::Active),
    ]
}

prop_compose! {
    fn any_superblock()(
        level in prop::sample::select(&Level::ALL[..]),
        consistency in 0..3,
        numbers in any::<(u64, u64, u64, u32)>(),
        bytes in any::<([u8; 16], [u8; 16], u8)>(),
        roles in prop::collection::vec(any_role(), 1..MOST_DEVICES),
        number in 0..MOST_DEVICES as u32,
        recovery in prop::option::of((0..1000_u64, any::<bool>())),
        in_sync_to in prop::option::of(0..1000_u64),
        is_replacement in any::<bool>(),
        log in prop::option::of((any::<i32>(), 1..=u16::MAX, any::<u8>())),
    ) -> Superblock {
        let consistency = match (consistency, level) {
            (1, Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6) => {
                NewConsistency::Bitmap(None)
            }
            (2, Level::Raid5) => NewConsistency::Ppl,
            _ => NewConsistency::Resync,
        };
        Superblock {
            array_uuid: Uuid(bytes.0),
            device_uuid: Uuid(bytes.1),
            created: Timestamp::from_word(numbers.0),
            updated: Timestamp::from_word(numbers.1),
            events: numbers.2,
            corrected_reads: numbers.3,
            device_flags: bytes.2,
            device_number: number,
            roles,
            recovery: recovery.map(|(done, by_bitmap)| Recovery { done_to: done * 512, by_bitmap }),
            in_sync_to: in_sync_to.map(|sectors| sectors * 512),
            is_replacement,
            bad_block_log: log.map(|(offset, sectors, shift)| BadBlockLog {
                offset: i64::from(offset) * 512,
                bytes: u64::from(sectors) * 512,
                shift,
            }),
            ..superblock(level, consistency)
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(superblock in any_superblock()) {
        let block = superblock.to_bytes();
        prop_assert_eq!(Superblock::parse(&block), Ok(superblock));
    }

    #[test]
    fn no_block_makes_it_panic(
        superblock in any_superblock(),
        changes in prop::collection::vec((0..256_usize, any::<u8>()), 0..20),
    ) {
        let parsed = with(&superblock, |block| {
            for (at, value) in changes {
                block[at] = value;
            }
            if get_u32(block, at::MAX_DEV) as usize > MOST_DEVICES {
                put_u32(block, at::MAX_DEV, 4);
            }
        });
        if let Ok(parsed) = parsed {
            let again = Superblock::parse(&parsed.to_bytes());
            prop_assert_eq!(again.as_ref(), Ok(&parsed));
            _ = parsed.array_layout();
        }
    }
}
