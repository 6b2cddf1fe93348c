//! Records are exactly what the file says.

use trimtab_io::{Flags, Nanos, Op};
use trimtab_trace::{Clock, Format, Record};

use super::read_file;

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
        (20_700_000, Some(26_000_500), Op::Write, 650_000 * 512, 8192, "0"),
        (26_000_500, Some(34_000_500), Op::Read, 4096 * 512, 2048, "0"),
        (74_000_500, Some(74_300_500), Op::Write, 123_456 * 512, 6144, "0"),
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
        ("fio_plain_lat.1.log", false),
        ("fio_offset_lat.1.log", true),
        ("fio_prio_lat.1.log", false),
    ] {
        let (trace, records) = read_file(name, Format::FioLatency);
        assert_eq!(trace.meta().has_offsets, has_offsets, "{name}");
        assert_eq!(records.len(), 16);
        assert!(records.iter().all(|r| r.length == 4096 && r.issue.is_none()));
        assert_eq!(records.iter().any(|r| r.offset > 0), has_offsets, "{name}");
    }
    let (_, records) = read_file("fio_offset_lat.1.log", Format::FioLatency);
    assert_eq!(records[0].response_time(), Some(Nanos(34_421)));
    assert_eq!((records[0].op, records[0].offset), (Op::Read, 1_011_712));
    assert_eq!(records[3].op, Op::Write);
    let span = records[1].complete.unwrap().since(records[0].complete.unwrap());
    assert_eq!(span, Nanos::from_millis(1));
}
