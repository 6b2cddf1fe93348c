use trimtab_array::{Level, Rotation};
use trimtab_md::{ArrayName, NewArray, NewConsistency, NewMember, Uuid};

use super::*;

const MIB: u64 = 1 << 20;
const NOW: Timestamp = Timestamp { seconds: 1, microseconds: 0 };

/// The metadata of a new array of three members, which agree.
fn metadata() -> Metadata {
    let member = |id| Some(NewMember { bytes: 300 * MIB, uuid: Uuid([id; 16]), flags: 0 });
    let array = NewArray {
        uuid: Uuid([9; 16]),
        name: ArrayName::new("some").unwrap(),
        level: Level::Raid5,
        rotation: Rotation::LeftSymmetric,
        chunk: 64 << 10,
        members: vec![member(1), member(2), member(3)],
        spares: vec![],
        consistency: NewConsistency::Bitmap(None),
        is_in_sync: true,
        now: NOW,
    };
    let all = array.create().unwrap();
    let bitmap = all[0].bitmap.clone();
    Metadata::new(all.into_iter().map(|one| Some(one.superblock)).collect(), bitmap)
}

/// Has the changes written, and returns what was.
fn write(metadata: &mut Metadata) -> Job {
    let job = metadata.take_job(NOW).expect("something has changed");
    metadata.written(job.version);
    job
}

#[test]
fn write_waits_for_its_bit_and_for_no_other_change() {
    let mut metadata = metadata();
    assert!(metadata.is_settled() && metadata.take_job(NOW).is_none());
    let first = metadata.intend(0..MIB);
    assert!(!metadata.is_written(first));
    let job = write(&mut metadata);
    assert!(metadata.is_written(first));
    let written = job.superblocks[2].as_ref().unwrap();
    assert_eq!((written.in_sync_to, written.events), (Some(0), 2));
    assert!(job.all && !job.sync_first);
    assert!(job.bitmap.as_ref().unwrap().is_dirty(0..1));
    assert_eq!(job.bitmap.unwrap().header().events, 2);
    // The same region needs nothing, whatever else changes.
    _ = metadata.forget(1, DeviceRole::Faulty);
    let again = metadata.intend(MIB..2 * MIB);
    assert!(metadata.is_written(again));
    // Another region is written with the bitmap alone, when the job before is done.
    write(&mut metadata);
    let other = metadata.intend(100 * MIB..101 * MIB);
    assert!(!metadata.is_written(other));
    let job = metadata.take_job(NOW).unwrap();
    assert!(!job.all && metadata.take_job(NOW).is_none());
    metadata.written(job.version);
    assert!(metadata.is_written(other));
}

/// A write that comes while its bit is being cleared waits until it is set again.
#[test]
fn bit_is_set_again_after_it_was_cleared() {
    let mut metadata = metadata();
    _ = metadata.intend(0..MIB);
    write(&mut metadata);
    metadata.settle(0..64 * MIB);
    let clearing = metadata.take_job(NOW).unwrap();
    assert!(clearing.sync_first, "data are on stable storage before a bit is cleared");
    assert!(!clearing.bitmap.as_ref().unwrap().is_dirty(0..1));
    let needed = metadata.intend(0..MIB);
    metadata.written(clearing.version);
    assert!(!metadata.is_written(needed));
    assert!(write(&mut metadata).bitmap.unwrap().is_dirty(0..1));
    assert!(metadata.is_written(needed));
}

#[test]
fn failed_member_is_faulty_to_the_others() {
    let mut metadata = metadata();
    let failed = metadata.forget(1, DeviceRole::Faulty);
    let job = write(&mut metadata);
    assert!(metadata.is_written(failed) && job.superblocks[1].is_none());
    for superblock in job.superblocks.iter().flatten() {
        assert_eq!((superblock.role_of(1), superblock.events), (DeviceRole::Faulty, 2));
    }
    // A new device in its place has a number of its own.
    let number = metadata.free_number().unwrap();
    let like = metadata.superblock(0).unwrap().clone();
    _ = metadata.admit(1, Superblock { device_number: number, ..like });
    let job = write(&mut metadata);
    for superblock in job.superblocks.iter().flatten() {
        assert_eq!(superblock.role_of(number), DeviceRole::Active(1));
        assert_eq!(superblock.role_of(1), DeviceRole::Faulty);
    }
    let new = job.superblocks[1].as_ref().unwrap();
    assert_eq!(new.recovery, Some(Recovery { done_to: 0, by_bitmap: false }));
    _ = metadata.rebuilt(1, None);
    let job = write(&mut metadata);
    assert!(job.sync_first && job.superblocks[1].as_ref().unwrap().recovery.is_none());
}

/// At each step a crash finds the member, what replaces it, or both complete.
#[test]
fn replacement_is_complete_before_the_member_goes() {
    let mut metadata = metadata();
    let like = metadata.superblock(0).unwrap().clone();
    let number = metadata.free_number().unwrap();
    _ = metadata.admit_replacement(3, 1, Superblock { device_number: number, ..like });
    assert_ne!(metadata.free_number(), Some(number));
    let job = write(&mut metadata);
    let new = job.superblocks[3].as_ref().unwrap();
    assert!(new.is_replacement && new.recovery.is_some());
    for superblock in job.superblocks.iter().flatten() {
        assert_eq!(superblock.role_of(1), DeviceRole::Active(1));
        assert_eq!(superblock.role_of(number), DeviceRole::Active(1));
    }
    _ = metadata.rebuilt(3, None);
    let job = write(&mut metadata);
    let new = job.superblocks[3].as_ref().unwrap();
    assert!(job.sync_first && new.is_replacement && new.recovery.is_none());
    assert_eq!(job.superblocks[1].as_ref().unwrap().role(), DeviceRole::Active(1));
    _ = metadata.take_over(1, 3);
    let job = write(&mut metadata);
    assert!(job.superblocks[3].is_none());
    let new = job.superblocks[1].as_ref().unwrap();
    assert!(!new.is_replacement && new.device_number == number);
    assert_eq!((new.role(), new.role_of(1)), (DeviceRole::Active(1), DeviceRole::Faulty));
}

#[test]
fn job_that_could_not_begin_is_done_again() {
    let mut metadata = metadata();
    _ = metadata.intend(0..MIB);
    write(&mut metadata);
    metadata.settle(0..64 * MIB);
    let needed = metadata.set_dirty(false);
    let job = metadata.take_job(NOW).unwrap();
    metadata.not_written(job.all);
    assert!(!metadata.is_written(needed) && !metadata.is_settled());
    let again = write(&mut metadata);
    assert!(again.all && again.sync_first && again.version == job.version);
    assert!(again.superblocks[0].as_ref().unwrap().in_sync_to.is_none());
}

/// A resync goes on from where it was, until something is written that may be before that.
#[test]
fn write_during_a_resync_without_a_bitmap_begins_it_anew() {
    let with_bitmap = metadata();
    let begun = with_bitmap.superblocks.iter().flatten().map(|one| {
        let consistency = Consistency::Resync;
        Some(Superblock { in_sync_to: Some(50 * MIB), consistency, ..one.clone() })
    });
    let mut metadata = Metadata::new(begun.collect(), None);
    assert!(metadata.is_dirty());
    let needed = metadata.intend(0..MIB);
    assert!(!metadata.is_written(needed));
    let job = write(&mut metadata);
    assert!(metadata.is_written(needed));
    assert!(job.superblocks.iter().flatten().all(|one| one.in_sync_to == Some(0)));
    let again = metadata.intend(0..MIB);
    assert!(metadata.is_written(again) && metadata.take_job(NOW).is_none());
    // With a bitmap its bits say that.
    let mut metadata = self::metadata();
    metadata.superblocks.iter_mut().flatten().for_each(|one| one.in_sync_to = Some(50 * MIB));
    metadata.is_dirty = true;
    _ = metadata.intend(0..MIB);
    let written = write(&mut metadata).superblocks;
    assert!(written.iter().flatten().all(|one| one.in_sync_to == Some(50 * MIB)));
}
