//! Small hand-calculated cases, and longer ones against naive counting.

use proptest::prelude::*;
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::*;
use crate::format::Format;

const MS: u64 = 1_000_000;
/// A time on the Unix clock.
const EPOCH: u64 = 1_600_000_000_000_000_000;

fn meta() -> Meta {
    let notes = vec![("host".to_owned(), "a".to_owned())];
    Meta { format: Format::Msr, clock: Clock::Unix, has_offsets: true, notes }
}

fn report(records: &[Record]) -> Report {
    let mut names = Names::default();
    for name in ["a", "b", "c"] {
        names.add_device(name).unwrap();
    }
    let mut stats = Stats::new();
    records.iter().for_each(|r| stats.add(r));
    stats.finish(&names, &meta())
}

fn at(ns: u64, device: u32, op: Op, offset: u64, length: u64) -> Record {
    Record::arriving(Nanos(EPOCH + ns), DeviceId(device), op, offset, length)
}

fn lasting(arrival: u64, device: u32, complete: Option<u64>) -> Record {
    Record { complete: complete.map(|c| Nanos(EPOCH + c)), ..at(arrival, device, Op::Read, 0, 512) }
}

#[test]
fn empty_trace_has_empty_report() {
    let report = report(&[]);
    assert_eq!((report.requests, report.duration_ns), (0, Nanos::ZERO));
    assert_eq!(report.first_arrival_ns, None);
    assert_eq!((report.read_share, report.read_write_ratio), (None, None));
    assert_eq!(report.rates, Rates { mean_iops: None, mean_mb_s: None, peaks: vec![] });
    assert_eq!((report.inter_arrival, report.sequential), (None, None));
    assert_eq!(report.queue_depth, None);
    assert_eq!(report.footprint.unwrap().bytes, 0);
    assert!(report.ops.is_empty() && report.devices.top.is_empty());
}

#[test]
fn single_request_has_no_rates() {
    let report = report(&[at(0, 0, Op::Write, 4096, 8192)]);
    assert_eq!(report.rates, Rates { mean_iops: None, mean_mb_s: None, peaks: vec![] });
    assert_eq!(report.inter_arrival, None);
    assert_eq!((report.read_share, report.read_write_ratio), (Some(0.0), Some(0.0)));
    assert_eq!(report.sequential, Some(Sequential { share: 0.0, share_of_last_32: 0.0 }));
    assert_eq!(report.footprint.unwrap().bytes, 8192);
    assert_eq!(report.completions.missing, 1);
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["rates"]["mean_iops"].is_null());
    assert_eq!(json["first_arrival_ns"], EPOCH);
}

#[test]
fn counts_and_sizes_by_op() {
    let report = report(&[
        at(0, 0, Op::Read, 0, 1000),
        at(0, 1, Op::Read, 0, 3000),
        at(0, 1, Op::Write, 0, 512),
        at(0, 1, Op::Read, 0, 500),
        at(2_000_000_000, 1, Op::Discard, 0, 1 << 40),
        at(4_000_000_000, 1, Op::Flush, 0, 0),
    ]);
    let ops: Vec<_> =
        report.ops.iter().map(|o| (o.op, o.requests, o.bytes, o.mean_bytes, o.max_bytes)).collect();
    assert_eq!(
        ops,
        [
            (Op::Read, 3, 4500, 1500.0, 3000),
            (Op::Write, 1, 512, 512.0, 512),
            (Op::Discard, 1, 1 << 40, (1_u64 << 40) as f64, 1 << 40),
            (Op::Flush, 1, 0, 0.0, 0),
        ]
    );
    assert_eq!(report.read_share, Some(0.75));
    assert_eq!(report.read_write_ratio, Some(3.0));
    assert_eq!(report.bytes, 5012);
    assert_eq!(report.devices.count, 2);
    let top: Vec<_> =
        report.devices.top.iter().map(|d| (d.name.as_str(), d.requests, d.bytes)).collect();
    assert_eq!(top, [("b", 5, 4012), ("a", 1, 1000)]);
    assert_eq!(report.rates.mean_iops, Some(1.5));
    assert_eq!(report.rates.mean_mb_s, Some(5012.0 / 1e6 / 4.0));
    assert_eq!(report.duration_ns, Nanos(4_000_000_000));
    // 1000 bytes touch two sectors of a, 3000 touch six of b.
    assert_eq!(report.footprint.unwrap().bytes, 8 * 512);
}

#[test]
fn windows_are_adjacent_from_the_first_arrival() {
    // Three in the first second, the last of them 1 ns before its end; two in
    // the second; one in the twelfth, which is in the second window of 10 s.
    let times = [0, 10, 999_999_999, 1_000_000_000, 1_500_000_000, 11_000_000_000];
    let lengths = [512, 512, 512, 500_000, 500_000, 512];
    let records: Vec<_> =
        times.iter().zip(lengths).map(|(&t, n)| at(t, 0, Op::Read, 0, n)).collect();
    let peaks = report(&records).rates.peaks;
    assert_eq!(
        peaks,
        [
            PeakRate { window_s: 1, iops: 3.0, mb_s: 1.0 },
            PeakRate { window_s: 10, iops: 0.5, mb_s: (1_000_000.0 + 1536.0) / 1e7 },
        ]
    );
    // 1.5 s hold a window of 1 s, but none of 10 s.
    assert_eq!(report(&records[..5]).rates.peaks.len(), 1);
}

#[test]
fn inter_arrival_statistics() {
    // Gaps of 1, 1, 4 ms: mean 2, variance 2.
    let times = [0, MS, 2 * MS, 6 * MS];
    let found = report(&times.map(|t| at(t, 0, Op::Read, 0, 512))).inter_arrival.unwrap();
    assert_eq!(found.times.mean, Some(Nanos(2 * MS)));
    assert_eq!(found.times.max, Some(Nanos(4 * MS)));
    let cv = found.coefficient_of_variation.unwrap();
    assert!((cv - 2.0_f64.sqrt() / 2.0).abs() < 1e-12, "{cv}");
    let at_once = report(&[at(0, 0, Op::Read, 0, 512), at(0, 0, Op::Read, 0, 512)]);
    assert_eq!(at_once.inter_arrival.unwrap().coefficient_of_variation, None);
}

#[test]
fn sequentiality_is_per_device_and_stream() {
    let shares = |records: &[Record]| report(records).sequential.unwrap();
    let read = |device, offset| at(0, device, Op::Read, offset, 100);
    // The second of each device follows its first, whatever is in between; a discard and a flush
    // between do not matter.
    let two = [
        read(0, 0),
        read(1, 500),
        at(0, 0, Op::Discard, 700, 100),
        at(0, 0, Op::Flush, 0, 0),
        read(0, 100),
        read(1, 600),
    ];
    assert_eq!(shares(&two), Sequential { share: 0.5, share_of_last_32: 0.5 });
    // Two streams on one device.
    let streams = [read(0, 0), read(0, 1000), read(0, 100), read(0, 1100)];
    assert_eq!(shares(&streams), Sequential { share: 0.0, share_of_last_32: 0.5 });
    // The 32nd last end is remembered, the 33rd is not.
    for (between, expected) in [(31, 1), (32, 0)] {
        let mut records = vec![read(0, 0)];
        records.extend((1..=between).map(|i| read(0, i * 10_000)));
        records.push(read(0, 100));
        let share = f64::from(expected) / records.len() as f64;
        assert_eq!(shares(&records), Sequential { share: 0.0, share_of_last_32: share });
    }
}

#[test]
fn depth_counts_other_requests_of_the_device() {
    let depth = report(&[
        lasting(0, 0, Some(100)),   // sees none
        lasting(0, 0, Some(10)),    // the first, which stands before it
        lasting(5, 0, None),        // both; is itself never seen
        lasting(5, 1, Some(1_000)), // another device
        lasting(10, 0, Some(10)),   // the second ends just now; takes no time itself
        lasting(10, 0, Some(50)),   // the first
        lasting(20, 0, Some(30)),   // the first and the last
        lasting(100, 0, Some(200)), // none
    ])
    .queue_depth
    .unwrap();
    assert_eq!((depth.mean, depth.max, depth.untracked), (7.0 / 8.0, 2, 0));
    assert_eq!(depth.p50, None);
    let classes: Vec<_> = depth.classes.iter().map(|c| (c.from, c.to, c.share)).collect();
    assert_eq!(classes, [(0, 0, 3.0 / 8.0), (1, 1, 3.0 / 8.0), (2, 3, 2.0 / 8.0)]);
    assert_eq!(report(&[lasting(0, 0, None)]).queue_depth, None);
}

#[test]
fn latencies_and_flags_are_counted() {
    let read = at(0, 0, Op::Read, 0, 512);
    let done = Record {
        issue: Some(read.arrival + Nanos(30)),
        complete: Some(read.arrival + Nanos(100)),
        flags: Flags::ERROR | Flags::MERGED | Flags::PARTIAL,
        ..read
    };
    let found = report(&[read, done, Record { flags: Flags::REQUEUED | Flags::SYNC, ..read }]);
    assert_eq!(found.ops[0].response.as_ref().unwrap().mean, Some(Nanos(100)));
    assert_eq!(found.ops[0].service.as_ref().unwrap().mean, Some(Nanos(70)));
    assert_eq!(
        found.completions,
        Completions { measured: 1, missing: 2, errors: 1, merged: 1, requeued: 1, partial: 1 }
    );
    assert_eq!(found.notes, [Note { key: "host".into(), value: "a".into() }]);
}

#[test]
fn without_offsets_footprint_is_unknown() {
    let mut stats = Stats::new();
    stats.add(&at(0, 0, Op::Read, 0, 512));
    let meta = Meta { has_offsets: false, ..meta() };
    let report = stats.finish(&Names::default(), &meta);
    assert_eq!((report.footprint, report.sequential), (None, None));
}

/// Gap to the previous arrival, device, and how long it takes, if measured.
fn loads() -> impl Strategy<Value = Vec<(u64, u32, Option<u64>)>> {
    let load = (0_u64..400 * MS, 0_u32..3, prop::option::of(0_u64..2_000 * MS));
    prop::collection::vec(load, 1..120)
}

proptest! {
    #[test]
    fn depths_and_windows_agree_with_naive_counts(loads in loads()) {
        let mut now = 0;
        let records: Vec<_> = loads
            .into_iter()
            .map(|(gap, device, takes)| {
                now += gap;
                lasting(now, device, takes.map(|t| now + t))
            })
            .collect();
        let report = report(&records);

        let depths: Vec<u64> = (0..records.len())
            .map(|i| {
                let others = records[..i].iter().filter(|other| {
                    other.device == records[i].device
                        && other.complete.is_some_and(|c| c > records[i].arrival)
                });
                others.count() as u64
            })
            .collect();
        if let Some(found) = report.queue_depth {
            prop_assert_eq!(found.max, *depths.iter().max().unwrap());
            let mean = depths.iter().sum::<u64>() as f64 / depths.len() as f64;
            prop_assert!((found.mean - mean).abs() < 1e-9);
            for class in found.classes {
                let within = depths.iter().filter(|&&d| class.from <= d && d <= class.to).count();
                prop_assert!((class.share - within as f64 / depths.len() as f64).abs() < 1e-9);
            }
        } else {
            prop_assert!(records.iter().all(|r| r.complete.is_none()));
        }

        let first = records[0].arrival;
        for peak in report.rates.peaks {
            let window = |r: &Record| r.arrival.since(first).0 / (peak.window_s * 1000 * MS);
            let fullest = (0..100)
                .map(|w| records.iter().filter(|r| window(r) == w).count())
                .max()
                .unwrap();
            prop_assert!((peak.iops - fullest as f64 / peak.window_s as f64).abs() < 1e-9);
        }
    }
}
