use std::fs;
use std::process::Command;

use proptest::prelude::*;
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::*;
use crate::fields::{MAX_LENGTH, MAX_OFFSET, MAX_TIME_NS};
use crate::reader::{Clock, Sorting, Trace, TraceOptions, with_trace};
use crate::{Format, Position};

fn meta() -> Meta {
    Meta { format: Format::Parquet, clock: Clock::Own, has_offsets: true, notes: Vec::new() }
}

fn write(path: &Path, format: OutputFormat, records: &[Record], names: &Names) -> LeftOut {
    let mut writer = Writer::create(path, format, &meta()).unwrap();
    writer.write(records, names).unwrap();
    let left_out = *writer.left_out();
    writer.finish().unwrap();
    left_out
}

fn read_from(
    path: &Path,
    options: &TraceOptions,
) -> Result<(Vec<Record>, Names, Meta, u64), Error> {
    with_trace(&[path.to_owned()], options, |trace| {
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while trace.read(&mut batch)? {
            all.append(&mut batch);
        }
        Ok((all, trace.names().clone(), trace.meta().clone(), trace.skipped()))
    })
}

/// A record with names in place of numbers.
fn shown(record: &Record, names: &Names) -> String {
    let (device, command) = (names.device(record.device), record.command.map(|c| names.command(c)));
    let plain = Record { device: DeviceId(0), command: None, ..*record };
    format!("{device:?} {command:?} {plain:?}")
}

fn edge(max: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(max), 0..=max, 0..100_u64]
}

prop_compose! {
    fn any_record()(
        (times, offset, length) in (
            prop::array::uniform3(edge(MAX_TIME_NS)), edge(MAX_OFFSET), edge(MAX_LENGTH)),
        (has_issue, has_complete, pid) in any::<(bool, bool, Option<u32>)>(),
        (flags, op, device) in (any::<u16>(), 0..4_u8, 0..3_u32),
        command in prop::option::of(0..3_usize),
    ) -> (Record, Option<usize>) {
        let mut times = times;
        times.sort_unstable();
        let record = Record {
            issue: has_issue.then_some(Nanos(times[1])),
            complete: has_complete.then_some(Nanos(times[2])),
            pid,
            flags: Flags::from_bits_retain(flags),
            ..Record::arriving(
                Nanos(times[0]), DeviceId(device), Op::from_u8(op).unwrap(), offset, length)
        };
        (record, command)
    }
}

fn some_names() -> (Names, Vec<crate::CommandId>) {
    let mut names = Names::default();
    for device in ["sda", "", "név me,0 \"x\""] {
        names.add_device(device).unwrap();
    }
    let commands = ["fio", "", "kworker/0:1"].map(|c| names.add_command(c).unwrap());
    (names, commands.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn parquet_round_trips(
        rows in prop::collection::vec(any_record(), 0..300),
        chunk in 1..120_usize,
        unix in any::<bool>(),
        has_offsets in any::<bool>(),
        notes in prop::collection::vec((any::<String>(), any::<String>()), 0..4),
        late in prop::option::of((any::<String>(), any::<String>())),
    ) {
        let (names, commands) = some_names();
        let mut records: Vec<_> = rows
            .into_iter()
            .map(|(record, command)| Record { command: command.map(|c| commands[c]), ..record })
            .collect();
        records.sort_by_key(|r| r.arrival);

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let clock = if unix { Clock::Unix } else { Clock::Own };
        let mut meta = Meta { clock, has_offsets, notes, ..meta() };
        let mut writer = Writer::create(&path, OutputFormat::Parquet, &meta).unwrap();
        for records in records.chunks(chunk) {
            writer.write(records, &names).unwrap();
        }
        if let Some((key, value)) = late {
            writer.set_note(&key, &value);
            meta.notes.push((key, value));
        }
        writer.finish().unwrap();

        let (read, read_names, read_meta, _) = read_from(&path, &TraceOptions::default()).unwrap();
        prop_assert_eq!(read_meta, meta);
        let read: Vec<_> = read.iter().map(|r| shown(r, &read_names)).collect();
        let written: Vec<_> = records.iter().map(|r| shown(r, &names)).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn damage_is_an_error_not_a_panic(
        place in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = fs::read(small()).unwrap();
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        for skip_bad in [false, true] {
            let format = Some(Format::Parquet);
            let options = TraceOptions { format, skip_bad, ..TraceOptions::default() };
            if let Err(e) = read_from(file.path(), &options) {
                prop_assert!(e.is_bad_input(), "{e}");
                prop_assert_eq!(e.to_string().lines().count(), 1);
            }
        }
    }
}

fn small() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/small.parquet")
}

/// The records of the committed file: some of each kind.
fn small_records(names: &mut Names) -> Vec<Record> {
    let devices = ["nvme0n1", "sda"].map(|d| names.add_device(d).unwrap());
    let command = names.add_command("postgres").unwrap();
    (0..600_u64)
        .map(|i| {
            let arrival = 1_700_000_000_000_000_000 + i * i * 100;
            Record {
                issue: (i % 3 != 0).then_some(Nanos(arrival + 700)),
                complete: (i % 5 != 0).then_some(Nanos(arrival + 80_000 + i)),
                pid: (i % 2 == 0).then_some(4_242),
                command: (i % 2 == 0).then_some(command),
                flags: if i % 7 == 0 { Flags::SYNC | Flags::META } else { Flags::empty() },
                ..Record::arriving(
                    Nanos(arrival),
                    devices[usize::from(i % 4 == 3)],
                    Op::ALL[(i % 4) as usize],
                    i * 7_919 % 1_000 * 4_096,
                    if i % 4 == 3 { 0 } else { 4_096 << (i % 5) },
                )
            }
        })
        .collect()
}

/// Files of earlier versions must stay readable. To recreate the file after a change of format, run
/// with `TRIMTAB_WRITE_GOLDEN=1`.
#[test]
fn golden_file_reads_unchanged() {
    let mut names = Names::default();
    let records = small_records(&mut names);
    if std::env::var_os("TRIMTAB_WRITE_GOLDEN").is_some() {
        let notes = vec![("recorder".to_owned(), "by hand".to_owned())];
        let meta = Meta { clock: Clock::Unix, notes, ..meta() };
        let mut writer = Writer::create(&small(), OutputFormat::Parquet, &meta).unwrap();
        writer.write(&records, &names).unwrap();
        writer.set_note("lost", "0");
        writer.finish().unwrap();
    }
    let (read, read_names, meta, _) = read_from(&small(), &TraceOptions::default()).unwrap();
    assert_eq!(read, records);
    let devices: Vec<_> = read_names.devices().map(|(_, name)| name).collect();
    assert_eq!(devices, ["nvme0n1", "sda"]);
    assert_eq!(read_names.command(read[0].command.unwrap()), "postgres");
    assert_eq!(meta.clock, Clock::Unix);
    let notes: Vec<_> = meta.notes.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(notes, [("recorder", "by hand"), ("lost", "0")]);
}

fn arriving(us: u64, op: Op) -> Record {
    let length = if op == Op::Flush { 0 } else { 4096 };
    Record::arriving(Nanos::from_micros(us), DeviceId(0), op, 8192, length)
}

#[test]
fn contradictory_record_error_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.parquet");
    let mut writer = Writer::create(&path, OutputFormat::Parquet, &meta()).unwrap();
    let bad = Record { complete: Some(Nanos(1)), ..arriving(5, Op::Read) };
    let error = writer.write(&[arriving(5, Op::Read), bad], &some_names().0).unwrap_err();
    assert!(error.to_string().contains("record 2: column complete_ns"), "{error}");
    drop(writer);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn fio_iolog_names_files_safely() {
    let mut names = Names::default();
    for device in ["a b", "a_b", "", "/dev/sda"] {
        names.add_device(device).unwrap();
    }
    let on = |us, device, op| Record { device: DeviceId(device), ..arriving(us, op) };
    let records = [
        on(0, 0, Op::Read),
        on(7, 1, Op::Write),
        on(7, 0, Op::Discard),
        on(9, 2, Op::Flush),
        Record { length: 1 << 40, ..on(9, 2, Op::Discard) },
        on(9, 3, Op::Read),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    let left_out = write(file.path(), OutputFormat::FioIolog, &records, &names);
    assert_eq!(left_out, LeftOut { out_of_range: 1, ..LeftOut::default() });
    let expected = "fio version 3 iolog
1 a_b add\n1 a_b open\n1 a_b read 8192 4096
8 a_b_2 add\n8 a_b_2 open\n8 a_b_2 write 8192 4096
8 a_b trim 8192 4096
10 device add\n10 device open\n10 device sync 8192 0
10 /dev/sda add\n10 /dev/sda open\n10 /dev/sda read 8192 4096
10 a_b close\n10 a_b_2 close\n10 device close\n10 /dev/sda close\n";
    assert_eq!(fs::read_to_string(file.path()).unwrap(), expected);
}

/// fio accepts the log, performs every request, and keeps the times.
#[test]
fn fio_replays_the_log() {
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Program("fio")]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a_disk"), vec![1; 1 << 20]).unwrap();
    let mut names = Names::default();
    names.add_device("a disk").unwrap();
    let records: Vec<_> = (0..10).map(|i| arriving(i * 30_000, Op::Read)).collect();
    write(&dir.path().join("log"), OutputFormat::FioIolog, &records, &names);
    let output = Command::new("fio")
        .args(["--name=replay", "--read_iolog=log", "--output-format=json"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = String::from_utf8(output.stdout).unwrap();
    let report: serde_json::Value =
        serde_json::from_str(&report[report.find('{').unwrap()..]).unwrap();
    let read = &report["jobs"][0]["read"];
    assert_eq!(read["total_ios"], 10);
    // 9 gaps of 30 ms: times taken for ns or ms would be far off.
    let ms = read["runtime"].as_u64().unwrap();
    assert!((240..3_000).contains(&ms), "{ms} ms");
}

#[test]
fn msr_drops_what_it_cannot_represent() {
    let mut names = Names::default();
    for device in ["usr.0", "sda", "a,b", "sda.0"] {
        names.add_device(device).unwrap();
    }
    let done = |device, op| Record {
        device: DeviceId(device),
        complete: Some(Nanos(20_199)),
        ..arriving(10, op)
    };
    let records = [
        done(0, Op::Read),
        done(1, Op::Write),
        arriving(10, Op::Read),
        done(1, Op::Flush),
        done(1, Op::Discard),
        done(2, Op::Read),
        done(3, Op::Read),
    ];
    let file = tempfile::NamedTempFile::new().unwrap();
    let left_out = write(file.path(), OutputFormat::Msr, &records, &names);
    assert_eq!(left_out.to_string(), "1 flushes, 1 discards, 1 without a completion time");
    let expected = "116444736000000100,usr,0,Read,8192,4096,101
116444736000000100,sda,0,Write,8192,4096,101
116444736000000100,a_b,0,Read,8192,4096,101
116444736000000100,sda_2,0,Read,8192,4096,101\n";
    assert_eq!(fs::read_to_string(file.path()).unwrap(), expected);

    let mut writer = Writer::create(file.path(), OutputFormat::Msr, &meta()).unwrap();
    writer.write(&records[2..3], &names).unwrap();
    let error = writer.finish().unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("parquet has"), "{error}");
    assert_eq!(fs::read_to_string(file.path()).unwrap(), expected);
}

mod foreign {
    //! Parquet files as other tools write them.

    use std::sync::Arc;

    use ::parquet::arrow::ArrowWriter;
    use arrow_array::{
        ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, LargeStringArray,
        RecordBatch, StringArray, UInt64Array,
    };

    use super::*;

    fn file(columns: Vec<(&str, ArrayRef)>) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut writer =
            ArrowWriter::try_new(file.reopen().unwrap(), batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        file
    }

    /// The required columns, in another order and of other types.
    fn columns(arrival: Vec<i64>) -> Vec<(&'static str, ArrayRef)> {
        let rows = arrival.len();
        let ops: Vec<_> = (0..rows).map(|i| Op::ALL[i % 2].name()).collect();
        vec![
            ("op", Arc::new(LargeStringArray::from(ops))),
            ("note", Arc::new(Float64Array::from(vec![0.5; rows]))),
            ("length", Arc::new(Int32Array::from(vec![512; rows]))),
            ("offset", Arc::new(UInt64Array::from(vec![1024; rows]))),
            ("arrival_ns", Arc::new(Int64Array::from(arrival))),
        ]
    }

    fn error(columns: Vec<(&str, ArrayRef)>) -> String {
        let file = file(columns);
        let error = read_from(file.path(), &TraceOptions::default()).unwrap_err();
        assert!(error.is_bad_input());
        error.to_string().split_once(": ").unwrap().1.to_owned()
    }

    fn with(name: &'static str, column: ArrayRef) -> Vec<(&'static str, ArrayRef)> {
        let mut columns = columns(vec![1, 2, 3]);
        columns.retain(|c| c.0 != name);
        columns.push((name, column));
        columns
    }

    #[test]
    fn required_columns_suffice() {
        let file = file(columns(vec![10, 20]));
        let (records, names, meta, _) = read_from(file.path(), &TraceOptions::default()).unwrap();
        let device = names.find_device("?").unwrap();
        let expected = [(10, Op::Read), (20, Op::Write)]
            .map(|(at, op)| Record::arriving(Nanos(at), device, op, 1024, 512));
        assert_eq!(records, expected);
        assert_eq!(meta, super::meta());
    }

    #[test]
    fn unsorted_rows_are_sorted() {
        let arrivals: Vec<_> = (0..20_000).map(|i| i * 7_919 % 20_000).collect();
        let file = file(columns(arrivals));
        let (records, ..) = read_from(file.path(), &TraceOptions::default()).unwrap();
        assert!(records.iter().map(|r| r.arrival.0).eq(0..20_000));

        let options = TraceOptions { sorting: Sorting::Window, ..TraceOptions::default() };
        let mut trace = Trace::open(&[file.path().to_owned()], &options).unwrap();
        let error = trace.read(&mut Vec::new()).unwrap_err();
        assert!(matches!(error, Error::BeyondWindow { record: 4, .. }), "{error}");
    }

    #[test]
    fn errors_name_the_column() {
        let numbers = |v: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(v)) };
        for (columns, expected) in [
            (columns(vec![1])[1..].to_vec(), "has no column op, which a trace needs"),
            (
                with("length", Arc::new(BooleanArray::from(vec![true; 3]))),
                "column length: expected integers, found type `Boolean`",
            ),
            (
                with("device", numbers(vec![Some(1); 3])),
                "column device: expected strings, found type `Int64`",
            ),
            (
                with("arrival_ns", numbers(vec![Some(1), None, Some(3)])),
                "row 2: column arrival_ns: expected a number, found null",
            ),
            (
                with("offset", numbers(vec![Some(1), Some(2), Some(-7)])),
                "row 3: column offset: expected a whole number from 0 to 1152921504606846976, found -7",
            ),
            (
                with("offset", numbers(vec![Some(1), Some(-1), Some(7)])),
                "row 2: column offset: expected a whole number from 0 to 1152921504606846976, found -1",
            ),
            (
                with("length", Arc::new(UInt64Array::from(vec![1, u64::MAX, 3]))),
                "row 2: column length: expected a whole number from 0 to 1125899906842624, found \
                 18446744073709551615",
            ),
            (
                with("length", Arc::new(Float64Array::from(vec![512.0, 0.5, 512.0]))),
                "row 2: column length: expected a whole number from 0 to 1125899906842624, found 0.5",
            ),
            (
                with("length", Arc::new(Float64Array::from(vec![512.0, 512.0, f64::NAN]))),
                "row 3: column length: expected a number, found null",
            ),
            (
                with("pid", Arc::new(Float64Array::from(vec![-1.0, 1.0, 1.0]))),
                "row 1: column pid: expected a whole number from 0 to 4294967295, found -1",
            ),
            (
                with("issue_ns", numbers(vec![Some(0), None, None])),
                "row 1: column issue_ns: 0 is before the arrival at 1",
            ),
            (
                with("op", Arc::new(StringArray::from(vec!["read", "trim", "read"]))),
                "row 2: column op: expected read, write, discard or flush, found `trim`",
            ),
        ] {
            assert_eq!(error(columns), expected);
        }
    }

    /// As pandas writes integers with missing values.
    #[test]
    fn whole_floats_read_as_integers() {
        let pids = Float64Array::from(vec![Some(7.0), Some(f64::NAN), None]);
        let file = file(with("pid", Arc::new(pids)));
        let (records, ..) = read_from(file.path(), &TraceOptions::default()).unwrap();
        assert_eq!(records.iter().map(|r| r.pid).collect::<Vec<_>>(), [Some(7), None, None]);
    }

    #[test]
    fn bad_rows_can_be_skipped() {
        let offsets = Int64Array::from(vec![Some(-1), Some(2), None]);
        let file = file(with("offset", Arc::new(offsets)));
        let error = read_from(file.path(), &TraceOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Malformed { at: Position::Row(1), .. }), "{error}");
        let options = TraceOptions { skip_bad: true, ..TraceOptions::default() };
        let (records, .., skipped) = read_from(file.path(), &options).unwrap();
        assert_eq!((records.len(), skipped), (1, 2));
        assert_eq!(records[0].arrival, Nanos(2));
    }
}
