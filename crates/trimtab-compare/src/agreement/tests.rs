use trimtab_io::Nanos;
use trimtab_steer::driver::ArrayFigures;

use super::*;
use crate::figures::Figures;

/// Latencies in µs, each with its count.
fn latencies(all: &[(u64, usize)]) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    for &(latency, times) in all {
        histogram.extend(std::iter::repeat_n(Nanos::from_micros(latency), times));
    }
    histogram
}

/// A row with these turns.
fn row(name: &str, turns: Vec<LatencyHistogram>) -> StrategyReport {
    let figures = |turn: &LatencyHistogram| {
        Figures::of(&ArrayFigures { reads: turn.clone(), ..ArrayFigures::default() })
    };
    let mut all: Vec<Figures> = turns.iter().map(figures).collect();
    let mean = |figures: &Figures| figures.get("mean_ns").unwrap();
    all.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    StrategyReport {
        name: name.to_owned(),
        strategy: if name == "base" { "base" } else { "clone" },
        median: all[all.len() / 2],
        lowest: all[0],
        highest: all[all.len() - 1],
        groups: Vec::new(),
        seeds: Vec::new(),
        latencies: LatencyHistogram::new(),
        turns,
    }
}

fn report(strategies: Vec<StrategyReport>) -> Report {
    Report { seeds: vec![1], drives: Vec::new(), parallel: 1, failover_ns: Nanos::ZERO, strategies }
}

/// A row that always takes this long, in three turns.
fn always(name: &str, micros: [u64; 3]) -> StrategyReport {
    row(name, micros.map(|micros| latencies(&[(micros, 2000)])).into())
}

#[test]
fn percentiles_include_the_whole_path_distribution() {
    // One drive read in two hundred is slow; three in a hundred are slow on their path.
    let drive = latencies(&[(100, 9950), (1000, 50)]);
    let path = latencies(&[(10, 9700), (200, 300)]);
    let simulated = report(vec![row("base", vec![drive.clone()])]);
    let live = report(vec![row("base", vec![drive])]);
    let agreement = Agreement::new(&live, &simulated, &path);
    let expected = |name| agreement.rows[0].percentile(name).unwrap().1 / 1000.0;
    assert!((expected("p50") - 110.0).abs() < 2.0, "{}", expected("p50"));
    // The path's p50 on top of the drive's p99 would be 110 µs.
    assert!((expected("p99") - 300.0).abs() < 4.0, "{}", expected("p99"));
    let mean = 0.995 * 100.0 + 0.005 * 1000.0 + 0.97 * 10.0 + 0.03 * 200.0;
    assert!((agreement.rows[0].mean_simulated / 1000.0 - mean).abs() < 0.01);
}

#[test]
fn percentiles_need_samples_of_both() {
    let drive = latencies(&[(100, 100_000)]);
    let simulated = report(vec![row("base", vec![drive])]);
    let agreement = Agreement::new(&simulated, &simulated, &latencies(&[(1, 500)]));
    assert!(agreement.rows[0].percentile("p95").is_some());
    assert!(agreement.rows[0].percentile("p99").is_none());
    // Without a path its sample count does not matter.
    let agreement = Agreement::new(&simulated, &simulated, &LatencyHistogram::new());
    let (live, expected) = agreement.rows[0].percentile("p99.9").unwrap();
    assert_eq!(live, expected);
    assert!(agreement.path.is_none() && agreement.long_path().is_none());
}

#[test]
fn path_longer_than_a_tenth_is_flagged() {
    let simulated = report(vec![always("fast", [10; 3]), always("base", [100; 3])]);
    let flagged = |path: &[(u64, usize)]| {
        let agreement = Agreement::new(&simulated, &simulated, &latencies(path));
        let path = agreement.path.as_ref().unwrap();
        assert_eq!((&*path.of, path.too_long), ("base", agreement.long_path().is_some()));
        let json = serde_json::to_value(&agreement).unwrap();
        assert_eq!(json["path"]["too_long"], path.too_long);
        path.too_long
    };
    assert!(!flagged(&[(9, 1000)]));
    assert!(flagged(&[(12, 1000)]));
    // A short one with a long tail has a long mean.
    assert!(!flagged(&[(2, 990), (200, 10)]));
    assert!(flagged(&[(2, 900), (200, 100)]));
}

#[test]
fn indistinguishable_pairs_are_ties() {
    let rows = vec![
        always("base", [1000; 3]),
        // Too close.
        always("near", [1050; 3]),
        // Far enough, but within its own variation.
        always("wide", [800, 1500, 1700]),
        always("slow", [3000; 3]),
    ];
    let simulated = report(rows);
    let none = LatencyHistogram::new();
    let same = Agreement::new(&simulated, &simulated, &none);
    // `slow` versus each of the others.
    assert_eq!((same.pairs, same.ordered, same.in_order), (6, 3, 3));
    let mut live = simulated.clone();
    live.strategies[3] = always("slow", [1020; 3]);
    // Live it is slower than `base` alone.
    let other = Agreement::new(&live, &simulated, &none);
    assert_eq!((other.pairs, other.ordered, other.in_order), (6, 3, 1));
    // With a path of 30 ms in all rows, no order is predicted.
    let far = Agreement::new(&simulated, &simulated, &latencies(&[(30_000, 1000)]));
    assert_eq!((far.ordered, far.in_order), (0, 0));
}
