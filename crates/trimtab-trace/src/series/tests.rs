use trimtab_io::DeviceId;

use super::*;

/// 4 KiB reads at intervals of `gap`, completed after `response`, on a Unix clock.
fn reads(count: u64, gap: Nanos, response: Nanos) -> Plots {
    let mut series = Series::new();
    for i in 0..count {
        let arrival = Nanos(1_600_000_000_000_000_000 + i * gap.0);
        let complete = Some(arrival + response);
        let offset = (900 << 30) + i * 4096;
        series.add(&Record {
            complete,
            ..Record::arriving(arrival, DeviceId(0), Op::Read, offset, 4096)
        });
    }
    series.finish()
}

#[test]
fn empty_trace_has_empty_plots() {
    let plots = Series::new().finish();
    assert_eq!((plots.requests, plots.duration, plots.first_arrival), (0, Nanos::ZERO, None));
    assert!(plots.ops.is_empty() && plots.depth.is_none() && plots.offsets.is_none());
}

#[test]
fn single_request_has_no_rate() {
    let plots = reads(1, Nanos::ZERO, Nanos::from_micros(100));
    assert_eq!(plots.ops[0].iops, [None]);
    let depth = plots.depth.unwrap();
    assert!(depth.max.iter().all(|&max| max == 1));
    assert!(depth.mean.iter().all(|mean| (mean - 1.0).abs() < 1e-9));
}

#[test]
fn steady_trace_has_constant_bins() {
    let plots = reads(100_000, Nanos::from_micros(50), Nanos::from_micros(125));
    assert_eq!(plots.requests, 100_000);
    let reads = &plots.ops[0];
    assert!(reads.iops.len() > 256 && reads.iops.len() <= TIME_BINS);
    for (iops, mb_s) in reads.iops.iter().flatten().zip(reads.mb_s.iter().flatten()) {
        assert!((iops - 20_000.0).abs() < 200.0, "{iops}");
        assert!((mb_s - iops * 0.004096).abs() < 1e-6);
    }
    let over_time = reads.over_time.as_ref().unwrap();
    let p99: Vec<_> = over_time.p99.iter().flatten().collect();
    assert!(p99.len() > 40 && over_time.p99.len() <= LATENCY_BINS);
    assert!(p99.iter().all(|p99| (123_000..127_000).contains(&p99.0)));
    assert_eq!(over_time.max[0], Some(Nanos::from_micros(125)));

    let depth = plots.depth.unwrap();
    assert_eq!(depth.max.iter().max(), Some(&3));
    let middle = depth.mean[depth.mean.len() / 2];
    assert!((middle - 2.5).abs() < 0.05, "{middle}");
}

#[test]
fn heat_map_covers_the_touched_range_only() {
    let plots = reads(10_000, Nanos::from_millis(1), Nanos::from_micros(100));
    let map = plots.offsets.unwrap();
    assert!(map.first_offset > 899 << 30);
    assert!(map.row_bytes <= 1 << 20);
    assert_eq!(map.cells.iter().map(|cell| cell.2).sum::<u64>(), 10_000);
    let (columns, rows) = (map.cells.iter().map(|c| c.0), map.cells.iter().map(|c| c.1));
    assert!((65..=MAP_COLUMNS as u32).contains(&(columns.max().unwrap() + 1)));
    assert!((40..=MAP_ROWS as u32).contains(&(rows.max().unwrap() + 1)));
}

#[test]
fn bins_with_few_samples_have_no_percentile() {
    let plots = reads(600, Nanos::from_millis(1), Nanos::from_micros(100));
    let over_time = plots.ops[0].over_time.as_ref().unwrap();
    assert!(over_time.p99.iter().all(Option::is_none));
    assert!(over_time.max.iter().all(Option::is_some));
}

#[test]
fn unmeasured_latency_has_no_plots() {
    let mut series = Series::new();
    for i in 0..100 {
        series.add(&Record::arriving(Nanos(i * 1000), DeviceId(0), Op::Write, 0, 512));
    }
    let plots = series.finish();
    assert!(plots.depth.is_none());
    assert!(plots.ops[0].over_time.is_none());
    assert_eq!(plots.ops[0].response.count(), 0);
    assert!(plots.offsets.is_some());
}

#[test]
fn waiting_for_issue_is_not_in_flight() {
    let mut series = Series::new();
    // Both arrive at once; the second is issued when the first completes.
    for (issue, complete) in [(0, 1000), (1000, 2000)] {
        series.add(&Record {
            issue: Some(Nanos(issue)),
            complete: Some(Nanos(complete)),
            ..Record::arriving(Nanos(0), DeviceId(0), Op::Read, 0, 4096)
        });
    }
    let plots = series.finish();
    assert_eq!(plots.depth.unwrap().max.iter().max(), Some(&2));
    assert_eq!(plots.ops[0].service.max(), Some(Nanos(1000)));
    assert_eq!(plots.ops[0].response.max(), Some(Nanos(2000)));
}

#[test]
fn extreme_times_do_not_panic() {
    let mut series = Series::new();
    for (arrival, complete) in [(5, 0), (5, u64::MAX), (u64::MAX, 0), (u64::MAX, u64::MAX)] {
        series.add(&Record {
            complete: Some(Nanos(complete)),
            ..Record::arriving(Nanos(arrival), DeviceId(0), Op::Read, u64::MAX, u64::MAX)
        });
    }
    assert_eq!(series.finish().requests, 4);
}

#[test]
fn sizes_map_to_their_class() {
    let class = |bytes| SIZE_CLASSES[SizeClass::index_of(bytes)].name;
    let classes = [0, 512, 4095, 4096, 8191, 1 << 20, u64::MAX].map(class);
    let expected = ["none", "< 4 KiB", "< 4 KiB", "4 KiB", "4 KiB", "1 MiB", "≥ 2 MiB"];
    assert_eq!(classes, expected);
}
