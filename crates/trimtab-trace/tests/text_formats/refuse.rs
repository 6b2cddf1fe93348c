//! Invalid input is refused, with the line and column at fault.

use proptest::prelude::*;
use trimtab_trace::{Format, Sorting, Trace, TraceOptions};

use super::{FILES, TEXT, as_format, content, drain, read_bytes};

/// Line and message of the error for `text` in this format.
#[track_caller]
fn parse_error(text: &str, format: Format) -> (Option<u64>, String) {
    let error = read_bytes(text.as_bytes(), &as_format(format)).unwrap_err();
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    (error.line(), message)
}

#[track_caller]
fn assert_parse_error(text: &str, format: Format, line: u64, part: &str) {
    let (at, message) = parse_error(text, format);
    assert_eq!(at, Some(line), "{message}");
    assert!(message.contains(part), "{message}");
}

/// A valid line per format, with the lines required before it, and an invalid value for each
/// column.
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
        &[(1, "-1"), (2, "-8"), (2, "9999999999999999999"), (3, "x"), (4, "2"), (5, "v")],
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
fn errors_name_the_column_at_fault() {
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
            assert_parse_error(&text, format, line, &format!("column {column} "));
        }
    }
}

#[test]
fn wrong_column_counts_are_reported() {
    for &(format, before, good, separator, _) in SPOILT {
        let line = before.lines().count() as u64 + 2;
        let cut = &good[..good.rfind(separator).unwrap()];
        assert_parse_error(&format!("{before}{good}\n{cut}\n"), format, line, "columns, found");
        // SPC allows more fields, and a biosnoop command may have blanks.
        if !matches!(format, Format::Spc | Format::Biosnoop) {
            let long = format!("{before}{good}\n{good}{separator}1\n");
            assert_parse_error(&long, format, line, "columns, found");
        }
        let half = &good[..good.len() / 2];
        assert_eq!(parse_error(&format!("{before}{good}\n{half}"), format).0, Some(line));
    }
}

#[test]
fn binary_data_is_not_text() {
    // Without 255 and 254, which would mark UTF-16.
    let binary: Vec<u8> = (0..=253).rev().cycle().take(4096).collect();
    for format in TEXT {
        let error = read_bytes(&binary, &as_format(format)).unwrap_err();
        assert_eq!(error.line(), Some(1), "{format}: {error}");
        assert!(error.to_string().chars().all(|c| !c.is_control()), "{error:?}");
    }
}

#[test]
fn overlong_line_is_not_text() {
    let long = vec![b'1'; 1 << 20];
    for format in TEXT {
        assert!(read_bytes(&long, &as_format(format)).is_err(), "{format}");
    }
}

#[test]
fn header_like_data_is_parsed() {
    assert_parse_error("device_id,R,0,512,7\n", Format::Alibaba, 1, "column 1 (device id)");
    assert_parse_error("Timestamp,h,0,Read,0,512,7\n", Format::Msr, 1, "column 1 (timestamp)");
    assert_parse_error("1,1000,28,4096,2048\n", Format::Cloudphysics, 1, "expected the header");
    assert_parse_error("0.5 fio 1 sda R 8 512 0.1\n", Format::Biosnoop, 1, "expected the header");
    assert_parse_error("f read 0 512\n", Format::FioIolog, 1, "expected fio version");
}

#[test]
fn steps_back_are_errors_in_ordered_formats() {
    for (format, text, line) in [
        (Format::Spc, "0,8,512,R,1.5\n0,8,512,R,1.4\n", 2),
        (Format::DisksimNs, "9 0 8 8 1\n8 0 8 8 1\n", 2),
        (Format::DisksimMs, "9.5 0 8 8 1\n9.4 0 8 8 1\n", 2),
        (Format::Disksim, "9.5 0 8 8 1\n9 0 8 8 1\n", 2),
        (Format::FioIolog, "fio version 3 iolog\n9 f add\n9 f open\n8 f read 0 512\n", 4),
    ] {
        assert_parse_error(text, format, line, "a time not before");
        // Sorting does not help: the format does not allow it.
        let options = TraceOptions { sorting: Sorting::Spill, ..as_format(format) };
        assert_eq!(read_bytes(text.as_bytes(), &options).unwrap_err().line(), Some(line));
    }
}

#[test]
fn bad_lines_can_be_skipped() {
    let text = "0,8,512,R,1.5\nx,8,512,R,1.6\n0,8,512,R,1.7\n0,8,512\n0,8,512,W,1.8\n";
    let options = TraceOptions { skip_bad: true, ..as_format(Format::Spc) };
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
            let options = TraceOptions { skip_bad: true, ..as_format(format) };
            let _ = read_bytes(&bytes, &options);
            let _ = read_bytes(digits.as_bytes(), &options);
        }
        let _ = read_bytes(&bytes, &TraceOptions::default());
    }

    #[test]
    fn damaged_files_never_panic(
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
        let _ = read_bytes(&bytes, &TraceOptions::default());
    }
}
