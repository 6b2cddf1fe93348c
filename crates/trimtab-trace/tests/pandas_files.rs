//! Files that pandas wrote, committed in tests/data (see the README there).

use std::path::{Path, PathBuf};

use trimtab_io::{Nanos, Op};
use trimtab_trace::{Clock, Record, Trace, TraceOptions};

fn read(name: &str) -> Result<(Clock, Vec<Record>), trimtab_trace::Error> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    let mut trace = Trace::open(&[path], &TraceOptions::default())?;
    let (mut batch, mut all) = (Vec::new(), Vec::new());
    while trace.read(&mut batch)? {
        all.append(&mut batch);
    }
    Ok((trace.meta().clock, all))
}

/// Timestamps of all units, with and without a time zone; a `pid` that is a
/// float, because some are missing; a column without a type; gzip and Brotli.
#[test]
fn timestamps_are_read() {
    for (name, unit_ns) in [
        ("pandas_timestamps_gzip.parquet", 1),
        ("pandas_timestamps_us_brotli.parquet", 1_000),
        ("pandas_timestamps_ms_brotli.parquet", 1_000_000),
    ] {
        let (clock, records) = read(name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(clock, Clock::Unix, "{name}: timestamps count from 1970");
        assert_eq!(records.len(), 4, "{name}");
        for (record, i) in records.iter().zip(0..) {
            let arrival = 1_600_000_000_000_000_000 + i * 1_000_123;
            let in_unit = |ns: u64| Nanos(ns / unit_ns * unit_ns);
            assert_eq!(record.arrival, in_unit(arrival), "{name}");
            assert_eq!(record.issue, (i != 2).then_some(in_unit(arrival + 5_001)), "{name}");
            assert_eq!(record.complete, Some(in_unit(arrival + 90_007)), "{name}");
            assert_eq!(record.pid, [Some(7), None, Some(9), None][i as usize], "{name}");
            assert_eq!(record.command, None);
        }
        let ops: Vec<_> = records.iter().map(|r| (r.op, r.offset, r.length)).collect();
        let expected = [
            (Op::Read, 0, 4096),
            (Op::Write, 4096, 512),
            (Op::Read, 8192, 4096),
            (Op::Flush, 0, 0),
        ];
        assert_eq!(ops, expected, "{name}");
    }
}

/// Precision lost by floats is not invented.
#[test]
fn inexact_floats_are_refused() {
    let error = read("pandas_round_trip.parquet").unwrap_err().to_string();
    for part in ["row 2: column issue_ns", "float 1.7000000000000008e18", "dtype_backend"] {
        assert!(error.contains(part), "{error}");
    }
}
