//! Comparisons on arrays that vary the windows, end by time, or send more than the array takes.

use std::path::Path;

use trimtab_compare::arrays::{
    ArrayComparison, ArrayFigures, ArrayReport, PartFigures, compare_arrays,
};

const OPEN: &str = "{ kind = 'poisson', iops = 4000 }";

/// A scenario: top-level keys, the share of reads, arrivals, and tables.
fn scenario(keys: &str, read_share: f64, arrivals: &str, tables: &str) -> String {
    format!(
        "{keys}
[array]
level = 'raid5'
members = 4
chunk = '4K'
[[device]]
profile = 'femu'
capacity = '3G'
fill = {{ share = 1.0, kind = 'aged', overwrites = 2 }}
[workload]
read_share = {read_share}
sizes = [{{ bytes = 4096, weight = 1 }}]
offsets = {{ kind = 'uniform' }}
arrivals = {arrivals}
{tables}"
    )
}

fn parse(text: &str) -> Result<ArrayComparison, String> {
    ArrayComparison::parse(text, Path::new(".")).map_err(|error| error.to_string())
}

fn compare(text: &str) -> ArrayReport {
    compare_arrays(&parse(text).unwrap(), 2, &|_| {}).unwrap()
}

fn figures<'a>(report: &'a ArrayReport, name: &str) -> &'a ArrayFigures {
    &report.strategies.iter().find(|row| row.name == name).unwrap().seeds[0]
}

#[test]
fn each_length_has_a_row_and_wrong_ones_show_what_they_cost() {
    let keys = "strategies = ['base', 'ideal', 'ioda']\nwarm_up_s = 10\nduration_s = 35";
    let windows = "[windows]\nwindow_ms = [10, 100, 60_000]";
    let text = scenario(keys, 0.64, "{ kind = 'poisson', iops = 8000 }", windows);
    let warnings = parse(&text).unwrap().window_warnings();
    let rows: Vec<_> = warnings.iter().map(|warning| warning.row.as_str()).collect();
    // For drives this small a burst allows no more than one cleaning takes.
    assert_eq!(rows, ["ioda 10 ms", "ioda 100 ms", "ioda 60 s"]);
    assert!(warnings[0].what.contains("10.0 ms are shorter than one cleaning"), "{warnings:?}");
    assert!(warnings[2].what.contains("60.0 s are longer"), "{warnings:?}");
    let report = compare(&text);
    let names: Vec<_> = report.strategies.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["base", "ideal", "ioda 10 ms", "ioda 100 ms", "ioda 60 s"]);
    let of = |name: &str| figures(&report, name);
    let p99_9 = |name: &str| of(name).percentile("p99.9").unwrap();
    assert!(p99_9("ioda 100 ms") < 1.3 * p99_9("ideal"));
    assert_eq!(
        (of("ioda 100 ms").forced_outside_window, of("ioda 100 ms").window_overruns),
        (0, 0)
    );
    assert!(of("ioda 10 ms").window_overruns > 0, "a cleaning takes 60 ms");
    assert!(of("ioda 60 s").forced_outside_window > 0, "the others' turns do not come in time");
    let busy = |name: &str| of(name).busy_percent[2..].iter().sum::<f64>();
    assert!(busy("ioda 100 ms") < 0.01 && busy("ioda 60 s") > 0.01);
}

/// Host and drives change at the same time: else a drive would be read in its turn.
#[test]
fn host_and_drives_change_their_windows_together() {
    let keys = "strategies = ['base', 'ideal', 'iod3']\nwarm_up_s = 10\nduration_s = 10";
    let windows = "[windows]\nwindow_ms = 70\nthen = { at_s = 5, window_ms = 230 }";
    let report = compare(&scenario(keys, 0.64, OPEN, windows));
    let parts = |name: &str| figures(&report, name).parts.as_slice();
    let p99_9 = |part: &PartFigures| part.percentile("p99.9").unwrap();
    for (own, ideal) in parts("iod3").iter().zip(parts("ideal")) {
        assert!(p99_9(own) < 1.5 * p99_9(ideal), "{} {}", p99_9(own), p99_9(ideal));
    }
    for row in &report.strategies {
        let [before, after] = &row.seeds[0].parts[..] else { panic!("two parts: {row:?}") };
        assert_eq!(before.reads + after.reads, row.seeds[0].reads);
        assert!(before.reads.abs_diff(after.reads) < before.reads / 10);
    }
    assert_eq!(figures(&report, "iod3").busy_percent[2..], [0.0; 3]);
    // Rows without windows are cut too, and not changed.
    let unchanged = compare(&scenario(keys, 0.64, OPEN, ""));
    assert_eq!(figures(&unchanged, "base").percentiles, figures(&report, "base").percentiles);
    assert_eq!(figures(&unchanged, "base").parts.len(), 1);
}

/// A closed loop keeps as many requests outstanding as it has clients; without reads time ends it.
#[test]
fn closed_loop_without_reads_ends_by_time() {
    let keys = "strategies = ['base', 'ioda']\nwarm_up_s = 2\nduration_s = 3";
    let arrivals = "{ kind = 'closed', queue_depth = 64, think_us = 0 }";
    let report = compare(&scenario(keys, 0.0, arrivals, ""));
    for row in &report.strategies {
        let figures = &row.seeds[0];
        assert_eq!((figures.reads, figures.reads_per_s), (0, 0.0));
        assert!(figures.writes_per_s > 1000.0 && figures.percentiles.is_empty());
        assert!((1..=64).contains(&figures.outstanding), "{}", figures.outstanding);
        assert!(!figures.is_overloaded());
    }
    let mixed = compare(&scenario(keys, 0.8, arrivals, ""));
    let figures = figures(&mixed, "base");
    let share = figures.reads_per_s / figures.iops;
    assert!((0.79..0.81).contains(&share), "{share}");
}

#[test]
fn overload_ends_and_is_noticed() {
    let keys = "strategies = ['base', 'ioda']\nwarm_up_s = 1\nduration_s = 2";
    let report = compare(&scenario(keys, 0.3, "{ kind = 'poisson', iops = 200_000 }", ""));
    for row in &report.strategies {
        let figures = &row.seeds[0];
        assert!(figures.is_overloaded(), "{} of {}", figures.outstanding, figures.arrived);
    }
    let report = compare(&scenario(keys, 0.3, OPEN, ""));
    assert!(report.strategies.iter().all(|row| !row.seeds[0].is_overloaded()));
}

/// Windows of the host alone cost as much as others, and bring little (IODA, §6.3.3).
#[test]
fn windows_without_the_drives_help_do_not_bring_much() {
    let keys =
        "strategies = ['base', 'ideal', 'iod3', 'iod3-ordinary']\nreads = 40_000\nwarm_up_s = 10";
    let report = compare(&scenario(keys, 0.64, OPEN, ""));
    let of = |name: &str| figures(&report, name);
    assert!((50.0..100.0).contains(&of("iod3-ordinary").extra_reads_percent));
    let p99_9 = |name: &str| of(name).percentile("p99.9").unwrap();
    assert!(p99_9("iod3") < 1.5 * p99_9("ideal"));
    assert!(p99_9("iod3-ordinary") > 20.0 * p99_9("ideal"));
    assert!(of("iod3-ordinary").busy_percent[1..].iter().sum::<f64>() > 0.5);
}

#[test]
fn wrong_values_are_one_line_with_the_key() {
    for (keys, read_share, tables, expected) in [
        ("", 0.0, "", "duration_s"),
        ("duration_s = 0", 0.5, "", "duration_s"),
        ("", 0.5, "[windows]\nwindow_ms = []", "window_ms"),
        ("", 0.5, "[windows]\nwindow_ms = [20, 20]", "window_ms"),
        ("", 0.5, "[windows]\nwindow_ms = [20, 0]", "window_ms"),
        ("", 0.5, "[windows]\nwindow_ms = '20'", "20"),
        ("", 0.5, "[windows]\nthen = { at_s = 1 }", "window_ms"),
        ("", 0.5, "[windows]\nthen = { at_s = 0, window_ms = 1 }", "windows.then.at_s"),
        ("", 0.5, "[windows]\nthen = { at_s = 1, window_ms = 0 }", "windows.then.window_ms"),
        ("", 0.5, "[windows]\nthen = { at_s = 1, window_ms = 1, clean_to = 1 }", "clean_to"),
        ("", 0.5, "[windows]\nthen = 3", "line"),
    ] {
        let error = parse(&scenario(keys, read_share, OPEN, tables)).unwrap_err();
        assert!(error.contains(expected) && !error.contains('\n'), "{expected}: {error}");
        assert!(error.contains("line "), "{error}");
    }
    let error = parse(&format!("windows = 3\n{}", scenario("", 0.5, OPEN, ""))).unwrap_err();
    assert!(error.contains("`windows` must be a table"), "{error}");
}
