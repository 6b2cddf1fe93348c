use trimtab_array::{Level, Rotation};
use trimtab_md::{
    ArrayName, NewArray, NewConsistency, NewMember, PplHeader, Timestamp, Uuid, newest_ppl,
};

use super::*;

const CHUNK: u64 = 64 << 10;

fn logs() -> (Logs, u32) {
    let member = |id| Some(NewMember { bytes: 64 << 20, uuid: Uuid([id; 16]), flags: 0 });
    let array = NewArray {
        uuid: Uuid([9; 16]),
        name: ArrayName::new("some").unwrap(),
        level: Level::Raid5,
        rotation: Rotation::LeftSymmetric,
        chunk: CHUNK,
        members: vec![member(1), member(2), member(3)],
        spares: vec![],
        consistency: NewConsistency::Ppl,
        is_in_sync: true,
        now: Timestamp { seconds: 1, microseconds: 0 },
    };
    let superblock = array.create().unwrap().remove(0).superblock;
    let layout = superblock.array_layout().unwrap();
    let logs = Logs::new(layout, &superblock, 7).unwrap();
    (logs, ppl_signature(superblock.array_uuid))
}

/// A write of so many bytes of chunk 0 of stripe 0, whose parity is on member 2.
fn entry(bytes: u32, byte: u8) -> Vec<Entry> {
    vec![Entry { data_offset: 0, chunks: 1, bytes, partial: vec![byte; bytes as usize] }]
}

/// The next log waits until the stripes of the one before are on stable storage.
#[test]
fn logs_of_a_member_follow_each_other() {
    let (mut logs, signature) = logs();
    logs.push(2, 0, entry(4096, 1));
    let first = logs.next(2).unwrap();
    let header = PplHeader::parse(&first.bytes, signature).unwrap();
    assert_eq!((header.generation, header.entries.len(), first.at), (8, 1, 0));
    logs.push(2, 1, entry(4096, 2));
    logs.push(2, 2, entry(8192, 3));
    assert!(logs.next(2).is_none());
    // Other members do not wait.
    logs.push(1, 5, entry(4096, 1));
    assert!(!logs.is_idle());
    assert!(logs.logged(2) == [0] && logs.next(2).is_none());
    assert_eq!((logs.part_done(1), logs.part_done(0)), (None, Some(2)));
    logs.flushing(2, 2);
    logs.flushed(2);
    assert!(logs.next(2).is_none());
    logs.flushed(2);
    let second = logs.next(2).unwrap();
    let header = PplHeader::parse(&second.bytes, signature).unwrap();
    assert_eq!((header.generation, header.entries.len(), second.at), (9, 2, 8192));
    assert_eq!(logs.logged(2), [1, 2]);
}

/// An array does not end before its last log has been flushed behind.
#[test]
fn logs_are_idle_when_all_has_been_answered() {
    let (mut logs, _) = logs();
    assert!(logs.is_idle());
    logs.push(2, 0, entry(4096, 1));
    assert!(!logs.is_idle());
    logs.next(2).unwrap();
    logs.logged(2);
    assert!(!logs.is_idle());
    logs.part_done(0);
    logs.flushing(2, 1);
    assert!(!logs.is_idle());
    logs.flushed(2);
    assert!(logs.is_idle());
}

/// Whatever of the area has been written, the newest log is found in it.
#[test]
fn newest_log_is_found_in_the_area() {
    let (mut logs, signature) = logs();
    let mut area = vec![0; logs.area as usize];
    for round in 0_u32..400 {
        let pages = 1 + round * 7 % 16;
        logs.push(2, round, entry(pages * 4096, round as u8));
        let log = logs.next(2).unwrap();
        let at = log.at as usize;
        area[at..at + log.bytes.len()].copy_from_slice(&log.bytes);
        let (start, header) = newest_ppl(&area, signature, true).unwrap();
        assert_eq!((start, header.generation), (at, 8 + u64::from(round)), "round {round}");
        assert_eq!(logs.logged(2), [round]);
        assert_eq!(logs.part_done(round), Some(2));
        logs.flushing(2, 0);
    }
}

#[test]
fn large_writes_have_logs_of_their_own() {
    let (mut logs, signature) = logs();
    for part in 0..3 {
        logs.push(2, part, entry(CHUNK as u32, 1));
    }
    let log = logs.next(2).unwrap();
    assert!(log.bytes.len() <= LOG_BYTES);
    assert_eq!(PplHeader::parse(&log.bytes, signature).unwrap().entries.len(), 1);
    assert!(Logs::has_room(&logs.layout, logs.area) && !Logs::has_room(&logs.layout, CHUNK));
}
