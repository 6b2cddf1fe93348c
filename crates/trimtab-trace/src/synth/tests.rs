//! Synthetic traces against their descriptions.

use super::*;
use crate::stats::{Report, Stats};
use trimtab_io::Op;

const POISSON: &str = include_str!("../../../../examples/synth-poisson.toml");
const BURSTY: &str = include_str!("../../../../examples/synth-bursty.toml");
const CLOSED: &str = include_str!("../../../../examples/synth-closed.toml");

const BASE: &str = "seed = 1
requests = 200_000
capacity_gb = 1
read_share = 0.3
";
const ARRIVALS: &str = "arrivals = { kind = 'poisson', iops = 1000 }\n";
const OFFSETS: &str = "offsets = { kind = 'uniform' }\n";
const SIZES: &str = "sizes = [{ bytes = 4096, weight = 1 }]\n";

fn all(text: &str) -> Vec<Record> {
    let mut synth = Synth::from_toml(text, None).unwrap();
    let (mut batch, mut records) = (Vec::new(), Vec::new());
    while synth.read(&mut batch) {
        records.append(&mut batch);
    }
    records
}

fn report(text: &str) -> Report {
    let synth = Synth::from_toml(text, None).unwrap();
    let mut stats = Stats::new();
    all(text).iter().for_each(|r| stats.add(r));
    stats.finish(synth.names(), synth.meta())
}

fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() < tolerance, "{value}, expected {expected}");
}

/// Mean rate, and coefficient of variation of the gaps.
fn rate(arrivals: &str) -> (f64, f64) {
    let report = report(&[BASE, arrivals, OFFSETS, SIZES].concat());
    (
        report.rates.mean_iops.unwrap(),
        report.inter_arrival.unwrap().coefficient_of_variation.unwrap(),
    )
}

#[test]
fn examples_are_valid_and_in_order() {
    for text in [POISSON, BURSTY, CLOSED] {
        let records = all(text);
        assert!(records.len() > 1000);
        assert!(records.is_sorted_by_key(|r| r.arrival));
    }
}

/// If this fails, the same description no longer gives the same trace, and users' figures change.
#[test]
fn generated_traces_are_stable() {
    let digest = |text: &str| {
        let fold = |sum: u64, word: u64| trimtab_io::mix64(sum ^ word);
        let words = |r: &Record| [r.arrival.0, r.offset, r.length, r.op as u64];
        all(text).iter().flat_map(words).fold(0, fold)
    };
    assert_eq!(
        [POISSON, BURSTY, CLOSED].map(digest),
        [18_061_822_342_939_833_930, 6_800_010_216_129_379_116, 6_382_384_683_966_970_877]
    );
}

#[test]
fn seeds_change_the_trace() {
    let of = |seed| {
        let mut batch = Vec::new();
        Synth::from_toml(POISSON, seed).unwrap().read(&mut batch);
        batch
    };
    assert_eq!(of(None), of(None));
    assert_eq!(of(Some(5)), of(Some(5)));
    assert_ne!(of(Some(5)), of(Some(6)));
}

#[test]
fn poisson_arrivals_have_rate_and_variance() {
    let (iops, cv) = rate(ARRIVALS);
    near(iops, 1000.0, 0.01);
    near(cv, 1.0, 0.01);
}

#[test]
fn bursty_arrivals_have_rate_and_variance() {
    let (iops, cv) = rate(
        "arrivals = { kind = 'bursty', on_iops = 10000, off_iops = 100, on_ms = 20, off_ms = 80 }\n",
    );
    near(iops, (10_000.0 * 20.0 + 100.0 * 80.0) / 100.0, 0.1);
    assert!(cv > 3.0, "{cv}");
    let (iops, _) = rate(
        "arrivals = { kind = 'bursty', on_iops = 1000, off_iops = 0, on_ms = 5, off_ms = 15 }\n",
    );
    near(iops, 250.0, 0.05);
}

#[test]
fn periodic_arrivals_keep_their_phases() {
    let arrivals = "arrivals = { kind = 'periodic', on_iops = 1000, on_ms = 20, period_ms = 100, \
                    begin_ms = 30 }\n";
    let (iops, _) = rate(arrivals);
    near(iops, 200.0, 0.02);
    let sizes = "sizes = [{ bytes = 4096, weight = 1 }]\n";
    let records = all(&[BASE, arrivals, OFFSETS, sizes].concat());
    let within = |at: Nanos| (at.0 - 30_000_000) % 100_000_000 < 20_000_000;
    assert!(records.iter().all(|record| within(record.arrival)));
}

#[test]
fn closed_arrivals_have_rate_and_variance() {
    let (iops, cv) =
        rate("arrivals = { kind = 'closed', queue_depth = 8, service_us = 100, think_us = 300 }\n");
    near(iops, 8.0 / 400e-6, 0.01);
    // Many independent clients approximate a Poisson process.
    near(cv, 1.0, 0.1);
    let (iops, _) =
        rate("arrivals = { kind = 'closed', queue_depth = 1, service_us = 50, think_us = 0 }\n");
    near(iops, 20_000.0, 0.01);
}

#[test]
fn shares_sizes_and_end_match() {
    let sizes = "sizes = [{ bytes = 4096, weight = 3 }, { bytes = 65536, weight = 1 }]\n";
    let text = [BASE, ARRIVALS, OFFSETS, sizes].concat();
    let found = report(&text);
    near(found.read_share.unwrap(), 0.3, 0.02);
    near(found.bytes as f64 / 200_000.0, (3.0 * 4096.0 + 65_536.0) / 4.0, 0.01);
    let records = all(&text);
    assert!(records.iter().all(|r| r.offset % 4096 == 0 && r.end() <= 1_000_000_000));
    assert!(records.iter().any(|r| r.end() > 999_000_000));

    let timed = all(&text.replace("requests = 200_000", "duration_s = 2.5"));
    near(timed.len() as f64, 2500.0, 0.1);
    assert!(timed.iter().all(|r| r.arrival < Nanos::from_millis(2500)));
    assert_eq!(timed, all(&text)[..timed.len()]);
}

#[test]
fn zipf_offsets_follow_the_law() {
    let offsets = "offsets = { kind = 'zipf', theta = 0.99 }\n";
    let records = all(&[BASE, ARRIVALS, offsets, SIZES].concat());
    let mut counts = std::collections::HashMap::new();
    records.iter().for_each(|r| *counts.entry(r.offset).or_insert(0_u32) += 1);
    let mut hottest: Vec<_> = counts.into_iter().collect();
    hottest.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let blocks = 1_000_000_000_u64 / 4096;
    let total: f64 = (1..=blocks).map(|r| (r as f64).powf(-0.99)).sum();
    for (rank, (_, count)) in (1..=5).zip(&hottest) {
        near(f64::from(*count), 200_000.0 * f64::from(rank).powf(-0.99) / total, 0.1);
    }
    let apart = hottest[0].0.abs_diff(hottest[1].0);
    assert!(apart > 1 << 20, "{apart}");
}

#[test]
fn sequential_offsets_have_runs() {
    let share =
        |offsets: &str| report(&[BASE, ARRIVALS, offsets, SIZES].concat()).sequential.unwrap();
    let one = share("offsets = { kind = 'sequential', streams = 1, run_requests = 4 }\n");
    near(one.share, 0.75, 0.01);
    let four = share("offsets = { kind = 'sequential', streams = 4, run_requests = 0 }\n");
    near(four.share, 0.25, 0.05);
    assert!(four.share_of_last_32 > 0.99);
}

#[test]
fn errors_name_the_key() {
    let complete = [BASE, ARRIVALS, OFFSETS, SIZES].concat();
    for (from, to, expected) in [
        ("seed = 1", "", "missing field `seed`"),
        ("seed = 1", "sead = 1", "line 1: unknown field `sead`"),
        ("seed = 1", "seed = 'x'", "line 1: invalid type"),
        ("seed = 1", "seed =", "line 1: "),
        (
            "read_share = 0.3",
            "read_share = 1.5",
            "line 4: `read_share` must be from 0 to 1, not 1.5",
        ),
        ("read_share = 0.3", "read_share = nan", "`read_share` must be from 0 to 1, not NaN"),
        ("requests = 200_000", "", "`requests` or `duration_s`"),
        ("requests = 200_000", "requests = 0", "`requests` must be from 1"),
        (
            "iops = 1000",
            "iops = 0",
            "line 5: `arrivals.iops` must be from 0.001 to 100000000, not 0",
        ),
        ("iops = 1000", "iops = 1, burst = 3", "unknown field `burst`"),
        ("'poisson'", "'fractal'", "unknown variant `fractal`"),
        ("'uniform'", "'uniform', theta = 1", "unknown field `theta`"),
        ("'uniform'", "'zipf', theta = -1", "`offsets.theta` must be from 0 to 5, not -1"),
        ("'uniform'", "'sequential', streams = 0, run_requests = 1", "`offsets.streams`"),
        ("bytes = 4096", "bytes = 4000", "`sizes.bytes` must be a multiple of 512, not 4000"),
        ("bytes = 4096", "bytes = 1_000_000_512", "`sizes.bytes` must be from 512 to 1000000000"),
        ("weight = 1", "weight = 0", "`sizes.weight` must be more than 0"),
        ("[{ bytes = 4096, weight = 1 }]", "[]", "`sizes` must have at least one entry"),
    ] {
        let text = complete.replace(from, to);
        assert_ne!(text, complete);
        let error = Synth::from_toml(&text, None).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(expected), "{shown:?} should say {expected:?}");
        assert!(!shown.contains('\n') && error.is_bad_input());
    }
}

#[test]
fn write_sizes_apply_to_writes() {
    let text = [BASE, ARRIVALS, OFFSETS, SIZES].concat();
    let own = format!("{text}write_sizes = [{{ bytes = 65536, weight = 1 }}]\n");
    let (plain, own) = (all(&text), all(&own));
    for (plain, own) in plain.iter().zip(&own) {
        assert_eq!((plain.op, plain.arrival), (own.op, own.arrival));
        assert_eq!(own.length, if own.op == Op::Read { 4096 } else { 65536 });
    }
    // Limited by the largest of both.
    let large = format!("{text}write_sizes = [{{ bytes = 536870912, weight = 1 }}]\n");
    assert!(all(&large).iter().all(|record| record.end() <= 1_000_000_000));
    let odd = format!("{text}write_sizes = [{{ bytes = 1000, weight = 1 }}]\n");
    let error = Synth::from_toml(&odd, None).unwrap_err().to_string();
    assert!(error.contains("line 8: `write_sizes.bytes` must be a multiple of 512"), "{error}");
}

#[test]
fn shared_burst_seed_synchronises_bursts() {
    let text = "read_share = 1
        sizes = [{ bytes = 4096, weight = 1 }]
        offsets = { kind = 'uniform' }
        arrivals = { kind = 'bursty', on_iops = 10_000, off_iops = 0, on_ms = 10, off_ms = 90 }";
    let spec: Spec = toml::from_str(text).unwrap();
    // Which of ten seconds' milliseconds have arrivals.
    let busy = |seed, bursts| {
        let Workload { timing: Timing::Open(mut arrivals), .. } =
            Workload::with_bursts(&spec, seed, 1 << 30, bursts)
        else {
            panic!("an open loop")
        };
        let mut busy = vec![false; 10_000];
        loop {
            let ms = arrivals.next().0 / 1_000_000;
            let Some(busy) = busy.get_mut(ms as usize) else { return busy };
            *busy = true;
        }
    };
    let agree = |a: &[bool], b: &[bool]| {
        let both = a.iter().zip(b).filter(|(a, b)| **a && **b).count();
        both as f64 / a.iter().filter(|a| **a).count() as f64
    };
    let (one, other) = (busy(1, 7), busy(2, 7));
    assert_ne!(one, other);
    assert!(agree(&one, &other) > 0.9, "{}", agree(&one, &other));
    assert!(agree(&one, &busy(1, 8)) < 0.3, "{}", agree(&one, &busy(1, 8)));
}
