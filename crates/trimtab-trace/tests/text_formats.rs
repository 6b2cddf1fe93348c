//! Text formats as a user meets them: recognised by content, read exactly, and
//! refused with the line and column that are wrong.

use std::io::Write;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use trimtab_io::{Flags, Nanos, Op};
use trimtab_trace::{Clock, Error, Format, Options, Record, Sorting, Trace};

const TEXT: [Format; 14] = [
    Format::Msr,
    Format::Alibaba,
    Format::Tencent,
    Format::FioIolog,
    Format::FioLatency,
    Format::Spc,
    Format::Disksim,
    Format::DisksimNs,
    Format::DisksimMs,
    Format::Biosnoop,
    Format::Replay,
    Format::Cut,
    Format::Cloudphysics,
    Format::HddValidation,
];

/// Every test file, and the formats that its content fits.
const FILES: [(&str, &[Format]); 18] = [
    ("msr.csv", &[Format::Msr]),
    ("alibaba.csv", &[Format::Alibaba]),
    ("tencent.csv", &[Format::Tencent]),
    ("spc.csv", &[Format::Spc]),
    ("disksim_ns.trace", &[Format::DisksimNs, Format::DisksimMs, Format::Cut]),
    ("disksim_ms.trace", &[Format::DisksimMs, Format::Cut]),
    // A step back in time: DiskSim does not allow it.
    ("cut.trace", &[Format::Cut]),
    ("cloudphysics.csv", &[Format::Cloudphysics]),
    ("hdd_validation.trace", &[Format::HddValidation]),
    ("replay.csv", &[Format::Replay]),
    ("biosnoop_bcc.txt", &[Format::Biosnoop]),
    ("biosnoop_bcc_qp.txt", &[Format::Biosnoop]),
    ("biosnoop_libbpf.txt", &[Format::Biosnoop]),
    ("fio_iolog_v2.log", &[Format::FioIolog]),
    ("fio_iolog_v3.log", &[Format::FioIolog]),
    ("fio_latency_plain.log", &[Format::FioLatency]),
    ("fio_latency_offset.log", &[Format::FioLatency]),
    ("fio_latency_prio.log", &[Format::FioLatency]),
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn content(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn as_format(format: Format) -> Options {
    Options { format: Some(format), ..Options::default() }
}

fn drain(mut trace: Trace) -> Result<(Trace, Vec<Record>), Error> {
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while trace.read(&mut batch)? {
        all.append(&mut batch);
    }
    Ok((trace, all))
}

fn read_bytes(bytes: &[u8], options: &Options) -> Result<Vec<Record>, Error> {
    Ok(drain(Trace::from_bytes(bytes, options)?)?.1)
}

fn read_file(name: &str, format: Format) -> (Trace, Vec<Record>) {
    drain(Trace::open(&[path(name)], &as_format(format)).unwrap()).unwrap()
}

/// What is wrong with `text` in this format: the line, and the message.
#[track_caller]
fn complaint(text: &str, format: Format) -> (Option<u64>, String) {
    let error = read_bytes(text.as_bytes(), &as_format(format)).unwrap_err();
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    (error.line(), message)
}

#[track_caller]
fn assert_complaint(text: &str, format: Format, line: u64, part: &str) {
    let (at, message) = complaint(text, format);
    assert_eq!(at, Some(line), "{message}");
    assert!(message.contains(part), "{message}");
}

/// `(arrival, complete, op, offset, length, device)`.
type Row<'a> = (u64, Option<u64>, Op, u64, u64, &'a str);

#[track_caller]
fn assert_rows(name: &str, format: Format, expected: &[Row<'_>]) {
    let (trace, records) = read_file(name, format);
    let rows: Vec<Row<'_>> = records
        .iter()
        .map(|r| {
            let device = trace.names().device(r.device);
            (r.arrival.0, r.complete.map(|at| at.0), r.op, r.offset, r.length, device)
        })
        .collect();
    assert_eq!(rows, expected);
}

// Recognising.

#[test]
fn every_file_is_recognised_as_what_it_is() {
    for (name, formats) in FILES {
        match (Trace::open(&[path(name)], &Options::default()), formats) {
            (Ok(trace), [format]) => assert_eq!(trace.meta().format, *format, "{name}"),
            (Err(error @ Error::Ambiguous { .. }), [_, _, ..]) => {
                let message = error.to_string();
                for format in TEXT.into_iter().filter(|f| *f != Format::Disksim) {
                    let listed = message.contains(&format!("{format} ("));
                    assert_eq!(listed, formats.contains(&format), "{name}: {message}");
                }
            }
            (Ok(trace), _) => panic!("{name}: taken for {}", trace.meta().format),
            (Err(error), _) => panic!("{name}: {error}"),
        }
    }
}

#[test]
fn every_file_is_refused_as_anything_else() {
    for (name, formats) in FILES {
        for format in TEXT.into_iter().filter(|f| *f != Format::Disksim) {
            let result = read_bytes(content(name).as_bytes(), &as_format(format));
            match result {
                Ok(_) => assert!(formats.contains(&format), "{name} was read as {format}"),
                Err(e) => assert!(!formats.contains(&format), "{name} as {format}: {e}"),
            }
        }
    }
}

#[test]
fn compression_changes_nothing() {
    for (name, formats) in FILES {
        let plain = content(name).into_bytes();
        let options = as_format(formats[0]);
        let expected = read_bytes(&plain, &options).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        assert_eq!(read_bytes(&gzip.finish().unwrap(), &options).unwrap(), expected, "{name}");
        let zstd = zstd::encode_all(&plain[..], 1).unwrap();
        assert_eq!(read_bytes(&zstd, &options).unwrap(), expected, "{name}");
    }
}

#[test]
fn line_ends_and_blank_lines_change_nothing() {
    for (name, formats) in FILES {
        let options = as_format(formats[0]);
        let plain = content(name);
        let expected = read_bytes(plain.as_bytes(), &options).unwrap();
        let crlf = plain.replace('\n', "\r\n\r\n");
        assert_eq!(read_bytes(crlf.as_bytes(), &options).unwrap(), expected, "{name}");
        let unended = format!("\n{}", plain.trim_end());
        assert_eq!(read_bytes(unended.as_bytes(), &options).unwrap(), expected, "{name}");
    }
}

#[test]
fn what_is_no_trace_is_said_to_be_none() {
    for (bytes, part) in [
        (&b""[..], "is empty"),
        (b"\n \n", "only blank lines"),
        (b"hello world\n", "no known trace format (its first line is `hello world`)"),
        (b"\n\n\nhello world\n", "no known trace format"),
        (b"a\0b\n", "binary"),
        (b"\x01\x02\xff\n\x03\n", "no known trace format"),
    ] {
        let message = read_bytes(bytes, &Options::default()).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_header_identifies_a_broken_file() {
    for (text, line, part) in [
        ("version,time,op,size,lbn\n1,7,zz,512,8\n", 2, "column 3 (op)"),
        ("fio version 3 iolog\n0 f add\n1 f read x 512\n", 3, "column 4 (offset)"),
        ("fio version 2 iolog\n0 f read 0 512 9 9\n", 2, "columns"),
        (
            "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\nx,h,0,Read,0,8,1\n",
            2,
            "column 1",
        ),
        ("TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.0 fio 1 sda R 8 x 0.1\n", 2, "BYTES"),
        ("device_id,opcode,offset,length,timestamp\n1,X,0,8,1\n", 2, "column 2 (opcode)"),
    ] {
        let error = read_bytes(text.as_bytes(), &Options::default()).unwrap_err();
        assert_eq!(error.line(), Some(line), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_bad_line_further_on_is_reported_when_one_format_fits_until_there() {
    let text = content("replay.csv") + "3.000,70,1,512\n";
    let error = read_bytes(text.as_bytes(), &Options::default()).unwrap_err();
    assert_eq!(error.line(), Some(5), "{error}");
    assert!(error.to_string().contains("expected 7 columns, found 4"), "{error}");
}

// Reading.

#[test]
fn msr() {
    const FIRST: u64 = (128_166_372_003_061_629 - 116_444_736_000_000_000) * 100;
    let (trace, records) = read_file("msr.csv", Format::Msr);
    assert_eq!(trace.meta().clock, Clock::Unix);
    assert_eq!(records.len(), 4);
    assert_eq!(records[0].arrival, Nanos(FIRST));
    assert_eq!(records[0].response_time(), Some(Nanos(5_432_100)));
    assert_eq!(trace.names().device(records[2].device), "web.1");
}

#[test]
fn alibaba() {
    const T: u64 = 1_580_000_000_000_000_000;
    let rows = [
        (T + 100_000, None, Op::Read, 8192, 4096, "64"),
        (T + 340_000, None, Op::Write, 0, 4096, "7"),
        (T + 350_000, None, Op::Write, 73728, 16384, "64"),
        (T + 2_000_000, None, Op::Read, 12288, 8192, "64"),
    ];
    assert_rows("alibaba.csv", Format::Alibaba, &rows);
}

#[test]
fn tencent() {
    const S: u64 = 1_000_000_000;
    let rows = [
        (1_538_400_000 * S, None, Op::Write, 2048 * 512, 4096, "1103"),
        (1_538_400_000 * S, None, Op::Read, 2056 * 512, 8192, "1103"),
        (1_538_400_001 * S, None, Op::Write, 90112 * 512, 65536, "1200"),
        (1_538_400_003 * S, None, Op::Read, 64 * 512, 4096, "1103"),
    ];
    assert_rows("tencent.csv", Format::Tencent, &rows);
}

#[test]
fn spc() {
    let rows = [
        (0, None, Op::Read, 2048 * 512, 4096, "0"),
        (12_345_000, None, Op::Write, 16 * 512, 512, "1"),
        (12_345_000, None, Op::Read, 2056 * 512, 8192, "0"),
        (1_500_000_000, None, Op::Write, 65536 * 512, 3072, "2"),
    ];
    assert_rows("spc.csv", Format::Spc, &rows);
}

#[test]
fn disksim_in_both_units() {
    let rows = [
        (1_500_000, None, Op::Read, 2048 * 512, 4096, "0"),
        (1_750_000, None, Op::Write, 64 * 512, 8192, "1"),
        (1_750_000, None, Op::Read, 2056 * 512, 4096, "0"),
        (9_000_000, None, Op::Write, 4096 * 512, 65536, "0"),
    ];
    assert_rows("disksim_ns.trace", Format::DisksimNs, &rows);
    assert_rows("disksim_ns.trace", Format::Disksim, &rows);
    assert_rows("disksim_ms.trace", Format::DisksimMs, &rows);
    assert_rows("disksim_ms.trace", Format::Disksim, &rows);
}

#[test]
fn cut() {
    let rows = [
        (0, None, Op::Read, 1_048_576, 4096, "0"),
        (2_125_000, None, Op::Write, 12288, 4096, "0"),
        (3_250_000, None, Op::Write, 8192, 16384, "0"),
        (7_500_000, None, Op::Read, 1_052_672, 512, "0"),
    ];
    assert_rows("cut.trace", Format::Cut, &rows);
}

#[test]
fn cloudphysics() {
    const S: u64 = 1_000_000_000;
    let rows = [
        (1000 * S, None, Op::Read, 2048 * 512, 4096, "0"),
        (1000 * S, None, Op::Write, 4096 * 512, 8192, "0"),
        (1001 * S, None, Op::Flush, 0, 0, "0"),
        (1002 * S, None, Op::Write, 77 * 512, 512, "0"),
        (1003 * S, None, Op::Discard, 8192 * 512, 65536, "0"),
    ];
    assert_rows("cloudphysics.csv", Format::Cloudphysics, &rows);
}

#[test]
fn hdd_validation() {
    let rows = [
        (0, Some(700_000), Op::Read, 2048 * 512, 4096, "0"),
        (10_700_000, Some(16_000_500), Op::Write, 650_000 * 512, 8192, "0"),
        (36_000_500, Some(44_000_500), Op::Read, 4096 * 512, 2048, "0"),
        (44_000_500, Some(44_300_500), Op::Write, 123_456 * 512, 6144, "0"),
    ];
    assert_rows("hdd_validation.trace", Format::HddValidation, &rows);
    let (_, records) = read_file("hdd_validation.trace", Format::HddValidation);
    assert!(records.iter().all(|r| r.issue == Some(r.arrival)));
}

#[test]
fn replay_comes_in_order_of_submission() {
    let rows = [
        (50_000, Some(290_000), Op::Write, 1_048_576, 65536, "0"),
        (110_000, Some(195_000), Op::Read, 8192, 4096, "0"),
        (1_100_000, Some(1_170_000), Op::Read, 0, 512, "0"),
        (1_205_000, Some(3_105_000), Op::Read, 4096, 8192, "0"),
    ];
    assert_rows("replay.csv", Format::Replay, &rows);
    let (_, records) = read_file("replay.csv", Format::Replay);
    let failed: Vec<_> = records.iter().map(|r| r.flags.contains(Flags::ERROR)).collect();
    assert_eq!(failed, [false, false, false, true]);
    assert!(records.iter().all(|r| r.issue.is_none()));
}

#[test]
fn biosnoop_with_blanks_in_commands() {
    let (trace, records) = read_file("biosnoop_bcc.txt", Format::Biosnoop);
    let by_name = |name: &str| {
        let is_it = |r: &&Record| r.command.is_some_and(|c| trace.names().command(c) == name);
        *records.iter().find(is_it).unwrap_or_else(|| panic!("no {name}"))
    };
    let (journal, browser, dd) = (by_name("jbd2/sda1-8"), by_name("Web Content"), by_name("dd"));
    assert_eq!((journal.pid, journal.op, journal.offset), (Some(312), Op::Write, 1_050_272 * 512));
    assert_eq!(journal.response_time(), Some(Nanos(740_000)));
    assert_eq!((browser.pid, browser.op), (Some(2047), Op::Read));
    assert_eq!(browser.complete.unwrap().since(journal.complete.unwrap()), Nanos(450_000));
    assert_eq!((dd.length, trace.names().device(dd.device)), (1_048_576, "nvme0n1"));
    assert!(records.is_sorted_by_key(|r| r.arrival));
}

#[test]
fn biosnoop_with_queueing_and_pattern() {
    let (_, records) = read_file("biosnoop_bcc_qp.txt", Format::Biosnoop);
    assert_eq!(records.len(), 3);
    let dd = records.iter().find(|r| r.pid == Some(3100)).unwrap();
    assert_eq!(dd.length, 1_048_576);
    assert_eq!(dd.service_time(), Some(Nanos(1_100_000)));
    assert_eq!(dd.response_time(), Some(Nanos(1_150_000)));
}

#[test]
fn biosnoop_of_libbpf() {
    let (_, records) = read_file("biosnoop_libbpf.txt", Format::Biosnoop);
    let at = |sector: u64| records.iter().find(|r| r.offset == sector * 512).unwrap();
    assert_eq!((at(0).op, at(0).length), (Op::Flush, 0));
    assert_eq!(at(4096).flags, Flags::READAHEAD);
    // -1: the arrival was missed, so it is taken to be the issue.
    assert_eq!(at(4096).issue, Some(at(4096).arrival));
    assert_eq!((at(8192).op, at(8192).flags), (Op::Write, Flags::FUA | Flags::SYNC));
    assert_eq!(at(16384).op, Op::Discard);
}

#[test]
fn fio_iologs() {
    let rows = [
        (0, None, Op::Write, 0, 65536, "data.bin"),
        (1_200_000, None, Op::Read, 4096, 4096, "data.bin"),
        (1_500_000, None, Op::Flush, 0, 0, "data.bin"),
        (1_500_000, None, Op::Discard, 131_072, 65536, "data.bin"),
    ];
    assert_rows("fio_iolog_v2.log", Format::FioIolog, &rows);

    let (_, records) = read_file("fio_iolog_v3.log", Format::FioIolog);
    assert_eq!(records[0].arrival, Nanos(293_000));
    assert_eq!((records[0].op, records[0].offset), (Op::Read, 1_011_712));
    let count = |op| records.iter().filter(|r| r.op == op).count();
    assert_eq!((count(Op::Read), count(Op::Write), count(Op::Flush)), (10, 6, 2));
    assert!(records.iter().all(|r| r.length == if r.op == Op::Flush { 0 } else { 4096 }));
}

#[test]
fn fio_latency_logs() {
    for (name, has_offsets) in [
        ("fio_latency_plain.log", false),
        ("fio_latency_offset.log", true),
        ("fio_latency_prio.log", false),
    ] {
        let (trace, records) = read_file(name, Format::FioLatency);
        assert_eq!(trace.meta().has_offsets, has_offsets, "{name}");
        assert_eq!(records.len(), 16);
        assert!(records.iter().all(|r| r.length == 4096 && r.issue.is_none()));
        assert_eq!(records.iter().any(|r| r.offset > 0), has_offsets, "{name}");
    }
    let (_, records) = read_file("fio_latency_offset.log", Format::FioLatency);
    assert_eq!(records[0].response_time(), Some(Nanos(34_421)));
    assert_eq!((records[0].op, records[0].offset), (Op::Read, 1_011_712));
    assert_eq!(records[3].op, Op::Write);
    let span = records[1].complete.unwrap().since(records[0].complete.unwrap());
    assert_eq!(span, Nanos::from_millis(1));
}

// Refusing.

/// A good line per format, with what has to be before it, and for each column
/// what does not belong there.
type Spoilt<'a> = (Format, &'a str, &'a str, char, &'a [(usize, &'a str)]);

const SPOILT: &[Spoilt<'_>] = &[
    (
        Format::Msr,
        "",
        "128166372003061629,web,0,Read,4096,8192,54321",
        ',',
        &[(1, "-1"), (1, "7"), (4, "Trim"), (5, "-1"), (5, "1e3"), (6, "-512"), (7, "-1")],
    ),
    (
        Format::Alibaba,
        "",
        "64,R,8192,4096,1580000000000100",
        ',',
        &[(1, "x"), (2, "Read"), (3, "-1"), (3, "99999999999999999999"), (4, "1.5"), (5, "-1")],
    ),
    (
        Format::Tencent,
        "",
        "1538400000,2048,8,1,1103",
        ',',
        &[(1, "0"), (1, "-1"), (2, "-8"), (2, "9999999999999999999"), (3, "x"), (4, "2"), (5, "v")],
    ),
    (
        Format::Spc,
        "",
        "0,2048,4096,R,0.5",
        ',',
        &[(1, "x"), (2, "-1"), (3, "-1"), (4, "X"), (5, "-0.1"), (5, "nan"), (5, "1e99")],
    ),
    (
        Format::DisksimNs,
        "",
        "1500000 0 2048 8 1",
        ' ',
        &[(1, "1.5"), (1, "-1"), (2, "a"), (3, "-1"), (4, "x"), (5, "2")],
    ),
    (
        Format::DisksimMs,
        "",
        "1.5 0 2048 8 1",
        ' ',
        &[(1, "-1"), (1, "1e400"), (2, "a"), (3, "-1"), (4, "x"), (5, "R")],
    ),
    (
        Format::Cut,
        "",
        "1.5 0 2048 4096 1",
        ' ',
        &[(1, "-1"), (2, "a"), (3, "-1"), (4, "x"), (5, "2")],
    ),
    (
        Format::Cloudphysics,
        "version,time,op,size,lbn\n",
        "1,1000,28,4096,2048",
        ',',
        &[(1, "v"), (2, "-1"), (3, "29"), (3, "128"), (4, "-1"), (5, "x")],
    ),
    (
        Format::HddValidation,
        "",
        "R Hit 2048 8 700.0 1000.0",
        ' ',
        &[(1, "X"), (2, "hit"), (3, "-1"), (4, "x"), (5, "-1.0"), (6, "-1.0"), (6, "1e9")],
    ),
    (
        Format::Replay,
        "",
        "0.000,85,1,4096,8192,0.110,4096",
        ',',
        &[
            (1, "x"),
            (2, "-1"),
            (3, "2"),
            (4, "-1"),
            (5, "-1"),
            (6, "-0.1"),
            (7, "8192"),
            (7, "-9999"),
        ],
    ),
    (
        Format::Biosnoop,
        "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n",
        "0.5 fio 1 sda R 8 512 0.01 0.10",
        ' ',
        &[(1, "-1"), (3, "x"), (5, "X"), (6, "-1"), (7, "x"), (8, "-2"), (9, "-0.1")],
    ),
    (
        Format::FioIolog,
        "fio version 3 iolog\n",
        "5 f read 0 512",
        ' ',
        &[(1, "x"), (1, "-5"), (3, "wait"), (3, "shred"), (4, "-1"), (5, "-1")],
    ),
];

#[test]
fn nonsense_is_named_by_column() {
    for &(format, before, good, separator, spoilt) in SPOILT {
        let line = before.lines().count() as u64 + 2;
        let good_twice = format!("{before}{good}\n{good}\n");
        let read = read_bytes(good_twice.as_bytes(), &as_format(format)).unwrap();
        assert_eq!(read.len(), 2, "{format}");
        for (column, value) in spoilt {
            let mut fields: Vec<_> = good.split(separator).collect();
            fields[column - 1] = value;
            let bad = fields.join(&separator.to_string());
            let text = format!("{before}{good}\n{bad}\n");
            assert_complaint(&text, format, line, &format!("column {column} "));
        }
    }
}

#[test]
fn wrong_column_counts_are_told() {
    for &(format, before, good, separator, _) in SPOILT {
        let line = before.lines().count() as u64 + 2;
        let cut = &good[..good.rfind(separator).unwrap()];
        assert_complaint(&format!("{before}{good}\n{cut}\n"), format, line, "columns, found");
        // SPC allows more fields, and a biosnoop command may have blanks.
        if !matches!(format, Format::Spc | Format::Biosnoop) {
            let long = format!("{before}{good}\n{good}{separator}1\n");
            assert_complaint(&long, format, line, "columns, found");
        }
        let half = &good[..good.len() / 2];
        assert_eq!(complaint(&format!("{before}{good}\n{half}"), format).0, Some(line));
    }
}

#[test]
fn binary_data_is_no_text() {
    let binary: Vec<u8> = (0..=255).rev().cycle().take(4096).collect();
    for format in TEXT {
        let error = read_bytes(&binary, &as_format(format)).unwrap_err();
        assert_eq!(error.line(), Some(1), "{format}: {error}");
        assert!(error.to_string().chars().all(|c| !c.is_control()), "{error:?}");
    }
}

#[test]
fn an_overlong_line_is_no_text() {
    let long = vec![b'1'; 1 << 20];
    for format in TEXT {
        assert!(read_bytes(&long, &as_format(format)).is_err(), "{format}");
    }
}

#[test]
fn headers_do_not_hide_data() {
    assert_complaint("device_id,R,0,512,7\n", Format::Alibaba, 1, "column 1 (device id)");
    assert_complaint("Timestamp,h,0,Read,0,512,7\n", Format::Msr, 1, "column 1 (timestamp)");
    assert_complaint("1,1000,28,4096,2048\n", Format::Cloudphysics, 1, "expected the header");
    assert_complaint("0.5 fio 1 sda R 8 512 0.1\n", Format::Biosnoop, 1, "expected the header");
    assert_complaint("f read 0 512\n", Format::FioIolog, 1, "expected fio version");
}

#[test]
fn steps_back_are_errors_where_order_is_promised() {
    for (format, text, line) in [
        (Format::Spc, "0,8,512,R,1.5\n0,8,512,R,1.4\n", 2),
        (Format::DisksimNs, "9 0 8 8 1\n8 0 8 8 1\n", 2),
        (Format::DisksimMs, "9.5 0 8 8 1\n9.4 0 8 8 1\n", 2),
        (Format::Disksim, "9.5 0 8 8 1\n9 0 8 8 1\n", 2),
        (Format::FioIolog, "fio version 3 iolog\n9 f add\n9 f open\n8 f read 0 512\n", 4),
    ] {
        assert_complaint(text, format, line, "a time not before");
        // Sorting is no excuse: the format does not allow it.
        let options = Options { sorting: Sorting::Spill, ..as_format(format) };
        assert_eq!(read_bytes(text.as_bytes(), &options).unwrap_err().line(), Some(line));
    }
}

#[test]
fn bad_lines_can_be_passed_over() {
    let text = "0,8,512,R,1.5\nx,8,512,R,1.6\n0,8,512,R,1.7\n0,8,512\n0,8,512,W,1.8\n";
    let options = Options { skip_bad: true, ..as_format(Format::Spc) };
    let (trace, records) = drain(Trace::from_bytes(text.as_bytes(), &options).unwrap()).unwrap();
    assert_eq!((records.len(), trace.skipped()), (3, 2));
    assert!(trace.first_skipped().unwrap().contains("line 2"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        digits in "[-0-9., \nRWx]{0,300}",
    ) {
        for format in TEXT {
            let options = Options { skip_bad: true, ..as_format(format) };
            let _ = read_bytes(&bytes, &options);
            let _ = read_bytes(digits.as_bytes(), &options);
        }
        let _ = read_bytes(&bytes, &Options::default());
    }

    #[test]
    fn spoilt_files_never_panic(
        file in 0..FILES.len(),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (name, formats) = FILES[file];
        let mut bytes = content(name).into_bytes();
        for (place, value) in spoils {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let _ = read_bytes(&bytes, &as_format(formats[0]));
        let _ = read_bytes(&bytes, &Options::default());
    }
}

// Real traces, where there are any.

/// Reads a real trace and checks what holds for every one.
fn read_real(root: &Path, name: &str, format: Format, count: usize) -> Vec<Record> {
    let path = root.join(name);
    let (_, records) =
        drain(Trace::open(&[path], &as_format(format)).unwrap()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(records.len(), count, "{name}");
    assert!(records.is_sorted_by_key(|r| r.arrival), "{name}");
    assert!(records.iter().all(|r| r.complete.is_none_or(|at| at >= r.arrival)), "{name}");
    records
}

#[test]
fn real_traces() {
    let Some(root) = std::env::var_os("TRIMTAB_TRACES").map(PathBuf::from) else {
        // Past the test runner, which shows only what failed tests print.
        _ = writeln!(std::io::stderr(), "skipped a test on real traces: TRIMTAB_TRACES is not set");
        return;
    };
    let detect = |name: &str| Trace::open(&[root.join(name)], &Options::default());
    let recognised = |name: &str| detect(name).unwrap_or_else(|e| panic!("{e}")).meta().format;

    for name in ["nvme-replay/nvme-a.csv", "nvme-replay/nvme-b.csv"] {
        assert_eq!(recognised(name), Format::Replay);
        let records = read_real(&root, name, Format::Replay, 50_000);
        assert!(records.iter().all(|r| r.complete.is_some()));
    }
    let name = "workload/cloudphysics.csv";
    assert_eq!(recognised(name), Format::Cloudphysics);
    let records = read_real(&root, name, Format::Cloudphysics, 113_872);
    assert_eq!(records.iter().filter(|r| r.op == Op::Read).count(), 46_974);
    for name in ["hdd/atlas10k.trace", "hdd/barracuda.trace", "hdd/cheetah9LP.trace"] {
        assert_eq!(recognised(name), Format::HddValidation);
        read_real(&root, name, Format::HddValidation, 10_000);
    }
    let candidates = |name: &str| match detect(name) {
        Err(error @ Error::Ambiguous { .. }) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(trace) => panic!("{name}: taken for {}", trace.meta().format),
    };
    for name in ["workload/msr-rand-iops.trace", "workload/msr-rw20-80.trace"] {
        let candidates = candidates(name);
        assert!(candidates.contains("cut (") && candidates.contains("disksim-ms ("));
        assert!(!candidates.contains("disksim-ns ("), "{candidates}");
        read_real(&root, name, Format::Cut, 10_000);
    }
    for name in ["workload/tpcc-small.trace", "workload/wsrch-small.trace"] {
        let candidates = candidates(name);
        assert!(candidates.contains("disksim-ns (") && candidates.contains("disksim-ms ("));
        let text = std::fs::read(root.join(name)).unwrap();
        let lines = text.split(|&b| b == b'\n').filter(|line| !line.is_empty()).count();
        let records = read_real(&root, name, Format::Disksim, lines);
        assert_eq!(records, read_real(&root, name, Format::DisksimNs, lines));
    }
}
