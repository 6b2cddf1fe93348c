//! The label `cost` from end to end: models of it are trained on phase one, and phase two is read
//! without (`base`) and with them, on arrays whose drives have a known share of slow reads. Without
//! a control group and with one (`checked`): neither may be worse than `base`.

use std::io::{self, Write as _};

use trimtab_compare::{BuiltinTrainer, Comparison, DriveFacts, Report, StrategyReport, compare};

/// An array of two drives of one kind.
struct Array {
    /// Reads of all drives in phase one, and in phase two.
    reads: [u32; 2],
    /// Reads and writes per second of each drive, and the share of reads.
    iops: u32,
    read_share: f64,
    /// The sizes of reads, as TOML.
    sizes: &'static str,
    /// What is overridden of the drives' profile, as TOML.
    overrides: String,
}

impl Default for Array {
    fn default() -> Self {
        Self {
            reads: [40_000, 30_000],
            iops: 3_000,
            read_share: 1.0,
            sizes: "[{ bytes = 4096, weight = 3 }, { bytes = 16384, weight = 1 }]",
            overrides: String::new(),
        }
    }
}

impl Array {
    /// The firmware pauses for 2 ms in the mean, for this share of the time.
    fn pausing(share: f64) -> Self {
        let every = 2.0 / share;
        let overrides =
            format!("override.noise = {{ pause_ms = 2.0, pause_every_ms = {every:.1} }}");
        Self { overrides, ..Self::default() }
    }

    fn scenario(&self) -> String {
        let Self { reads: [one, two], iops, read_share, sizes, overrides } = self;
        let device = format!(
            "
[[device]]
profile = 'reference'
override.geometry = {{ blocks_per_plane = 64, pages_per_block = 64 }}
{overrides}
fill = {{ share = 1.0, kind = 'aged' }}
"
        );
        format!(
            "seeds = [5]
strategies = [
    'base',
    'trimtab',
    {{ strategy = 'trimtab', name = 'unchecked', tuning = {{ control = false, most_extra = 0.03 }} }},
]
phase_one = {{ reads = {one} }}
phase_two = {{ reads = {two} }}

[workload]
read_share = {read_share}
sizes = {sizes}
write_sizes = [{{ bytes = 16384, weight = 1 }}]
offsets = {{ kind = 'uniform' }}
arrivals = {{ kind = 'poisson', iops = {iops} }}
{device}{device}"
        )
    }
}

/// Trains on phase one and serves phase two; `what` is for the messages of failed tests.
fn report(what: &str, array: &Array) -> Report {
    let comparison = Comparison::parse(&array.scenario(), ".".as_ref()).unwrap();
    let report = compare(&comparison, &BuiltinTrainer, 1, &|_| {}).unwrap();
    let base = figure(&report.strategies[0], "mean_ns");
    for row in &report.strategies[1..] {
        let gain = base - figure(row, "mean_ns");
        _ = writeln!(io::stderr(), "{what}, {}: {gain:.0} of {base:.0} ns saved", row.name);
        // Where nothing is to be gained, trials and exploration may cost two ten-thousandths.
        assert!(gain > -2e-4 * base, "{what}, {}: {gain} ns", row.name);
        assert_eq!(row.seeds[0].errors, 0, "{what}");
    }
    report
}

fn figure(row: &StrategyReport, key: &str) -> f64 {
    row.median.get(key).unwrap()
}

/// The share of the mean latency, and of the p99.9, that each row saves.
fn saved(report: &Report) -> impl Iterator<Item = [f64; 2]> {
    let share = |row, key| 1.0 - figure(row, key) / figure(&report.strategies[0], key);
    report.strategies[1..].iter().map(move |row| ["mean_ns", "p99.9_ns"].map(|key| share(row, key)))
}

/// Why the models of `trimtab` never refuse; empty if one may.
fn never(report: &Report) -> Vec<&str> {
    let reason = |drive: &'_ DriveFacts| drive.never_refuses.contains_key("trimtab");
    let drives = &report.drives[0];
    if !drives.iter().all(reason) {
        return Vec::new();
    }
    drives.iter().map(|drive| drive.never_refuses["trimtab"].as_str()).collect()
}

/// Asserts that both drives have a threshold, and that each row saves these shares.
fn gains(what: &str, array: &Array, [mean, tail]: [f64; 2]) {
    let report = report(what, array);
    for drive in &report.drives[0] {
        assert!(drive.late_ns.contains_key("trimtab"), "{what}: {drive:?}");
    }
    for share in saved(&report) {
        assert!(share[0] > mean && share[1] > tail, "{what}: {share:?}");
    }
}

#[test]
fn rare_pauses_are_refused() {
    gains("0.5%", &Array::pausing(0.005), [0.07, 0.8]);
    gains("2%", &Array::pausing(0.02), [0.2, 0.8]);
}

#[test]
fn frequent_pauses_are_refused() {
    gains("10%", &Array::pausing(0.1), [0.4, 0.3]);
    gains("40%", &Array::pausing(0.4), [0.4, 0.3]);
}

/// Three pauses in phase one do not tell whether they can be predicted, but a hedge needs no
/// prediction.
#[test]
fn a_thousandth_of_slow_reads_is_hedged_where_too_few_are_known() {
    let report = report("0.1%", &Array::pausing(0.001));
    let why = never(&report);
    assert!(why.iter().all(|why| why.contains("not predictably enough")), "{why:?}");
    assert_eq!(why.len(), 2, "{:?}", report.drives);
    for share in saved(&report) {
        assert!(share[0] > 0.05 && share[1] > 0.8, "{share:?}");
    }
}

#[test]
fn flushes_are_refused() {
    let overrides =
        "override.buffer = { size_mb = 8, flush_period_ms = 20, flush_watermark = 0.5 }".to_owned();
    let array = Array { overrides, iops: 5_000, read_share: 0.7, ..Array::default() };
    gains("flushes", &array, [0.6, 0.8]);
}

/// Both drives stall for long, also at the same time.
#[test]
fn long_stalls_are_refused() {
    let overrides = "override.noise = { pause_ms = 100.0, pause_every_ms = 2000.0 }".to_owned();
    gains("stalls", &Array { overrides, ..Array::default() }, [0.15, 0.05]);
}

/// One read in a hundred is slow without any warning.
#[test]
fn models_never_refuse_where_nothing_can_be_predicted() {
    let overrides = "override.noise = { retry_probability = 0.01, retry_most = 5 }".to_owned();
    let report = report("retries", &Array { overrides, ..Array::default() });
    let why = never(&report);
    assert!(why.iter().all(|why| why.contains("not predictably enough")), "{why:?}");
    assert_eq!(why.len(), 2, "{:?}", report.drives);
    assert!(report.strategies.iter().all(|row| row.seeds[0].refused == 0));
}

/// Every read takes the same time, unless it meets another one.
#[test]
fn models_never_refuse_where_nothing_is_to_be_gained() {
    for iops in [300, 3_000] {
        let sizes = "[{ bytes = 4096, weight = 1 }]";
        let report = report("nothing", &Array { sizes, iops, ..Array::default() });
        let why = never(&report);
        let costs_less = |why: &&str| why.contains("which costs less than predicting it");
        assert!(why.len() == 2 && why.iter().all(costs_less), "{why:?}");
        let [base, trimtab, unchecked] = report.strategies.as_slice() else { panic!() };
        for key in ["mean_ns", "p50_ns", "p99_ns", "p99.9_ns"] {
            assert_eq!(figure(base, key), figure(unchecked, key), "{key}");
            // The control group is sent twice, and a read that meets another one may leave.
            assert!(figure(trimtab, key) < 1.01 * figure(base, key), "{key}");
        }
        assert_eq!(figure(unchecked, "extra_io_percent"), 0.0);
    }
}
