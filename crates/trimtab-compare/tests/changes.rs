//! What trimtab's strategy makes of drives that change in phase two, after training: within a
//! second it has found out. And of drives that are all overloaded.

use std::io::{self, Write as _};

use trimtab_compare::{BuiltinTrainer, Comparison, StrategyReport, compare};

/// Three drives, of which these have faults. Phase two takes 10 s, with 1,000 reads/s for each
/// drive; the first is slow in some 2% of them anyway.
fn serve(what: &str, faults: [&str; 3]) -> [StrategyReport; 2] {
    let device = |fault: &str| {
        format!(
            "
[[device]]
profile = 'reference'
override.geometry = {{ blocks_per_plane = 64, pages_per_block = 64 }}
override.noise = {{ pause_ms = 2.0, pause_every_ms = 100.0 }}
fill = {{ share = 1.0, kind = 'aged' }}
{fault}
"
        )
    };
    let devices: String = faults.iter().map(|fault| device(fault)).collect();
    let text = format!(
        "seeds = [7]
strategies = ['base', 'trimtab']
phase_one = {{ reads = 40_000 }}
phase_two = {{ reads = 30_000 }}

[workload]
read_share = 1.0
sizes = [{{ bytes = 4096, weight = 1 }}]
offsets = {{ kind = 'uniform' }}
arrivals = {{ kind = 'poisson', iops = 1000 }}
{devices}"
    );
    run(what, &text)
}

/// Three drives that are alike, with these keys, and 1,000 reads/s for each.
fn like_drives(experiment: &str, device: &str) -> String {
    format!(
        "seeds = [7]
{experiment}
refusal_samples = 0

[workload]
read_share = 1.0
sizes = [{{ bytes = 4096, weight = 1 }}]
offsets = {{ kind = 'uniform' }}
arrivals = {{ kind = 'poisson', iops = 1000 }}

[[device]]
profile = 'reference'
count = 3
override.geometry = {{ blocks_per_plane = 64, pages_per_block = 64 }}
fill = {{ share = 1.0, kind = 'aged' }}
{device}
"
    )
}

/// Runs the strategies.
fn run<const N: usize>(what: &str, text: &str) -> [StrategyReport; N] {
    let comparison = Comparison::parse(text, ".".as_ref()).unwrap();
    let report = compare(&comparison, &BuiltinTrainer, 1, &|_| {}).unwrap();
    for row in &report.strategies {
        let us = |key: &str| figure(row, key) / 1e3;
        let (mean, p90, p99) = (us("mean_ns"), us("p90_ns"), us("p99_ns"));
        let (name, extra) = (&row.name, figure(row, "extra_io_percent"));
        let line = format!("{what}, {name}: {mean:.0} us, p90 {p90:.0}, p99 {p99:.0}, {extra:.1}%");
        _ = writeln!(io::stderr(), "{line}");
        assert_eq!(row.seeds[0].errors, 0, "{what}");
    }
    report.strategies.try_into().unwrap()
}

fn figure(row: &StrategyReport, key: &str) -> f64 {
    row.median.get(key).unwrap()
}

/// From 3 s on a third of the reads of `base` is slow, 23% of all. A strategy that needs a second
/// to leave the drive has 3%.
#[test]
fn a_drive_that_slows_down_for_good_is_left_within_a_second() {
    let [healthy, _] = serve("healthy", ["", "", ""]);
    let slow = "fault = [{ kind = 'slow', factor = 10, at_s = 3 }]";
    let [base, trimtab] = serve("slow for good", [slow, "", ""]);
    let p90 = figure(&healthy, "p90_ns");
    assert!(figure(&base, "p90_ns") > 5.0 * p90, "without steering it is seen");
    assert!(figure(&trimtab, "p90_ns") < 1.5 * p90);
    assert!(figure(&trimtab, "mean_ns") < 0.4 * figure(&base, "mean_ns"));
}

/// Nothing can be gained, and nothing may be lost by it.
#[test]
fn drives_that_all_slow_down_are_no_worse_than_without_steering() {
    let slow = "fault = [{ kind = 'slow', factor = 10, at_s = 3 }]";
    let [base, trimtab] = serve("all slow", [slow; 3]);
    for key in ["mean_ns", "p90_ns", "p99_ns"] {
        assert!(figure(&trimtab, key) < 1.02 * figure(&base, key), "{key}");
    }
}

/// Without steering each read of the dead drive is asked for again after its failure.
#[test]
fn a_drive_that_dies_and_comes_back_costs_no_tail() {
    let dies = "fault = [{ kind = 'error', ops = 'reads', share = 1.0, at_s = 3, for_s = 3 }]";
    let [base, trimtab] = serve("dies and returns", [dies, "", ""]);
    for key in ["mean_ns", "p90_ns", "p99_ns"] {
        assert!(figure(&trimtab, key) < 1.02 * figure(&base, key), "{key}");
    }
    // A tenth of all reads would fail first and be sent again.
    assert!(figure(&trimtab, "extra_io_percent") < 3.0);
}

/// Two drives, of which one alone cannot serve all reads: these wait longer until the other one is back. Without
/// steering each read tries it first.
#[test]
fn a_drive_that_is_needed_is_used_as_soon_as_it_is_back() {
    let device = "
[[device]]
profile = 'reference'
override.geometry = { channels = 4, chips_per_channel = 8, blocks_per_plane = 64, pages_per_block = 64 }
override.timing = { read_us = 91.4 }
fill = { share = 1.0, kind = 'aged' }
";
    let text = format!(
        "seeds = [7]
strategies = ['base', 'trimtab']
phase_one = {{ reads = 20_000 }}
phase_two = {{ reads = 60_000 }}
refusal_samples = 0

[workload]
read_share = 1.0
sizes = [{{ bytes = 65_536, weight = 1 }}]
offsets = {{ kind = 'uniform' }}
arrivals = {{ kind = 'poisson', iops = 15_000 }}
{device}{device}
fault = [{{ kind = 'error', ops = 'reads', share = 1.0, at_s = 0.3, for_s = 0.4 }}]"
    );
    let [base, trimtab] = run("needed", &text);
    for key in ["mean_ns", "p99_ns", "p99.9_ns"] {
        assert!(figure(&trimtab, key) < 1.05 * figure(&base, key), "{key}");
    }
}

/// While all drives are stalled no duplicate gains anything. That is no reason to send none afterwards:
/// one read in fifty is slow then, and its duplicate mostly is not.
#[test]
fn a_stall_of_all_drives_is_no_reason_to_hedge_no_more() {
    let experiment = "strategies = ['base', 'trimtab']
phase_one = { reads = 60_000 }
phase_two = { duration_s = 20 }";
    let serve = |fault: &str| {
        let noise = "override.noise = { retry_probability = 0.02, retry_most = 50 }";
        run("slow reads", &like_drives(experiment, &format!("{noise}\n{fault}")))
    };
    let [_, before] = serve("");
    let [base, after] = serve("fault = [{ kind = 'stall', at_s = 0.1, for_s = 0.1 }]");
    // 0.6% of the reads come in the stall. In the second after it there would be 5% of all that is slow.
    let p99 = |row| figure(row, "p99_ns");
    assert!(p99(&after) < 0.5 * p99(&base), "{} {}", p99(&after), p99(&base));
    assert!(figure(&after, "extra_io_percent") > 0.5 * figure(&before, "extra_io_percent"));
}

/// Whatever a predictor says, what that costs is bounded: where a tenth of the reads is slow, and where
/// none is and moving one costs four times its latency.
#[test]
fn wrong_predictors_cost_little() {
    let noisy = "override.noise = { pause_ms = 2.0, pause_every_ms = 20.0 }";
    for (failover, noise) in [(9, noisy), (500, noisy), (200, "")] {
        let experiment = format!(
            "strategies = ['base',
    {{ strategy = 'trimtab', name = 'random', errors = {{ false_negatives = 0.5, false_positives = 0.5 }} }},
    {{ strategy = 'trimtab', name = 'inverted', errors = {{ false_negatives = 1, false_positives = 1 }} }},
    {{ strategy = 'trimtab', name = 'late', errors = {{ false_negatives = 0, false_positives = 1 }} }},
    {{ strategy = 'trimtab', name = 'never', errors = {{ false_negatives = 1, false_positives = 0 }} }}]
phase_one = {{ reads = 20_000 }}
phase_two = {{ reads = 40_000 }}
costs.failover_us = {failover}"
        );
        let rows: [StrategyReport; 5] = run(noise, &like_drives(&experiment, noise));
        let [base, wrong @ ..] = rows;
        for row in &wrong {
            for key in ["mean_ns", "p99_ns"] {
                let (found, of_base) = (figure(row, key), figure(&base, key));
                let name = &row.name;
                assert!(found < 1.02 * of_base, "{name}, {failover} us: {found} {of_base}");
            }
        }
    }
}

/// Bursts of reads and writes come to all drives at once, and more than they can take: all queues
/// are as long, and to move reads between them gains nothing.
#[test]
fn drives_that_are_all_overloaded_keep_their_reads() {
    let device = "
[[device]]
profile = 'reference'
override.geometry = { blocks_per_plane = 64, pages_per_block = 64 }
fill = { share = 0.5, kind = 'aged' }
host = { queue_depth = 32 }
";
    let text = format!(
        "seeds = [7]
strategies = ['base', 'trimtab']
phase_one = {{ reads = 20_000 }}
phase_two = {{ reads = 20_000 }}
correlated_bursts = true

[workload]
read_share = 0.4
sizes = [{{ bytes = 65536, weight = 1 }}]
offsets = {{ kind = 'uniform' }}
arrivals = {{ kind = 'bursty', on_iops = 20_000, off_iops = 0, on_ms = 200, off_ms = 1000 }}
{}",
        device.repeat(4)
    );
    let [base, trimtab] = run("all overloaded", &text);
    assert!(figure(&base, "mean_ns") > 20e6, "requests wait for each other");
    for key in ["mean_ns", "p90_ns", "p99_ns"] {
        assert!(figure(&trimtab, key) < 1.02 * figure(&base, key), "{key}");
    }
}
