use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use proptest::prelude::*;
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::*;
use crate::{Clock, Error, Format, Meta, Names, Record};

fn meta() -> Meta {
    let notes = vec![("machine".to_owned(), "a=b".to_owned())];
    Meta { format: Format::Parquet, clock: Clock::Own, has_offsets: true, notes }
}

fn begin(target: &Path) -> (Spool, Feed) {
    SpoolFile::create(target).unwrap().expect("a regular file").start(&meta())
}

fn names() -> Names {
    let mut names = Names::default();
    names.add_device("sda").unwrap();
    names.add_device("sdb").unwrap();
    names.add_command("fio").unwrap();
    names
}

/// Records in completion order: arrivals jump back and forth.
fn records(names: &mut Names, count: u64) -> Vec<Record> {
    let fio = names.add_command("fio").unwrap();
    (0..count)
        .map(|i| {
            let arrival = Nanos(1_000_000 * i + i * 7919 % 3_000_000);
            let device = DeviceId((i % 2) as u32);
            Record {
                issue: Some(arrival + Nanos(700)),
                complete: (i % 10 != 3).then_some(arrival + Nanos(90_000)),
                pid: (i % 3 == 0).then_some(4711),
                command: (i % 3 == 0).then_some(fio),
                flags: Flags::SYNC,
                ..Record::arriving(arrival, device, Op::Write, i * 4096, 4096)
            }
        })
        .collect()
}

/// A spool in a directory, as a crash leaves it.
fn spool_in(directory: &Path, count: u64) -> (std::path::PathBuf, Vec<Record>) {
    let target = directory.join("out.parquet");
    let (spool, mut feed) = begin(&target);
    let mut names = names();
    let records = records(&mut names, count);
    // One frame per call, once enough has come.
    for some in records.chunks(super::write::MAX_RECORDS) {
        feed.push(some, &names);
    }
    let path = spool.path().to_owned();
    drop(spool);
    (path, records)
}

fn read_bytes(bytes: &[u8]) -> (Vec<Record>, Result<(), Error>, Meta) {
    let mut out = Vec::new();
    let mut reader = match Reader::new(bytes, Path::new("x.spool")) {
        Ok(reader) => reader,
        Err(e) => return (out, Err(e), meta()),
    };
    let result = loop {
        match reader.read(&mut out) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(e) => break Err(e),
        }
    };
    (out, result, reader.meta().clone())
}

#[test]
fn flushed_records_are_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let (path, records) = spool_in(dir.path(), 20_000);
    let mut leftover = Leftover::open(&path).unwrap();
    let mut out = Vec::new();
    while leftover.read(&mut out).unwrap() {}
    // Two frames are full; the rest had not waited for long enough.
    assert!(out == records[..16_384], "{} records", out.len());
    assert_eq!(leftover.torn_off().unwrap(), 0);
    assert_eq!(leftover.meta(), &meta());
    assert_eq!(leftover.names().device(DeviceId(1)), "sdb");
    let first = out[0].command.unwrap();
    assert_eq!(leftover.names().command(first), "fio");
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes < 16_384 * 20, "{bytes} bytes for 16,384 records");
}

#[test]
fn few_records_are_written_after_a_second() {
    let dir = tempfile::tempdir().unwrap();
    let (spool, mut feed) = begin(&dir.path().join("a"));
    let mut names = names();
    let records = records(&mut names, 3);
    feed.push(&records, &names);
    for _ in 0..1000 {
        feed.push(&[], &names);
        if spool.has_records() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let path = spool.path().to_owned();
    drop(spool);
    assert!(read_bytes(&fs::read(path).unwrap()).0 == records);
}

/// A crash leaves a prefix of the file; every prefix is read up to its last complete frame, without
/// an error.
#[test]
fn truncation_at_any_byte_recovers_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = MAGIC.to_vec();
    let mut names = names();
    let all = records(&mut names, 60);
    let mut ends = Vec::new();
    frame::append(frame::FrameKind::Note, b"machine=a=b", &mut bytes);
    for name in ["sda", "sdb"] {
        frame::append(frame::FrameKind::Device, name.as_bytes(), &mut bytes);
    }
    frame::append(frame::FrameKind::Command, b"fio", &mut bytes);
    for some in all.chunks(7) {
        let payload = frame::pack_records(some).unwrap();
        frame::append(frame::FrameKind::Records, &payload, &mut bytes);
        ends.push((bytes.len(), some.len()));
    }
    for cut in 0..=bytes.len() {
        let (out, result, _) = read_bytes(&bytes[..cut]);
        let whole: usize =
            ends.iter().filter(|(end, _)| *end <= cut).map(|(_, records)| records).sum();
        assert!(out == all[..whole], "cut at {cut}: {} records, not {whole}", out.len());
        assert_eq!(result.is_ok(), cut >= MAGIC.len(), "cut at {cut}");
    }
    // A file system may leave zeroes in the last blocks.
    let whole = bytes.len();
    bytes.extend([0; 5000]);
    let path = dir.path().join("zeroes.spool");
    fs::write(&path, &bytes).unwrap();
    let mut leftover = Leftover::open(&path).unwrap();
    let mut out = Vec::new();
    while leftover.read(&mut out).unwrap() {}
    assert!(out == all);
    assert_eq!(leftover.torn_off().unwrap(), (bytes.len() - whole) as u64);
}

#[test]
fn empty_and_discarded_spools_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = || fs::read_dir(dir.path()).unwrap().count();
    drop(spool_in(dir.path(), 0));
    assert_eq!(files(), 0);
    let (spool, mut feed) = begin(&dir.path().join("a"));
    let mut names = names();
    feed.push(&records(&mut names, 10_000), &names);
    assert_eq!(files(), 1);
    spool.discard();
    assert_eq!(files(), 0);
    drop(SpoolFile::create(&dir.path().join("a")).unwrap().unwrap());
    assert_eq!(files(), 0);
    assert!(SpoolFile::create(Path::new("/dev/null")).unwrap().is_none());
    assert!(SpoolFile::create(Path::new("/nonexistent/a")).is_err());
}

#[test]
fn live_spools_are_neither_leftovers_nor_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("out.parquet");
    let (spool, _feed) = begin(&target);
    assert!(leftovers(dir.path()).is_empty());
    let error = Leftover::open(spool.path()).err().unwrap().to_string();
    assert!(error.contains("still being recorded"), "{error}");
    let (second, _feed) = begin(&target);
    assert_ne!(second.path(), spool.path());
    assert_eq!(trace_of(spool.path()), Some(target.clone()));
    assert_eq!(trace_of(second.path()), Some(target));
    assert_eq!(trace_of(Path::new("a.parquet")), None);
    drop((spool, second));
    let (left, _) = spool_in(dir.path(), 10_000);
    fs::write(dir.path().join("other.spool"), "something else").unwrap();
    assert_eq!(leftovers(dir.path()), [left]);
}

#[test]
fn full_disk_is_reported_once_without_blocking() {
    let dir = tempfile::tempdir().unwrap();
    // Writes through this name always fail.
    let target = dir.path().join("out.parquet");
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (spool, mut feed) =
        SpoolFile::on(dir.path().join("out.parquet.spool"), full).start(&meta());
    let mut names = names();
    for _ in 0..200 {
        feed.push(&records(&mut names, 8192), &names);
    }
    let failure = (0..500).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        spool.failure()
    });
    let failure = failure.expect("the failure is reported").to_string();
    assert!(failure.contains("cannot write"), "{failure}");
    assert!(spool.failure().is_none());
    assert!(!target.exists());
}

#[test]
fn invalid_frames_are_refused() {
    let (mut names, mut bytes) = (names(), MAGIC.to_vec());
    let some = records(&mut names, 2);
    let payload = frame::pack_records(&some).unwrap();
    frame::append(frame::FrameKind::Records, &payload, &mut bytes);
    let (out, result, _) = read_bytes(&bytes);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("byte 16") && error.contains("has no name"), "{error}");
    assert!(out.is_empty());
    let (_, result, _) = read_bytes(b"PAR1 and so on, more than sixteen");
    let error = result.unwrap_err().to_string();
    assert!(
        error.ends_with("is not a spool of a recording, which begins with `trimtab-spool 1`"),
        "{error}"
    );
}

proptest! {
    /// Whatever byte is damaged, the result is a prefix of the records.
    #[test]
    fn damage_recovers_a_prefix(at in 0_usize..2000, by in 1_u8..) {
        let (mut names, mut bytes) = (names(), MAGIC.to_vec());
        let all = records(&mut names, 40);
        frame::append(frame::FrameKind::Device, b"sda", &mut bytes);
        frame::append(frame::FrameKind::Device, b"sdb", &mut bytes);
        frame::append(frame::FrameKind::Command, b"fio", &mut bytes);
        for some in all.chunks(10) {
            frame::append(frame::FrameKind::Records, &frame::pack_records(some).unwrap(), &mut bytes);
        }
        let at = at % bytes.len();
        bytes[at] = bytes[at].wrapping_add(by);
        let (out, _, _) = read_bytes(&bytes);
        prop_assert!(all.starts_with(&out) && out.len() < all.len());
    }

    #[test]
    fn delta_encoding_round_trips(times in prop::collection::vec(any::<[u64; 3]>(), 1..50)) {
        let records: Vec<_> = times
            .iter()
            .map(|&[arrival, issue, complete]| Record {
                issue: Some(Nanos(issue)),
                complete: Some(Nanos(complete)),
                ..Record::arriving(Nanos(arrival), DeviceId(0), Op::Read, 0, 512)
            })
            .collect();
        let mut out = Vec::new();
        frame::unpack_records(&frame::pack_records(&records).unwrap(), &mut out).unwrap();
        prop_assert_eq!(out, records);
    }
}

#[test]
fn spool_is_not_opened_as_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let (path, _) = spool_in(dir.path(), 10_000);
    let error = crate::Trace::open(&[path], &crate::TraceOptions::default()).err().unwrap();
    assert!(error.to_string().contains("trimtab trace recover"), "{error}");
    let mut torn = tempfile::NamedTempFile::new().unwrap();
    torn.write_all(MAGIC).unwrap();
    let torn = crate::Trace::open(&[torn.path().to_owned()], &crate::TraceOptions::default());
    assert!(torn.err().unwrap().to_string().contains("trimtab trace recover"));
}
