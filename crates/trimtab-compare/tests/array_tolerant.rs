//! The experiments of ToleRAID and Tiny-Tail Flash, in small: what each row must bring.

use std::path::Path;

use trimtab_compare::arrays::{ArrayComparison, ArrayFigures, ArrayReport, compare_arrays};

fn compare(text: &str) -> ArrayReport {
    let comparison = ArrayComparison::parse(text, Path::new(".")).unwrap();
    compare_arrays(&comparison, 2, &|_| {}).unwrap()
}

fn row<'a>(report: &'a ArrayReport, name: &str) -> &'a ArrayFigures {
    let found = report.strategies.iter().find(|row| row.name == name).unwrap();
    assert_eq!(found.impossible, None);
    &found.seeds[0]
}

/// RAID 6 of eight, P and Q at the end, full stripes, with a fault.
fn tole_raid(reads: u64, keys: &str, fault: &str) -> ArrayReport {
    compare(&format!(
        "strategies = ['base', 'reactive', 'proactive-1', 'proactive-2', 'proactive', 'adaptive']
         reads = {reads}
         warm_up_s = 1
         [array]
         level = 'raid6'
         rotation = 'parity-last'
         members = 8
         chunk = '4K'
         {keys}
         [[device]]
         profile = 'femu'
         capacity = '1G'
         fault = [{fault}]
         [costs]
         compute_us = 0
         compute_gb_s = 1000
         [workload]
         read_share = 1
         sizes = [{{ bytes = 24576, weight = 1 }}]
         align_bytes = 24576
         offsets = {{ kind = 'uniform' }}
         arrivals = {{ kind = 'poisson', iops = 10 }}"
    ))
}

/// A read that no member slows down takes 101 µs.
fn slowdown(figures: &ArrayFigures, percentile: &str) -> f64 {
    figures.percentile(percentile).unwrap() / 101_376.0
}

fn is_near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 0.1
}

/// Each member by itself, and each request by itself: Table 3.3's disks, which take twice as long
/// in 0.22% of the hours.
#[test]
fn rare_slowdowns_are_cut_at_three_times_by_reading_late() {
    let factors =
        "[[0.9, 1.1], [0.97, 1.2], [0.99, 1.4], [0.9978, 2.0], [0.999, 2.7], [0.9999, 9.0]]";
    let fault = format!("{{ on = 'each', kind = 'slow', factors = {factors} }}");
    let report = tole_raid(30_000, "", &fault);
    let base = row(&report, "base");
    // Of six independent members one is slow in 6 × 0.22% of the reads.
    assert!(slowdown(base, "p99") > 2.0 && slowdown(base, "p99.9") > 5.0);
    let reactive = row(&report, "reactive");
    assert!(slowdown(reactive, "p99.9") < 3.5, "{}", slowdown(reactive, "p99.9"));
    assert!((0.1..0.4).contains(&reactive.extra_requests_percent));
    // Published: 16.7% and 33.3%. Two extra reads are all strips of RAID 6.
    for (name, extra) in [("proactive-1", 100.0), ("proactive-2", 200.0), ("proactive", 200.0)] {
        let figures = row(&report, name);
        assert!(is_near(figures.extra_reads_percent, extra), "{name}");
        assert!(is_near(figures.extra_requests_percent, extra / 6.0), "{name}");
        assert!(slowdown(figures, "p99.9") < 2.0, "{name}");
    }
    let (one, two) = (row(&report, "proactive-1"), row(&report, "proactive-2"));
    assert!(one.percentile("p99.9") > two.percentile("p99.9"));
    // Where slowdowns do not persist it stays reactive.
    assert!(row(&report, "adaptive").extra_requests_percent < 0.4);
}

/// Five times as slow in one hundredth of the time, by itself on each member.
#[test]
fn adaptive_cuts_persistent_slowdowns_at_the_price_of_one_read_each() {
    let fault =
        "{ on = 'each', kind = 'slow', factor = 5, for_s = [15, 25], every_s = [600, 1400] }";
    let report = tole_raid(40_000, "", fault);
    let base = row(&report, "base");
    assert!(is_near(slowdown(base, "p99"), 5.0));
    assert!(is_near(slowdown(row(&report, "reactive"), "p99"), 3.0));
    let adaptive = row(&report, "adaptive");
    assert!(is_near(slowdown(adaptive, "p99"), 1.0), "{}", slowdown(adaptive, "p99"));
    // A sixth of the share of the reads with a slow member: the share of the time that one is slow.
    let extra = adaptive.extra_requests_percent;
    assert!((1.0..4.0).contains(&extra), "{extra}");
    assert!(adaptive.mean_ns < row(&report, "reactive").mean_ns);
}

#[test]
fn fault_is_on_the_members_that_it_names() {
    let slow = |on: &str| {
        let fault = format!("{{ {on} kind = 'slow', factor = 5 }}");
        let report = tole_raid(1_000, "", &fault);
        slowdown(row(&report, "base"), "p50")
    };
    assert!(is_near(slow(""), 5.0), "the first member holds data");
    assert!(is_near(slow("on = 'first',"), 5.0));
    assert!(is_near(slow("on = [6, 7],"), 1.0), "those of parity do not delay a plain read");
    assert!(is_near(slow("on = [3],"), 5.0));
}

/// What lost members hold is computed, without waiting for them first.
#[test]
fn lost_members_cost_no_time_to_find_out() {
    let report = tole_raid(2_000, "lost = [1, 7]", "{ on = [2], kind = 'slow', factor = 1 }");
    for name in ["base", "reactive", "proactive-1", "adaptive"] {
        let figures = row(&report, name);
        assert!(is_near(slowdown(figures, "p99"), 1.0), "{name}");
        assert_eq!(figures.errors, 0, "{name}");
        assert!(is_near(figures.extra_requests_percent, 100.0 / 6.0), "P: {name}");
    }
}

/// Two drives under Tiny-Tail Flash with some of its parts.
#[test]
fn parts_of_tiny_tail_flash_are_rows() {
    let report = compare(
        "strategies = [
             'ideal',
             'base',
             { strategy = 'ttflash', name = 'planes', firmware = { rotating = false, parity = false, tolerant_reads = false, tolerant_flush = false } },
             { strategy = 'ttflash', name = 'no flush', firmware = { tolerant_flush = false } },
             'ttflash',
             { strategy = 'ttflash', name = 'no copyback', firmware = { copyback = false } },
             { strategy = 'ttflash', name = 'small', override.buffer.size_mb = 0.03 },
             { strategy = 'ttflash', name = 'small, no flush', firmware = { tolerant_flush = false }, override.buffer.size_mb = 0.03 },
         ]
         reads = 30_000
         warm_up_s = 4
         [array]
         level = 'raid0'
         members = 2
         chunk = '1M'
         [[device]]
         profile = 'femu'
         capacity = '2G'
         fill = { share = 1.0, kind = 'aged', overwrites = 2 }
         override.geometry = { chips_per_channel = 4, planes_per_die = 2 }
         override.buffer = { size_mb = 16, flush_watermark = 0.05, writes_per_die = 1 }
         [workload]
         read_share = 0.6
         sizes = [{ bytes = 4096, weight = 2 }, { bytes = 16384, weight = 1 }]
         offsets = { kind = 'uniform' }
         arrivals = { kind = 'poisson', iops = 4000 }",
    );
    let blocked = |name: &str| row(&report, name).busy_percent[1];
    // Published: 2 to 7% of requests are blocked without it, 0.003 to 0.7% with it.
    assert!(blocked("ideal") == 0.0 && blocked("base") > 2.0, "{}", blocked("base"));
    assert!(blocked("planes") < 0.6 * blocked("base"), "{}", blocked("planes"));
    assert!(blocked("ttflash") < 0.1 * blocked("planes"), "{}", blocked("ttflash"));
    let tail = |name: &str| row(&report, name).percentile("p99.9").unwrap();
    assert!(tail("ttflash") < 1.5 * tail("ideal") && tail("base") > 20.0 * tail("ideal"));
    assert!(tail("no copyback") > tail("ttflash"));
    // A page of eight is parity.
    let capacity = |name: &str| row(&report, name).capacity_bytes as f64;
    assert_eq!(capacity("planes"), capacity("base"));
    assert!(is_near(capacity("ttflash"), 0.875 * capacity("base")));
    // Without memory for what waits, writes wait for cleaning, unless they go elsewhere.
    let write = |name: &str| {
        let of = &row(&report, name).write_percentiles;
        of.iter().find(|(percentile, _)| *percentile == "p99.9").unwrap().1
    };
    assert!(write("small") > 10 * write("ttflash"), "{}", write("small"));
    assert!(write("small, no flush") > 2 * write("small"), "{}", write("small, no flush"));
}
