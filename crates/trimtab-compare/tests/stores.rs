//! Replicated stores with neighbours: disks, schedulers, page caches, parallel reads.

use std::path::Path;

use trimtab_compare::{BuiltinTrainer, Comparison, Report, compare};
use trimtab_io::Nanos;

/// Six nodes, whose disks have bursts of a neighbour's large reads.
const STORE: &str = "
    seeds = [1]
    phase_one = { duration_s = 10 }
    phase_two = { duration_s = 30 }
    copies = 3
    deadline_us = 20_000
    refusal_samples = 0
    costs = { failover_us = 300, resend_us = 300 }
    strategies = ['no-noise', 'base', 'hedge', 'mitt']
    [[workload]]
    capacity_gb = 100
    read_share = 1
    arrivals = { kind = 'poisson', iops = 15 }
    offsets = { kind = 'uniform' }
    sizes = [{ bytes = 4096, weight = 1 }]
    [[workload]]
    noise = true
    issuer = { process = 9 }
    read_share = 1
    arrivals = { kind = 'bursty', on_iops = 100, off_iops = 0, on_ms = 150, off_ms = 3_000 }
    offsets = { kind = 'uniform' }
    sizes = [{ bytes = 1048576, weight = 1 }]
    [[device]]
    count = 6
    profile = 'disk-7200'
    scheduler = { kind = 'cfq' }";

fn run(text: &str, settings: &[&str]) -> Report {
    let settings: Vec<_> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let comparison = Comparison::parse_with(text, Path::new("/nowhere"), &settings).unwrap();
    compare(&comparison, &BuiltinTrainer, 2, &|_| {}).unwrap()
}

fn ms(report: &Report, row: &str, key: &str) -> f64 {
    let row = report.strategies.iter().find(|one| one.name == row).unwrap();
    row.median.get(key).unwrap() / 1e6
}

#[test]
fn deadlines_keep_reads_away_from_neighbours() {
    let report = run(STORE, &[]);
    let p99 = |row| ms(&report, row, "p99_ns");
    assert!(p99("base") > 3.0 * p99("no-noise"), "{} {}", p99("base"), p99("no-noise"));
    assert!(p99("mitt") < 1.5 * p99("no-noise"), "{} {}", p99("mitt"), p99("no-noise"));
    assert!(ms(&report, "mitt", "mean_ns") < ms(&report, "hedge", "mean_ns"));
    // The same requests and the same figures, whatever the number of rows.
    let again = run(STORE, &["strategies = ['mitt']"]);
    assert_eq!(again.strategies[0].seeds[0].max_ns, report.strategies[3].seeds[0].max_ns);
}

#[test]
fn user_requests_wait_for_their_slowest_read() {
    let one = run(STORE, &["strategies = ['base', 'mitt']"]);
    let five = run(STORE, &["strategies = ['base', 'mitt']", "parallel = 5"]);
    for row in ["base", "mitt"] {
        assert!(ms(&five, row, "mean_ns") > 1.2 * ms(&one, row, "mean_ns"), "{row}");
    }
    let reads = |report: &Report| report.strategies[0].seeds[0].reads;
    assert!(reads(&five).abs_diff(reads(&one) / 5) < reads(&one) / 50, "{}", reads(&five));
}

#[test]
fn sending_again_takes_its_time() {
    let rows = "strategies = ['base', 'hedge', 'clone']";
    let near = run(STORE, &[rows, "costs.resend_us = 0"]);
    let far = run(STORE, &[rows, "costs.resend_us = 40_000"]);
    let of = |report: &Report, row| ms(report, row, "p99_ns");
    assert!(of(&far, "hedge") > of(&near, "hedge") + 20.0, "{}", of(&far, "hedge"));
    // Clones are sent at once.
    assert_eq!(of(&far, "clone"), of(&near, "clone"));
}

#[test]
fn reads_that_are_bumped_go_elsewhere() {
    // Small and urgent reads, with one request on the disk at a time.
    let urgent = STORE
        .replace("process = 9 }", "process = 9, class = 'real-time' }")
        .replace(
            "on_iops = 100, off_iops = 0, on_ms = 150",
            "on_iops = 110, off_iops = 20, on_ms = 500",
        )
        .replace("bytes = 1048576", "bytes = 4096")
        .replace("kind = 'cfq' }", "kind = 'cfq' }\n    device_depth = 1");
    let report = run(&urgent, &["strategies = ['base', 'mitt']"]);
    let mitt = &report.strategies[1].seeds[0];
    assert!(mitt.cancelled > 10, "{}", mitt.cancelled);
    assert_eq!((mitt.errors, mitt.reads), (0, report.strategies[0].seeds[0].reads));
    assert!(ms(&report, "mitt", "p99_ns") < 0.5 * ms(&report, "base", "p99_ns"));
    // Where the host's queue is long, the place of a bumped read goes to the next at once.
    for depth in [1, 3] {
        let narrow = urgent
            .replace("count = 6", &format!("count = 6\n    host = {{ queue_depth = {depth} }}"));
        let report = run(&narrow, &["strategies = ['mitt']"]);
        let row = &report.strategies[0].seeds[0];
        assert_eq!((row.errors, row.reads), (0, mitt.reads), "depth {depth}");
    }
}

#[test]
fn errors_of_prediction_cost_latency() {
    let mitt =
        |name, errors| format!("{{ strategy = 'mitt', name = '{name}', errors = {errors} }}");
    let rows = [
        "'base'".to_owned(),
        mitt("right", "{}"),
        mitt("blind", "{ false_negatives = 1 }"),
        mitt("afraid", "{ false_positives = 1 }"),
    ];
    let report = run(STORE, &[&format!("strategies = [{}]", rows.join(", "))]);
    let mean = |row| ms(&report, row, "mean_ns");
    // Who refuses nothing is `base`, but for the time of its decisions.
    assert!(
        (mean("blind") / mean("base") - 1.0).abs() < 0.01,
        "{} {}",
        mean("blind"),
        mean("base")
    );
    assert!(mean("right") < mean("afraid") && mean("right") < mean("blind"));
}

#[test]
fn evicted_pages_are_read_elsewhere() {
    let text = "
        seeds = [1]
        phase_one = { duration_s = 10 }
        phase_two = { duration_s = 20 }
        deadline_us = 100
        costs = { failover_us = 300, resend_us = 300 }
        strategies = ['base', 'mitt']
        [workload]
        capacity_gb = 0.268435456
        align_bytes = 1048576
        read_share = 1
        arrivals = { kind = 'poisson', iops = 200 }
        offsets = { kind = 'uniform' }
        sizes = [{ bytes = 4096, weight = 1 }]
        [[device]]
        count = 3
        profile = 'disk-7200'
        scheduler = { kind = 'cfq' }
        cache = { pages = 512, evict = { share = 0.2, every_ms = 3_000 } }";
    let report = run(text, &[]);
    let p99 = |row| ms(&report, row, "p99_ns");
    assert!(p99("base") > 2.0 && p99("mitt") < 1.0, "{} {}", p99("base"), p99("mitt"));
    // Reads from memory are not disturbed.
    let p50 = |row| ms(&report, row, "p50_ns");
    assert!((p50("base") - p50("mitt")).abs() < 0.001);
}

#[test]
fn without_neighbours_no_page_is_taken_away() {
    let text = "
        seeds = [1]
        phase_one = { duration_s = 20 }
        phase_two = { duration_s = 20 }
        deadline_us = 100
        strategies = ['no-noise', 'base']
        [workload]
        capacity_gb = 0.016777216
        read_share = 1
        arrivals = { kind = 'poisson', iops = 50 }
        offsets = { kind = 'uniform' }
        sizes = [{ bytes = 4096, weight = 1 }]
        [[device]]
        count = 3
        profile = 'disk-7200'
        [device.cache]
        pages = 4096
        warm = true
        readahead_bytes = 0
        evict = { share = 0.2, every_ms = 5_000 }";
    let report = run(text, &[]);
    let most = |row: usize| report.strategies[row].seeds[0].max_ns;
    assert_eq!(most(0), Nanos::from_micros(20));
    assert!(most(1) > Nanos::from_millis(1), "{}", most(1));
}

#[test]
fn scenarios_of_the_experiments_are_valid() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mittos");
    let mut count = 0;
    for entry in examples.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let comparison = Comparison::load(&path).unwrap();
        assert!(comparison.entries().len() > 3, "{}", path.display());
        count += 1;
    }
    assert!(count >= 10, "{count}");
}

/// Each read of a request is for a drive of its own: where one leaves it, it meets another's.
#[test]
fn reads_of_almost_all_drives_at_once_stay_where_they_are() {
    let settings = [
        "seeds = [1, 2, 3, 4]",
        "strategies = ['base', 'c3', 'trimtab']",
        "phase_one = { duration_s = 30 }",
        "phase_two = { duration_s = 300 }",
        "parallel = 18",
        "workload = [{ name = 'w', capacity_gb = 100, read_share = 1, \
         arrivals = { kind = 'poisson', iops = 8 }, offsets = { kind = 'uniform' }, \
         sizes = [{ bytes = 1048576, weight = 1 }] }]",
        "device = [{ count = 20, profile = 'disk-7200', scheduler = { kind = 'cfq' } }]",
    ];
    let report = run(STORE, &settings);
    let mean = |row| ms(&report, row, "mean_ns");
    assert!(mean("c3") > 1.3 * mean("base"), "{} {}", mean("c3"), mean("base"));
    assert!(mean("trimtab") < 1.1 * mean("base"), "{} {}", mean("trimtab"), mean("base"));
}
