use proptest::prelude::*;
use trimtab_array::{Level, Rotation};

use super::*;

const CHUNK: u64 = 64 << 10;

fn layout() -> Layout {
    Layout::new(Level::Raid5, Rotation::LeftSymmetric, 4, CHUNK, 10 * CHUNK).unwrap()
}

#[test]
fn recovery_says_which_parity_to_compute() {
    let layout = layout();
    let mut log = PplLog::new(7, 3, 128 << 10);
    // Stripe 1, pages 2 and 3 of its chunks 1 and 2; then all of page 0 of stripe 2.
    assert!(log.push(&layout, 4 * CHUNK + 8192, 2, 8192, &[5; 8192]));
    assert!(log.push(&layout, 6 * CHUNK, 3, 4096, &[]));
    let bytes = log.to_bytes();
    let header = PplHeader::parse(&bytes, 7).unwrap();
    assert_eq!(&header, log.header());
    let recovery = header.recovery(&layout, &bytes, |_| true);
    assert_eq!((recovery.lost, recovery.damaged.len()), (0, 0));
    // Left-symmetric: the parity of stripe 1 is on member 2, and its data begin on member 3.
    let first = ParityUpdate {
        stripe: 1,
        parity_member: 2,
        offset: CHUNK + 8192,
        bytes: 8192,
        data_members: vec![0, 1],
        partial: Some(4096..12288),
    };
    let second = ParityUpdate {
        stripe: 2,
        parity_member: 1,
        offset: 2 * CHUNK,
        bytes: 4096,
        data_members: vec![2, 3, 0],
        partial: None,
    };
    assert_eq!(recovery.updates, [first, second.clone()]);
    // Without member 1, the first write's data are lost; the second's have no such member.
    let recovery = header.recovery(&layout, &bytes, |member| member != 1);
    assert_eq!((recovery.lost, recovery.updates), (1, vec![second]));
}

#[test]
fn torn_partial_parity_is_not_used() {
    let layout = layout();
    let mut log = PplLog::new(7, 1, 128 << 10);
    log.push(&layout, 0, 1, 4096, &[1; 4096]);
    log.push(&layout, 4096, 1, 4096, &[2; 4096]);
    let mut bytes = log.to_bytes();
    bytes[4096 + 17] ^= 1;
    let recovery = log.header().recovery(&layout, &bytes, |_| true);
    assert_eq!((recovery.updates.len(), recovery.damaged.len()), (1, 1));
    assert!(
        recovery.damaged[0].to_string().contains("entry 0: its partial parity was not written")
    );
    let recovery = log.header().recovery(&layout, &bytes[..8192], |_| true);
    assert!(recovery.damaged[1].to_string().contains("behind the log"));
}

#[test]
fn entries_that_do_not_fit_the_array_are_damaged() {
    let layout = layout();
    let good = PplEntry {
        data_offset: 0,
        partial_bytes: 4096,
        data_bytes: 8192,
        parity_member: 3,
        checksum: crc32c([&[0; 4096][..]]),
    };
    let log = [0; 8192 + 4096];
    let says = |entry: PplEntry| {
        let header = PplHeader { signature: 1, generation: 1, entries: vec![entry] };
        let recovery = header.recovery(&layout, &log, |_| true);
        recovery.damaged.first().map(ToString::to_string).unwrap_or_default()
    };
    assert_eq!(says(good), "");
    for (entry, what) in [
        (PplEntry { data_offset: layout.capacity(), ..good }, "behind the end"),
        (PplEntry { data_bytes: 4096 * 4, ..good }, "one stripe"),
        (PplEntry { data_bytes: 6000, ..good }, "as many pages"),
        (PplEntry { data_bytes: 0, ..good }, "as many pages"),
        (PplEntry { parity_member: 2, ..good }, "another member"),
        (PplEntry { data_offset: 2 * CHUNK, ..good }, "one stripe"),
        (PplEntry { checksum: 0, ..good }, "damaged"),
    ] {
        assert!(says(entry).contains(what), "{what}: {}", says(entry));
    }
}

#[test]
fn newest_of_several_logs_counts() {
    let layout = layout();
    let mut area = Vec::new();
    for generation in [5, 6, 3] {
        let mut log = PplLog::new(1, generation, 128 << 10);
        log.push(&layout, 0, 1, 4096, &[generation as u8; 4096]);
        area.extend(log.to_bytes());
    }
    area.resize(1 << 20, 0);
    let (at, header) = newest_ppl(&area, 1, true).unwrap();
    assert_eq!((at, header.generation), (8192, 6));
    let (at, header) = newest_ppl(&area, 1, false).unwrap();
    assert_eq!((at, header.generation), (0, 5));
    assert!(matches!(newest_ppl(&area, 2, true), Err(PplError::Signature { .. })));
    area[0] ^= 1;
    assert!(matches!(newest_ppl(&area, 1, true), Err(PplError::Checksum { .. })));
}

#[test]
fn full_logs_take_no_more() {
    let layout = layout();
    let mut log = PplLog::new(1, 1, 4096 + 8192);
    assert!(log.push(&layout, 0, 1, 8192, &[0; 8192]));
    assert!(!log.push(&layout, 0, 1, 4096, &[0; 4096]));
    let mut log = PplLog::new(1, 1, 1 << 20);
    let count = (0..200).filter(|_| log.push(&layout, 0, 3, 4096, &[])).count();
    assert_eq!(count, MOST_PPL_ENTRIES);
    assert_eq!(MOST_PPL_ENTRIES, 148);
    assert_eq!(PplHeader::parse(&log.to_bytes(), 1).as_ref(), Ok(log.header()));
}

proptest! {
    /// Members of a stripe, a write of which only a part arrived, and a lost member: its data come
    /// back from the parity, unless the write was for them.
    #[test]
    fn what_a_write_leaves_alone_survives_a_crash(
        stripe in 0..10_u64,
        first in 0..3_usize,
        more in 0..3_usize,
        old in any::<[u8; 3]>(),
        new in any::<[u8; 3]>(),
        arrived in any::<[bool; 3]>(),
        torn_parity in any::<u8>(),
    ) {
        let layout = layout();
        let chunks = 1 + more.min(2 - first);
        let written = first..first + chunks;
        let page = |byte: u8| vec![byte; 4096];
        let alone = (0..3).filter(|index| !written.contains(index));
        let partial = page(alone.clone().fold(0, |sum, index| sum ^ old[index]));
        let offset = (stripe * 3 + first as u64) * CHUNK;
        let mut log = PplLog::new(1, 1, 128 << 10);
        let logged = if chunks == 3 { &[][..] } else { &partial };
        prop_assert!(log.push(&layout, offset, chunks, 4096, logged));
        // The crash: some of the chunks, and anything for the parity.
        let mut members = vec![page(torn_parity); 4];
        for index in 0..3 {
            let is_new = written.contains(&index) && arrived[index];
            members[layout.data_member(stripe, index)] =
                page(if is_new { new[index] } else { old[index] });
        }
        let bytes = log.to_bytes();
        for update in log.header().recovery(&layout, &bytes, |_| true).updates {
            let mut parity = update.partial.map_or(page(0), |range| bytes[range].to_vec());
            for &member in &update.data_members {
                parity.iter_mut().zip(&members[member]).for_each(|(sum, byte)| *sum ^= byte);
            }
            members[update.parity_member] = parity;
        }
        for index in alone {
            let lost = layout.data_member(stripe, index);
            let others = (0..4).filter(|&member| member != lost);
            let restored = others.fold(0, |sum, member| sum ^ members[member][0]);
            prop_assert_eq!(restored, old[index]);
        }
    }

    #[test]
    fn every_changed_bit_of_a_header_is_detected(at in 0..PPL_HEADER_BYTES, flip in 1..=255_u8) {
        let mut log = PplLog::new(1, 1, 128 << 10);
        log.push(&layout(), 0, 1, 4096, &[9; 4096]);
        let mut bytes = log.header().to_bytes();
        bytes[at] ^= flip;
        prop_assert!(PplHeader::parse(&bytes, 1).is_err());
    }
}
