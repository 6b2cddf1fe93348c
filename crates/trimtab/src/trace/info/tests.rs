use trimtab_io::{DeviceId, Nanos, Op};
use trimtab_trace::{Clock, Format, Meta, Names, Record, Stats};

use super::*;

fn described(file: &str, requests: u64) -> Described {
    let mut names = Names::default();
    names.add_device("sda").unwrap();
    names.add_device("sdb").unwrap();
    let mut stats = Stats::new();
    for i in 0..requests {
        let arrival = Nanos::from_micros(100 * i);
        let op = if i % 4 == 0 { Op::Write } else { Op::Read };
        let device = DeviceId(u32::from(i % 3 == 0));
        stats.add(&Record {
            issue: Some(arrival + Nanos(500)),
            complete: Some(arrival + Nanos(80_000 + i % 1000 * 1000)),
            ..Record::arriving(arrival, device, op, i % 5000 * 4096, 4096)
        });
    }
    let meta = Meta { format: Format::Msr, clock: Clock::Unix, has_offsets: true, notes: vec![] };
    Described { file: file.to_owned(), report: stats.finish(&names, &meta) }
}

#[test]
fn fits_into_the_terminal() {
    let traces: Vec<_> = (0..8)
        .map(|i| described(&format!("a/rather/long/path/of-trace-{i}.parquet"), 1 << (3 * i)))
        .collect();
    for width in [80, 120] {
        let text = text(&traces, width);
        for line in text.lines().filter(|line| !line.contains("path")) {
            assert!(line.chars().count() <= width, "{width}: {line:?}");
            assert!(!line.ends_with(' '), "{line:?}");
        }
    }
}

#[test]
fn unsupported_figures_are_dashes() {
    let text = text(&[described("x", 1)], 80);
    assert!(text.lines().any(|line| line.starts_with("mean IOPS") && line.ends_with('–')));
    assert!(!text.contains("NaN") && !text.contains("inf"));
}
