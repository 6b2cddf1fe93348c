//! blktrace's binary output and blkparse's text, recorded from a real device
//! (tests/data/README-blktrace.md says how).

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use trimtab_io::{Flags, Op};
use trimtab_trace::{Error, Format, Position, Record, Trace, TraceOptions};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// A trace's records with names instead of numbers, in an order that does not depend on the sorting
/// of equal arrivals.
fn read_all(paths: &[PathBuf], options: &TraceOptions) -> Result<Vec<(Record, String)>, Error> {
    let mut trace = Trace::open(paths, options)?;
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while trace.read(&mut batch)? {
        for record in &batch {
            let names = trace.names();
            let command = record.command.map_or("?", |command| names.command(command));
            let name = format!("{} {command}", names.device(record.device));
            all.push((Record { command: None, ..*record }, name));
        }
    }
    all.sort_by_key(|(record, _)| (record.arrival, record.offset, record.issue));
    Ok(all)
}

fn recording(names: &[&str]) -> Vec<(Record, String)> {
    let paths: Vec<_> = names.iter().map(|name| data(name)).collect();
    read_all(&paths, &TraceOptions::default()).unwrap()
}

const PER_CPU: [&str; 2] = ["vda.blktrace.0", "vda.blktrace.1"];

#[test]
fn all_forms_of_a_recording_give_the_same_records() {
    let expected = recording(&PER_CPU);
    for form in
        ["vda", "vda.blktrace", "vda.merged.zst", "vda-big-endian.merged.gz", "vda.blkparse"]
    {
        assert!(recording(&[form]) == expected, "{form}");
    }
}

#[test]
fn requests_and_bytes_match_the_kernels_counters() {
    let records = recording(&PER_CPU);
    let count = |op| records.iter().filter(|(r, _)| r.op == op).count();
    let kib =
        |op| records.iter().filter(|(r, _)| r.op == op).map(|(r, _)| r.length).sum::<u64>() / 1024;
    // The difference of /sys/block/vda/stat before and after.
    assert_eq!((count(Op::Read), kib(Op::Read)), (63, 756));
    assert_eq!((count(Op::Write), kib(Op::Write)), (74, 1832));
    assert_eq!((count(Op::Discard), kib(Op::Discard)), (7, 53_180));
    assert_eq!((count(Op::Flush), kib(Op::Flush)), (20, 0));
}

#[test]
fn every_request_has_times_and_names() {
    let records = recording(&PER_CPU);
    for (record, name) in &records {
        let (issue, complete) = (record.issue.unwrap(), record.complete.unwrap());
        assert!(record.arrival <= issue && issue < complete, "{record:?}");
        assert!(name.starts_with("254,0 "), "{name}");
        // The flush after a FUA write; it has no submitter.
        let has_no_submitter =
            record.op == Op::Flush && record.flags.contains(Flags::ARRIVAL_IS_ISSUE);
        assert_eq!(name == "254,0 ?", has_no_submitter, "{record:?}");
        assert!(has_no_submitter || !record.flags.contains(Flags::ARRIVAL_IS_ISSUE), "{record:?}");
    }
    // fio's 48 random reads. (The others are the file system's.)
    let random = |r: &Record| r.op == Op::Read && r.flags.is_empty() && r.length == 4096;
    let fio = records.iter().filter(|(r, name)| random(r) && name == "254,0 fio");
    assert_eq!(fio.count(), 48);
    // The one sector that the device could not read.
    let failed: Vec<_> = records.iter().filter(|(r, _)| r.flags.contains(Flags::ERROR)).collect();
    let [(failed, name)] = failed[..] else { panic!("{failed:?}") };
    assert_eq!((failed.op, failed.offset, failed.length), (Op::Read, 96 << 20, 4096));
    assert_eq!(name, "254,0 dd");
    // A read of 256 KiB on a device with a maximum of 64 KiB: parts with the same arrival.
    let dd: Vec<_> = records.iter().filter(|(_, name)| name == "254,0 dd").collect();
    assert!(dd.len() >= 8 && dd.iter().all(|(r, _)| r.length <= 64 << 10));
    assert!(dd.windows(2).any(|pair| pair[0].0.arrival == pair[1].0.arrival));
    // The front merges: 8 writes of 4 KiB at once, backwards.
    let merged = |r: &Record| r.op == Op::Write && r.flags.contains(Flags::MERGED);
    assert!(
        records.iter().any(|(r, name)| merged(r) && r.length == 32 << 10 && name == "254,0 fio")
    );
}

#[test]
fn arrival_order() {
    for name in ["vda", "vda.blkparse"] {
        let mut trace = Trace::open(&[data(name)], &TraceOptions::default()).unwrap();
        let (mut batch, mut all) = (Vec::new(), Vec::new());
        while trace.read(&mut batch).unwrap() {
            all.append(&mut batch);
        }
        assert!(all.is_sorted_by_key(|r| r.arrival), "{name}");
        let format = if name == "vda" { Format::Blktrace } else { Format::Blkparse };
        assert_eq!(trace.meta().format, format);
    }
}

/// Reads `bytes` as a file of this format.
fn read_bytes(bytes: &[u8], format: Format, skip_bad: bool) -> Result<usize, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    fs::write(&path, bytes).unwrap();
    let options = TraceOptions { format: Some(format), skip_bad, ..TraceOptions::default() };
    read_all(&[path], &options).map(|records| records.len())
}

fn byte_of(error: &Error) -> u64 {
    match error {
        Error::Malformed { at: Position::Byte(byte), .. } => *byte,
        other => panic!("{other}"),
    }
}

/// Offset of the first relevant event (`Q`) in `vda.blktrace.1`, behind a process's name and a
/// remap, of 48 + 16 bytes each.
const FIRST_WITH_DATA: usize = 64 + 64;

#[test]
fn damage_error_names_the_byte() {
    let good = fs::read(data("vda.blktrace.1")).unwrap();
    let cut = read_bytes(&good[..FIRST_WITH_DATA + 10], Format::Blktrace, false).unwrap_err();
    assert_eq!(byte_of(&cut), FIRST_WITH_DATA as u64);
    assert!(cut.to_string().contains("ends 10 bytes into a record"), "{cut}");

    let damaged = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        read_bytes(&bytes, Format::Blktrace, false).unwrap_err()
    };
    let magic = damaged(64 + 3, 0);
    assert_eq!(byte_of(&magic), 64);
    assert!(magic.to_string().contains("0x65617407"), "{magic}");
    let version = damaged(64, 8);
    assert!(version.to_string().contains("found version 8"), "{version}");
    let pdu = damaged(64 + 47, 0xff);
    assert_eq!(byte_of(&pdu), 64);
    assert!(pdu.to_string().contains("pdu_len"), "{pdu}");
    let sector = damaged(FIRST_WITH_DATA + 23, 0xff);
    assert_eq!(byte_of(&sector), FIRST_WITH_DATA as u64);
    assert!(sector.to_string().contains("sector"), "{sector}");
}

#[test]
fn bad_record_can_be_skipped() {
    let mut bytes = fs::read(data("vda.blktrace.1")).unwrap();
    let whole = read_bytes(&bytes, Format::Blktrace, true).unwrap();
    bytes[FIRST_WITH_DATA + 23] = 0xff;
    assert!(read_bytes(&bytes, Format::Blktrace, false).is_err());
    // The `Q` was lost; the request is known from its `G`.
    assert_eq!(read_bytes(&bytes, Format::Blktrace, true).unwrap(), whole);
}

#[test]
fn text_error_names_the_line() {
    let mut text = fs::read_to_string(data("vda.blkparse")).unwrap();
    text.insert_str(text.find('\n').unwrap() + 1, "what is this\n");
    let error = read_bytes(text.as_bytes(), Format::Blkparse, false).unwrap_err();
    assert_eq!(error.line(), Some(2), "{error}");
}

#[test]
fn base_names_expand_to_nonempty_files() {
    let folder = tempfile::tempdir().unwrap();
    for (name, to) in [(PER_CPU[0], "sda.blktrace.2"), (PER_CPU[1], "sda.blktrace.10")] {
        fs::copy(data(name), folder.path().join(to)).unwrap();
    }
    fs::write(folder.path().join("sda.blktrace.3"), "").unwrap();
    fs::write(folder.path().join("sda.blktrace.txt"), "no such file").unwrap();
    let expected = recording(&PER_CPU);
    for name in ["sda", "sda.blktrace"] {
        let found = read_all(&[folder.path().join(name)], &TraceOptions::default()).unwrap();
        assert!(found == expected, "{name}");
    }
    let missing = read_all(&[folder.path().join("sdb")], &TraceOptions::default());
    assert!(matches!(missing, Err(Error::Open { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 1..500)) {
        let _ = read_bytes(&bytes, Format::Blktrace, true);
        let _ = read_bytes(&bytes, Format::Blkparse, true);
    }

    #[test]
    fn no_damage_panics(at in prop::collection::vec((0_usize..30_000, any::<u8>()), 1..200)) {
        for (name, format) in
            [("vda.blktrace.0", Format::Blktrace), ("vda.blkparse", Format::Blkparse)]
        {
            let mut bytes = fs::read(data(name)).unwrap();
            for &(at, byte) in &at {
                bytes[at] = byte;
            }
            let _ = read_bytes(&bytes, format, true);
        }
    }
}
