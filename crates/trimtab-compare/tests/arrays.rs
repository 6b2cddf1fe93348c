//! Strategies on a small parity array: what each must bring, and what cannot be an array.

use std::path::Path;

use trimtab_compare::arrays::{
    ArrayComparison, ArrayFigures, ArrayReport, ArrayRow, compare_arrays,
};

const ARRAY: &str = "
reads = 40_000
warm_up_s = 10
[array]
level = 'raid5'
members = 4
chunk = '4K'
[[device]]
profile = 'femu'
capacity = '3G'
fill = { share = 1.0, kind = 'aged', overwrites = 2 }
[workload]
read_share = 0.64
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 4000 }
";

fn parse(text: &str) -> Result<ArrayComparison, String> {
    ArrayComparison::parse(text, Path::new(".")).map_err(|error| error.to_string())
}

fn compare(strategies: &str) -> ArrayReport {
    let comparison = parse(&format!("strategies = [{strategies}]\n{ARRAY}")).unwrap();
    compare_arrays(&comparison, 2, &|_| {}).unwrap()
}

fn row<'a>(report: &'a ArrayReport, name: &str) -> &'a ArrayRow {
    report.strategies.iter().find(|row| row.name == name).unwrap()
}

fn percentile(report: &ArrayReport, row_name: &str, name: &str) -> f64 {
    row(report, row_name).median(|figures| figures.percentile(name)).unwrap()
}

#[test]
fn drives_that_take_turns_and_refuse_are_nearly_ideal() {
    let report =
        compare("'base', 'ideal', 'iod1', 'iod2', 'iod3', 'ioda', 'ttflash', 'preemptive'");
    let at = |row: &str, name: &str| percentile(&report, row, name);
    assert!(at("base", "p99.9") > 50.0 * at("ideal", "p99.9"));
    for (name, most) in [("ioda", 1.3), ("iod3", 1.5), ("ttflash", 1.5)] {
        let ratio = at(name, "p99.9") / at("ideal", "p99.9");
        assert!(ratio < most, "{name}: {ratio}");
    }
    assert!(at("preemptive", "p99.9") < 0.2 * at("base", "p99.9"));
    // These drives, equally worn, clean at once: refusals alone find nowhere to go (IODA, §4.2.2).
    let mean = |name: &str| row(&report, name).median(|figures| Some(figures.mean_ns)).unwrap();
    assert!(mean("iod2") < mean("iod1"), "the least busy drives are waited for");
    // One drive at a time is busy where drives take turns.
    let busy = |name: &str| row(&report, name).seeds[0].busy_percent;
    assert!(busy("ioda")[2..].iter().sum::<f64>() < 0.01, "{:?}", busy("ioda"));
    assert!(busy("base")[1] > 0.5 && busy("ideal")[1..].iter().all(|&share| share == 0.0));
    let extra = |name: &str| row(&report, name).seeds[0].extra_reads_percent;
    assert!(extra("ioda") < 6.0 && extra("base") == 0.0, "{}", extra("ioda"));
    assert!((50.0..100.0).contains(&extra("iod3")), "three reads for one in four");
}

/// Nothing is lost by going around ordinary drives, and the budget is kept.
#[test]
fn ordinary_drives_are_gone_around_within_the_budget() {
    let report = compare("'base', 'trimtab'");
    let figures = |name: &str| &row(&report, name).seeds[0];
    let (base, ours) = (figures("base"), figures("trimtab"));
    assert!(ours.mean_ns < base.mean_ns, "{} {}", ours.mean_ns, base.mean_ns);
    assert!(ours.extra_reads_percent <= 10.0, "{}", ours.extra_reads_percent);
    let written = |figures: &ArrayFigures| figures.write_amplification.unwrap();
    assert!(written(ours) < 1.1 * written(base));
}

/// With a write buffer reads do not wait behind writes; Rails needs a buffer for all that is written
/// while a drive is only read, IODA a small one (IODA, §6.2.3).
#[test]
fn buffers_keep_writes_out_of_the_way_of_reads() {
    let strategies = "strategies = ['ideal', 'ioda', 'ioda-nvm', 'rails']";
    let buffer = "[buffer]\nrole_s = 2";
    let text =
        ARRAY.replace("reads = 40_000", "reads = 10_000").replace("iops = 4000", "iops = 150");
    // Behind large writes others wait.
    let large = "write_sizes = [{ bytes = 524288, weight = 1 }]\noffsets";
    let text = text.replace("offsets", large);
    let comparison = parse(&format!("{strategies}\n{text}\n{buffer}")).unwrap();
    let report = compare_arrays(&comparison, 2, &|_| {}).unwrap();
    let figures = |name: &str| &row(&report, name).seeds[0];
    let write = |name: &str, percentile: &str| {
        let of = figures(name).write_percentiles.iter();
        of.clone().find(|(known, _)| *known == percentile).unwrap().1
    };
    assert!(figures("ioda").buffer.is_none() && figures("ideal").buffer.is_none());
    for name in ["ioda-nvm", "rails"] {
        assert!(percentile(&report, name, "p99.9") < percentile(&report, "ioda", "p99.9"));
        assert!(write(name, "p99") < write("ideal", "p99") && figures(name).errors == 0);
    }
    let held = |name: &str| figures(name).buffer.unwrap().high_water_bytes;
    assert!(held("rails") > 20 * held("ioda-nvm"), "{} {}", held("rails"), held("ioda-nvm"));
    assert_eq!(figures("rails").forced_outside_window, 0);
    assert!(figures("rails").busy_percent[1] < 0.01, "drives that are read do not clean");
}

/// A buffer that is too small delays writes, and loses none; drives that take one request at a time
/// are shared by reads and what is destaged.
#[test]
fn full_buffer_delays_writes() {
    let text = ARRAY.replace("reads = 40_000", "reads = 10_000");
    let text = text.replace("fill =", "host = { queue_depth = 1 }\nfill =");
    let text = text.replace("iops = 4000", "iops = 1000");
    let text = format!("strategies = ['ioda-nvm', 'rails']\n{text}");
    let comparison = parse(&format!("{text}\n[buffer]\ncapacity = '1M'\nrole_s = 0.5")).unwrap();
    let report = compare_arrays(&comparison, 2, &|_| {}).unwrap();
    for row in &report.strategies {
        let figures = &row.seeds[0];
        let buffer = figures.buffer.unwrap();
        assert!(figures.reads == 10_000 && figures.errors == 0, "{}", row.name);
        assert!(buffer.high_water_bytes <= 1 << 20, "{}: {buffer:?}", row.name);
        let stalls = (buffer.stalled_writes > 0, buffer.stalled_ns > trimtab_io::Nanos::ZERO);
        assert_eq!(stalls, (row.name == "rails", row.name == "rails"), "{buffer:?}");
    }
}

#[test]
fn figures_do_not_depend_on_threads() {
    let comparison = parse(&format!("strategies = ['iod2', 'adaptive']\n{ARRAY}")).unwrap();
    let figures = |threads| {
        let report = compare_arrays(&comparison, threads, &|_| {}).unwrap();
        serde_json::to_string(&report).unwrap()
    };
    assert_eq!(figures(1), figures(2));
}

#[test]
fn what_cannot_be_is_one_line_with_the_key() {
    let replaced = |old: &str, new: &str| ARRAY.replace(old, new);
    for (text, key) in [
        (replaced("'raid5'", "'raid7'"), "level"),
        (replaced("members = 4", "members = 2"), "members"),
        (replaced("members = 4", "members = 33"), "array.members"),
        (replaced("chunk = '4K'", "chunk = '2K'"), "chunk"),
        (replaced("chunk = '4K'", "chunk = '12K'"), "chunk"),
        (replaced("chunk = '4K'", "chunks = '4K'"), "chunks"),
        (replaced("reads = 40_000", "reads = 0"), "reads"),
        (replaced("[workload]", "[load]"), "load"),
        (format!("strategies = ['iod4']\n{ARRAY}"), "iod4"),
        (format!("strategies = ['base', 'base']\n{ARRAY}"), "base"),
        (format!("{ARRAY}\n[windows]\nwindow_ms = 0"), "window_ms"),
        (format!("{ARRAY}\n[windows]\nwindow = 1"), "window"),
        (format!("{ARRAY}\n[[device]]\nprofile = 'femu'\ncapacity = '3G'"), "array.members"),
        (format!("{ARRAY}\n[costs]\ncompute_us = -1"), "costs.compute_us"),
        (format!("{ARRAY}\n[buffer]\ncapacity = '8K'"), "buffer.capacity"),
        (format!("{ARRAY}\n[buffer]\nlatency_us = -1"), "buffer.latency_us"),
        (format!("{ARRAY}\n[buffer]\nrole_s = 0"), "buffer.role_s"),
        (format!("{ARRAY}\n[buffer]\ndestage = 'soon'"), "buffer.destage"),
        (format!("{ARRAY}\n[buffer]\nsize = 1"), "size"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(key) && !error.contains('\n'), "{key}: {error}");
    }
}

/// Of members of different size the least capacity counts, with a note.
#[test]
fn smallest_member_counts() {
    let two = "[[device]]\nprofile = 'femu'\ncapacity = '3G'\n".repeat(3);
    let text = ARRAY.replace("members = 4\n", "");
    let mixed = parse(&format!("{text}\n{two}").replacen("'3G'", "'6G'", 1)).unwrap();
    let same = parse(ARRAY).unwrap();
    assert_eq!(mixed.layout().capacity(), same.layout().capacity());
    assert_eq!((mixed.warnings().len(), same.warnings().len()), (1, 0));
}
