//! Hand-made event sequences, in blkparse's notation, for cases that real tools rarely produce.

use std::io::Cursor;

use trimtab_io::{Flags, Op};

use crate::format::blkparse::Blkparse;
use crate::names::Names;
use crate::record::Record;
use crate::source::{Lines, Source};

/// Pairs events given as `time action kind place`, of pid 7 and command `c`.
fn pair(events: &[&str]) -> Vec<Record> {
    let mut text = String::new();
    for event in events {
        let mut words = event.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (time, action, kind, place) = (word(), word(), word(), word());
        let note = if place.ends_with(']') {
            ""
        } else if action == "C" {
            " [0]"
        } else {
            " [c]"
        };
        text += &format!("8,0 1 1 0.{time:0>9} 7 {action} {kind} {place}{note}\n");
    }
    let mut source = Lines::new(Cursor::new(text), Blkparse::default(), "built by hand".into());
    let (mut names, mut records) = (Names::default(), Vec::new());
    while source.fill(&mut names, &mut records).unwrap() {}
    records.sort_by_key(|record| record.arrival);
    records
}

/// Arrival, issue, completion, first sector, sectors.
type Facts = (u64, Option<u64>, Option<u64>, u64, u64);

fn facts(records: &[Record]) -> Vec<Facts> {
    let facts = |r: &Record| {
        let (issue, complete) = (r.issue.map(|at| at.0), r.complete.map(|at| at.0));
        (r.arrival.0, issue, complete, r.offset / 512, r.length / 512)
    };
    records.iter().map(facts).collect()
}

#[test]
fn simple_request_has_all_times() {
    let records = pair(&[
        "10 Q RAM 64 + 8",
        "11 G RAM 64 + 8",
        "12 I RAM 64 + 8",
        "13 D RAM 64 + 8",
        "20 C RAM 64 + 8",
    ]);
    assert_eq!(facts(&records), [(10, Some(13), Some(20), 64, 8)]);
    let record = records[0];
    assert_eq!((record.op, record.pid), (Op::Read, Some(7)));
    assert_eq!(record.flags, Flags::READAHEAD | Flags::META);
    assert!(record.command.is_some());
}

#[test]
fn request_merges_at_both_ends() {
    let records = pair(&[
        "10 Q W 64 + 8",
        "11 G W 64 + 8",
        "12 Q W 72 + 8",
        "13 M W 72 + 8",
        "14 Q W 56 + 8",
        "15 F W 56 + 8",
        "16 I W 56 + 24",
        "17 D W 56 + 24",
        "20 C W 56 + 24",
    ]);
    assert_eq!(facts(&records), [(10, Some(17), Some(20), 56, 24)]);
    assert_eq!(records[0].flags, Flags::MERGED);
}

#[test]
fn requests_merge_with_or_without_an_event() {
    for merge in ["16 M W 72 + 8", "16 P N"] {
        let records = pair(&[
            "10 Q W 64 + 8",
            "11 G W 64 + 8",
            "12 Q W 72 + 8",
            "13 G W 72 + 8",
            merge,
            "17 D W 64 + 16",
            "20 C W 64 + 16",
        ]);
        assert_eq!(facts(&records), [(10, Some(17), Some(20), 64, 16)], "{merge}");
        assert_eq!(records[0].flags, Flags::MERGED);
    }
}

#[test]
fn split_bio_gives_two_requests_with_one_arrival() {
    // Old kernels queue the later part anew.
    for again in ["12 Q R 72 + 8", "12 P N"] {
        let records = pair(&[
            "10 Q R 64 + 16",
            "11 X R 64 / 72",
            again,
            "13 G R 64 + 8",
            "14 G R 72 + 8",
            "15 D R 64 + 8",
            "16 D R 72 + 8",
            "20 C R 64 + 8",
            "21 C R 72 + 8",
        ]);
        let expected = [(10, Some(15), Some(20), 64, 8), (10, Some(16), Some(21), 72, 8)];
        assert_eq!(facts(&records), expected, "{again}");
    }
}

#[test]
fn requeued_request_keeps_first_issue() {
    for back in ["14 R W 64 + 8 [0]", "14 P N"] {
        let records =
            pair(&["10 Q W 64 + 8", "13 D W 64 + 8", back, "16 D W 64 + 8", "20 C W 64 + 8"]);
        assert_eq!(facts(&records), [(10, Some(13), Some(20), 64, 8)], "{back}");
        assert_eq!(records[0].flags, Flags::REQUEUED);
    }
}

#[test]
fn partial_completions_are_joined() {
    let records = pair(&[
        "10 Q R 64 + 24",
        "13 D R 64 + 24",
        "20 C R 64 + 8",
        "21 C R 72 + 8 [65531]",
        "22 R R 80 + 8 [0]",
        "23 D R 80 + 8",
        "30 C R 80 + 8",
    ]);
    assert_eq!(facts(&records), [(10, Some(13), Some(30), 64, 24)]);
    assert_eq!(records[0].flags, Flags::PARTIAL | Flags::ERROR | Flags::REQUEUED);
}

#[test]
fn truncated_recordings_give_partial_records() {
    let records = pair(&[
        "10 C R 8 + 8",
        "11 D R 16 + 8",
        "12 G R 24 + 8",
        "13 D R 24 + 8",
        "14 I R 32 + 8",
        "15 D R 32 + 8",
        "20 C R 16 + 8",
        "21 C R 24 + 8",
        "22 C R 32 + 8",
        "30 Q R 40 + 8",
        "31 D R 40 + 8",
        "32 Q R 48 + 8",
        "33 Q R 56 + 8",
        "34 M R 56 + 8",
    ]);
    let expected = [
        (11, Some(11), Some(20), 16, 8),
        (12, Some(13), Some(21), 24, 8),
        (14, Some(15), Some(22), 32, 8),
        (30, Some(31), None, 40, 8),
        (32, None, None, 48, 8),
    ];
    assert_eq!(facts(&records), expected);
    assert_eq!(records[0].flags, Flags::ARRIVAL_IS_ISSUE);
    assert_eq!((records[0].pid, records[1].pid, records[2].pid), (None, Some(7), None));
}

#[test]
fn bio_based_devices_complete_the_bio() {
    let records = pair(&["10 Q W 64 + 8", "20 C W 64 + 8", "30 Q FWS [c]", "40 C FWS 0 [0]"]);
    assert_eq!(facts(&records), [(10, None, Some(20), 64, 8), (30, None, Some(40), 0, 0)]);
    assert_eq!(records[1].op, Op::Flush);
}

#[test]
fn one_flush_serves_all_waiting_bios() {
    let records = pair(&[
        "10 Q FWS [c]",
        "11 G FWS [c]",
        "12 Q FWS [c]",
        "13 G FWS [c]",
        "14 D FN [k]",
        "20 C FN 0 [0]",
        "21 C WS 0 [0]",
        "22 C WS 0 [0]",
    ]);
    assert_eq!(facts(&records), [(10, Some(14), Some(20), 0, 0)]);
    assert_eq!((records[0].op, records[0].flags), (Op::Flush, Flags::MERGED | Flags::SYNC));
}

#[test]
fn fua_write_gives_flushes_around_data() {
    let records = pair(&[
        "10 Q FWFS 64 + 8",
        "11 G FWFS 64 + 8",
        "12 D FN [k]",
        "20 C FN 0 [0]",
        "21 D WS 64 + 8",
        "30 C WS 64 + 8",
        "31 D FN [k]",
        "40 C FN 0 [0]",
        "41 C WS 72 [0]",
    ]);
    let expected = [
        (10, Some(12), Some(20), 0, 0),
        (10, Some(21), Some(30), 64, 8),
        (31, Some(31), Some(40), 0, 0),
    ];
    assert_eq!(facts(&records), expected);
    assert_eq!(records[1].flags, Flags::PREFLUSH | Flags::FUA | Flags::SYNC);
}

#[test]
fn silently_merged_discards_are_not_reported() {
    let records = pair(&[
        "10 Q D 64 + 8",
        "11 G D 64 + 8",
        "12 Q D 640 + 8",
        "13 D D 64 + 16",
        "20 C D 64 + 16",
    ]);
    assert_eq!(facts(&records), [(10, Some(13), Some(20), 64, 16)]);
    assert_eq!(records[0].op, Op::Discard);
}

#[test]
fn requests_at_one_offset_keep_their_order() {
    let records = pair(&[
        "10 Q R 64 + 8",
        "11 D R 64 + 8",
        "12 Q R 64 + 8",
        "13 D R 64 + 8",
        "14 Q R 64 + 16",
        "15 D R 64 + 16",
        "19 C R 64 + 16",
        "20 C R 64 + 8",
        "22 C R 64 + 8",
    ]);
    let expected = [
        (10, Some(11), Some(20), 64, 8),
        (12, Some(13), Some(22), 64, 8),
        (14, Some(15), Some(19), 64, 16),
    ];
    assert_eq!(facts(&records), expected);
}

#[test]
fn pass_through_and_irrelevant_events_are_skipped() {
    let records = pair(&[
        "10 Q R 36 [c]",
        "11 D R 36 (12 00 00 00 24 00) [c]",
        "12 C R (12 00 00 00 24 00) [0]",
        "13 A W 64 + 8 <- (8,1) 0 ",
        "14 m N some note",
        "15 UT N [c] 1",
        "16 G N [c]",
    ]);
    assert_eq!(facts(&records), []);
}
