//! Scenarios of arrays that cannot be, and those that run with a warning.

use std::path::Path;

use trimtab_compare::arrays::{ArrayComparison, compare_arrays};

const ARRAY: &str = "
reads = 20_000
warm_up_s = 1
[array]
level = 'raid6'
members = 8
chunk = '4K'
[[device]]
profile = 'femu'
capacity = '1G'
fill = { share = 1.0, kind = 'aged', overwrites = 2 }
[workload]
read_share = 0.64
sizes = [{ bytes = 4096, weight = 1 }]
offsets = { kind = 'uniform' }
arrivals = { kind = 'poisson', iops = 1500 }
";

fn parse(text: &str) -> Result<ArrayComparison, String> {
    ArrayComparison::parse(text, Path::new(".")).map_err(|error| error.to_string())
}

fn with_faults(faults: &str) -> String {
    ARRAY.replace("'1G'", &format!("'1G'\nfault = [{faults}]"))
}

fn with_rows(rows: &str) -> String {
    format!("strategies = [{rows}]\n{ARRAY}")
}

#[test]
fn more_failures_than_parities_are_refused() {
    let dies = |on: &str, at: f64| {
        format!("{{ on = {on}, kind = 'error', share = 1, at_s = {at}, for_s = 2 }}")
    };
    for (text, expected) in [
        (with_faults(&dies("[0, 3, 6]", 1.0)), "line 11: `fault`: at 1 s all reads fail on 3"),
        (
            with_faults(&format!("{}, {}", dies("[0, 1]", 1.0), dies("[2]", 2.5))),
            "at 2.5 s all reads fail on 3 members at once, and raid6 can do without 2",
        ),
        (with_faults(&dies("'each'", 0.0)), "at 0 s all reads fail on 8"),
        (
            with_faults(&dies("[4]", 1.0)).replace("'4K'", "'4K'\nlost = [0, 7]"),
            "at 1 s all reads fail on 3",
        ),
        (
            ARRAY.replace("'4K'", "'4K'\nlost = [0, 1, 7]"),
            "line 8: `array.lost`: raid6 can lose 2 of its members, not 3",
        ),
        (
            ARRAY.replace("raid6", "raid0").replace("'4K'", "'4K'\nlost = [0]"),
            "raid0 can lose 0 of its members, not 1",
        ),
        (ARRAY.replace("'4K'", "'4K'\nlost = [8]"), "`array.lost` must be from 0 to 7, not 8"),
        (ARRAY.replace("'4K'", "'4K'\nlost = [1, 1]"), "`array.lost`: member 1 is there twice"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    // As many as there are parities, one after the other, or only some of the requests.
    for faults in [
        dies("[0, 3]", 1.0),
        format!("{}, {}", dies("[0, 1]", 1.0), dies("[2, 3]", 3.0)),
        "{ on = 'each', kind = 'error', share = 0.5 }".to_owned(),
    ] {
        parse(&with_faults(&faults)).unwrap();
    }
    let mirrors = ARRAY.replace("raid6", "raid1");
    parse(&mirrors.replace("'4K'", "'4K'\nlost = [0, 1, 2, 3, 4, 5, 6]")).unwrap();
}

#[test]
fn wrong_faults_and_rows_name_the_key() {
    for (text, expected) in [
        (
            with_faults("{ on = 'some', kind = 'slow', factor = 2 }"),
            "`on` must be \"first\", \"each\"",
        ),
        (with_faults("{ on = [8], kind = 'slow', factor = 2 }"), "`on` must be from 0 to 7, not 8"),
        (with_faults("{ onn = 'each', kind = 'slow', factor = 2 }"), "unknown field `onn`"),
        (with_faults("{ kind = 'slow', factors = [[0.9, 0.5]] }"), "a fault's factors"),
        (
            with_faults("{ kind = 'media', offset = 2_000_000_000 }"),
            "a fault's 512 bytes from offset 2000000000 on extend beyond the drive's end, at 1",
        ),
        (with_faults("{ kind = 'power-cut' }"), "a comparison has no `power-cut`"),
        (with_rows("'ioad'"), "no strategy of arrays called `ioad`"),
        (with_rows("'base', 'base'"), "`base` is there twice"),
        (with_rows("'base', { strategy = 'ideal', name = 'base' }"), "`base` is there twice"),
        (with_rows(""), "`strategies` must have at least one entry"),
        (with_rows("3"), "an entry of `strategies` must be a name, or a table"),
        (with_rows("{ name = 'a' }"), "missing field `strategy`"),
        (with_rows("{ strategy = 'base', nam = 'a' }"), "unknown field `nam`"),
        (with_rows("{ strategy = 'ttflash', firmware = { rotate = true } }"), "`rotate`"),
        (with_rows("{ strategy = 'ttflash', firmware = { parity = false } }"), "tolerant_reads"),
        (with_rows("{ strategy = 'ttflash', firmware = 3 }"), "`firmware` must be a table"),
        (with_rows("{ strategy = 'base', firmware.kind = 'ioda' }"), "`firmware.kind`"),
        (with_rows("{ strategy = 'ioda', firmware.window_ms = 0 }"), "window_ms"),
        (with_rows("{ strategy = 'base', override.buffer.size = 1 }"), "`override.buffer.size`"),
        (with_rows("{ strategy = 'base', override.gc.low_watermark = 2 }"), "low_watermark"),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected) && !error.contains('\n'), "{expected}: {error}");
        assert!(error.starts_with("line "), "{error}");
    }
    let error = parse("strategies = 'base'\n").unwrap_err();
    assert!(error.contains("missing field") || error.contains("`strategies`"), "{error}");
}

#[test]
fn windows_that_do_not_fit_run_with_a_warning_and_its_cost() {
    let text = ARRAY.replace("raid6", "raid5").replace("members = 8", "members = 4");
    let text =
        text.replace("offsets =", "write_sizes = [{ bytes = 65536, weight = 1 }]\noffsets =");
    let rows = "'base', 'iod3', 'ioda-host', 'rails',
        { strategy = 'iod3', name = 'short', firmware.window_ms = 20 },
        { strategy = 'ioda', name = 'long', firmware.window_ms = 10_000 }";
    let comparison = parse(&format!("strategies = [{rows}]\n{text}")).unwrap();
    let warnings = comparison.window_warnings();
    let of = |name: &str| {
        warnings.iter().find(|warning| warning.row == name).map(|warning| warning.what.as_str())
    };
    let short = of("short").unwrap();
    assert!(short.starts_with("windows of 20.0 ms are shorter than one cleaning, 6"), "{short}");
    let long = of("long").unwrap();
    assert!(long.starts_with("windows of 10.0 s are longer than the formula allows"), "{long}");
    // On such a small drive TW_burst has no room for a cleaning: the default is longer.
    assert!(of("iod3").unwrap().contains("TW_burst"), "{warnings:?}");
    assert_eq!((of("base"), of("ioda-host"), of("rails")), (None, None, None));
    assert!(warnings.iter().all(|warning| !warning.what.contains('\n')));

    let report = compare_arrays(&comparison, 2, &|_| {}).unwrap();
    let cost = |name: &str| {
        let row = report.strategies.iter().find(|row| row.name == name).unwrap();
        (row.seeds[0].forced_outside_window, row.seeds[0].window_overruns)
    };
    assert!(cost("short").1 > 0, "they end late: {:?}", cost("short"));
    assert!(cost("long").0 > 0, "space runs out before a drive's turn: {:?}", cost("long"));
    assert_eq!(cost("base"), (0, 0));

    // On a large drive with the formula's own length nothing is to be said.
    let fits = format!("strategies = ['ioda']\n{text}").replace("'1G'", "'12G'");
    assert_eq!(parse(&fits).unwrap().window_warnings(), []);
}

#[test]
fn unknown_key_is_named_with_all_that_are_known() {
    let error = parse(&ARRAY.replace("warm_up_s", "warmup_s")).unwrap_err();
    assert!(error.starts_with("line 3: unknown field `warmup_s`"), "{error}");
    assert!(error.contains("`strategies`") && error.contains("`workload`"), "{error}");
}

#[test]
fn lost_members_are_said() {
    let text = ARRAY.replace("'4K'", "'4K'\nlost = [2, 5]");
    assert_eq!(parse(&text).unwrap().warnings(), ["lost members: 2, 5"]);
}
