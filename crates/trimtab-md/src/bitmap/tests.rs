use proptest::prelude::*;

use super::*;

fn header(sync_bytes: u64, chunk: u64) -> BitmapHeader {
    BitmapHeader {
        array_uuid: Uuid([3; 16]),
        events: 10,
        events_cleared: 8,
        sync_bytes,
        state: 0,
        chunk,
        clear_interval_s: 5,
        write_behind: 0,
        reserved: 64 << 10,
    }
}

#[test]
fn small_bitmap_chunks_share_stripes() {
    let mut bitmap = Bitmap::new(header(1 << 20, 4096));
    bitmap.mark(4096..8192);
    bitmap.mark((12 << 10)..(16 << 10));
    bitmap.mark((200 << 10)..(201 << 10));
    assert_eq!(bitmap.dirty().count(), 3);
    assert_eq!(bitmap.dirty_stripes(64 << 10).collect::<Vec<_>>(), [0..1, 3..4]);
    assert_eq!(bitmap.dirty_bytes(), 12 << 10);
}

#[test]
fn part_of_a_chunk_is_not_cleared_but_the_last() {
    let mut bitmap = Bitmap::new(header((1 << 20) - 512, 64 << 10));
    bitmap.mark_all();
    assert_eq!(bitmap.clear(1..(128 << 10) - 1), None);
    assert_eq!(bitmap.clear(1..128 << 10), Some(256..257));
    bitmap.clear(0x10000 * 15..(1 << 20) - 512);
    assert!(!bitmap.is_dirty(0x10000 * 15..1 << 20));
    assert_eq!(bitmap.dirty().collect::<Vec<_>>(), [0..64 << 10, 128 << 10..0x10000 * 15]);
}

#[test]
fn bitmaps_behind_the_superblock_do_not_count() {
    let mut bitmap = Bitmap::new(header(1 << 20, 4096));
    assert!(bitmap.is_current(Uuid([3; 16]), 10));
    assert!(!bitmap.is_current(Uuid([3; 16]), 11));
    assert!(!bitmap.is_current(Uuid([4; 16]), 10));
    bitmap.set_state(BitmapHeader::STALE);
    assert!(!bitmap.is_current(Uuid([3; 16]), 10));
}

#[test]
fn damaged_headers_are_refused_by_field() {
    let good = header(1 << 20, 4096).to_bytes();
    let with = |at: usize, value: u32| {
        let mut bytes = good.to_vec();
        put_u32(&mut bytes, at, value);
        BitmapHeader::parse(&bytes).expect_err("damaged").to_string()
    };
    assert!(BitmapHeader::parse(&good).is_ok());
    for (at, value, says) in [
        (at::MAGIC, 0, "none"),
        (at::VERSION, 3, "version 3"),
        (at::VERSION, 5, "cluster"),
        (at::VERSION, 9, "version 9"),
        (at::CHUNKSIZE, 4095, "chunksize"),
        (at::CHUNKSIZE, 0, "chunksize"),
        (at::SYNC_SIZE + 4, 1 << 20, "sync_size"),
        (at::SYNC_SIZE + 4, !0, "sync_size"),
        (at::EVENTS_CLEARED, 11, "events_cleared"),
        (at::DAEMON_SLEEP, 0, "daemon_sleep"),
        (at::SECTORS_RESERVED, 0, ""),
    ] {
        if !says.is_empty() {
            assert!(with(at, value).contains(says), "{}", with(at, value));
        }
    }
    assert!(matches!(BitmapHeader::parse(&good[..255]), Err(BitmapError::TooShort { .. })));
    let bits = header(1 << 40, 4096).to_bytes();
    assert!(BitmapHeader::parse(&bits).unwrap_err().to_string().contains("sectors_reserved"));
}

proptest! {
    #[test]
    fn bits_are_those_of_a_set(
        sectors in 1_u64..4096,
        shift in 9_u32..16,
        steps in prop::collection::vec((any::<bool>(), any::<u64>(), any::<u64>()), 0..40),
    ) {
        let (bytes, chunk) = (sectors * 512, 1 << shift);
        let mut bitmap = Bitmap::new(header(bytes, chunk));
        let mut model = vec![false; bytes.div_ceil(chunk) as usize];
        for (sets, start, length) in steps {
            let start = start % bytes;
            let range = start..start + length % (bytes - start + 1);
            let before = bitmap.to_bytes();
            let changed =
                if sets { bitmap.mark(range.clone()) } else { bitmap.clear(range.clone()) };
            for (index, bit) in model.iter_mut().enumerate() {
                let (from, to) = (index as u64 * chunk, ((index as u64 + 1) * chunk).min(bytes));
                let touches = from < range.end && range.start < to && !range.is_empty();
                let is_within = range.start <= from && to <= range.end && !range.is_empty();
                match sets {
                    true if touches => *bit = true,
                    false if is_within => *bit = false,
                    _ => {}
                }
            }
            // What is said to have changed is exactly what has.
            let after = bitmap.to_bytes();
            let differs = |&at: &usize| before[at] != after[at];
            let first = (0..after.len()).find(differs);
            let last = (0..after.len()).rev().find(differs);
            prop_assert_eq!(changed, first.zip(last).map(|(a, b)| a as u64..b as u64 + 1));
            let dirty: u64 = bitmap.dirty().map(|range| range.end - range.start).sum();
            prop_assert_eq!(dirty, bitmap.dirty_bytes());
            for (index, bit) in model.iter().enumerate() {
                let from = index as u64 * chunk;
                prop_assert_eq!(bitmap.is_dirty(from..from + 1), *bit);
            }
        }
        prop_assert_eq!(Bitmap::parse(&bitmap.to_bytes()), Ok(bitmap));
    }
}
