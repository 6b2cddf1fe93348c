//! `trimtab trace cut`, `rerate` and `synth`, as a user runs them: their output, compared with
//! the definition, and their errors.

#[path = "../place/mod.rs"]
mod place;

use std::fs;
use std::path::Path;
use std::process::Output;

use place::Place;
use trimtab_io::{Nanos, Op};
use trimtab_trace::{Record, Trace, TraceOptions};

const TRACE: &str = "\
128166372000000000,usr,0,Read,0,4096,10000
128166372005000000,usr,1,Read,4096,4096,10000
";

impl Place {
    fn trace(&self, args: &[&str]) -> Output {
        self.command(&[&["trace"], args].concat()).output().unwrap()
    }

    /// Runs with `-o out.parquet`, expects success, and reads the output.
    fn written(&self, args: &[&str]) -> Vec<Request> {
        let output = self.trace(&[args, &["-o", "out.parquet"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {said}");
        self.read("out.parquet")
    }

    fn read(&self, name: &str) -> Vec<Request> {
        let mut trace = Trace::open(&[self.path(name)], &TraceOptions::default()).unwrap();
        let (mut batch, mut requests) = (Vec::new(), Vec::new());
        while trace.read(&mut batch).unwrap() {
            requests.extend(batch.iter().map(|record| Request {
                device: trace.names().device(record.device).to_owned(),
                // Device numbers differ between a trace and a part of it.
                record: Record { device: trimtab_io::DeviceId(0), ..*record },
            }));
        }
        requests
    }
}

/// A record with its device's name.
#[derive(Clone, Debug, PartialEq)]
struct Request {
    device: String,
    record: Record,
}

impl Request {
    fn arrival(&self) -> u64 {
        self.record.arrival.0
    }
}

/// An MSR trace of three disks with uneven gaps, some of them zero, and a burst
/// in its middle.
fn msr(requests: u64) -> String {
    let mut tick = 128_166_372_003_061_629_u64;
    (0..requests)
        .map(|i| {
            let burst = (requests / 2..requests / 2 + requests / 10).contains(&i);
            tick += i * i % 7 * if burst { 11 } else { 4_001 };
            let kind = if i % 3 == 0 { "Write" } else { "Read" };
            let (disk, offset, response) = (i % 5 % 3, i * 7_919 % 100_000 * 512, 500 + i % 90_000);
            format!("{tick},usr,{disk},{kind},{offset},{},{response}\n", 512 << (i % 8))
        })
        .collect()
}

/// The requests that arrive in [`from`, `to`) after the trace's first.
fn within(all: &[Request], from: u64, to: u64) -> Vec<Request> {
    let first = all[0].arrival();
    all.iter().filter(|r| (from..to).contains(&(r.arrival() - first))).cloned().collect()
}

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name);
    fs::read_to_string(path).unwrap()
}

#[test]
fn cut_keeps_exactly_the_range() {
    let place = Place::new(&[("a.csv", &msr(20_000))]);
    let all = place.read("a.csv");
    // At an arrival that several requests share: all of them belong to the range that starts
    // there, none to the one that ends there.
    let first = all[0].arrival();
    let pair = all.windows(2).skip(5_000).find(|w| w[0].arrival() == w[1].arrival()).unwrap();
    let middle = pair[0].arrival() - first;
    let at = format!("{middle}ns");

    let head = place.written(&["cut", "a.csv", "--to", &at]);
    let tail = place.written(&["cut", "a.csv", "--from", &at]);
    assert_eq!(head, within(&all, 0, middle));
    assert_eq!(tail, within(&all, middle, u64::MAX));
    assert_eq!([head, tail].concat(), all);

    let range = ["cut", "a.csv", "--from", "1500us", "--to", "0.25s"];
    assert_eq!(place.written(&range), within(&all, 1_500_000, 250_000_000));
    assert_eq!(place.written(&["cut", "a.csv", "--to", "1h"]), all);
}

#[test]
fn cut_keeps_one_device() {
    let place = Place::new(&[("a.csv", &msr(5_000))]);
    let mut all = place.read("a.csv");
    let cut = place.written(&["cut", "a.csv", "--device", "usr.2", "--from", "1s"]);
    let kept = within(&all, 1_000_000_000, u64::MAX);
    let kept: Vec<_> = kept.into_iter().filter(|r| r.device == "usr.2").collect();
    assert!(!kept.is_empty());
    assert_eq!(cut, kept);
    all.retain(|r| r.device == "usr.1");
    assert_eq!(place.written(&["cut", "a.csv", "--device", "usr.1"]), all);
}

/// The earliest of the fullest windows that begin with one of `requests`.
fn busiest(requests: &[Request], length: u64) -> Vec<Request> {
    let window = |start: u64| {
        requests.iter().filter(move |r| (start..start + length).contains(&r.arrival()))
    };
    let mut best = 0..0;
    for start in requests.iter().map(Request::arrival) {
        let count = window(start).count() as u64;
        if count > best.end - best.start {
            best = start..start + count;
        }
    }
    window(best.start).cloned().collect()
}

#[test]
fn cut_finds_the_busiest_window() {
    let place = Place::new(&[("a.csv", &msr(2_000))]);
    let all = place.read("a.csv");
    for (length, ns) in [("300us", 300_000), ("20ms", 20_000_000), ("1s", 1_000_000_000)] {
        let found = place.written(&["cut", "a.csv", "--busiest", length]);
        assert_eq!(found, busiest(&all, ns), "{length}");
    }
    // Of one device, before the burst.
    let one: Vec<_> =
        within(&all, 0, 100_000_000).into_iter().filter(|r| r.device == "usr.1").collect();
    let args = ["cut", "a.csv", "--busiest", "5ms", "--to", "100ms", "--device", "usr.1"];
    assert_eq!(place.written(&args), busiest(&one, 5_000_000));
}

/// The latencies and the rest of each request, without its arrival time.
fn without_time(requests: &[Request]) -> Vec<(Option<Nanos>, Option<Nanos>, Request)> {
    requests
        .iter()
        .map(|r| {
            let Record { arrival, issue, complete, .. } = r.record;
            let took = |end: Option<Nanos>| end.map(|end| end.since(arrival));
            let record = Record { arrival: Nanos::ZERO, issue: None, complete: None, ..r.record };
            (took(issue), took(complete), Request { record, device: r.device.clone() })
        })
        .collect()
}

#[test]
fn rerate_by_a_factor_is_exact() {
    let place = Place::new(&[("a.csv", &msr(20_000))]);
    let all = place.read("a.csv");
    let first = all[0].arrival();
    for (factor, numerator, denominator) in [("2", 2, 1), ("0.3", 3, 10), ("1.7", 17, 10)] {
        let moved = place.written(&["rerate", "a.csv", "--factor", factor]);
        assert_eq!(without_time(&moved), without_time(&all), "{factor}");
        // Each relative to the first, so that rounding errors do not add up.
        for (was, is) in all.iter().zip(&moved) {
            let expected = first + (was.arrival() - first) * denominator / numerator;
            assert_eq!(is.arrival(), expected, "{factor}");
        }
    }
    assert_eq!(place.written(&["rerate", "a.csv", "--factor", "1"]), all);
}

#[test]
fn rerate_reaches_the_rate() {
    let place = Place::new(&[("a.csv", &msr(20_000))]);
    let all = place.read("a.csv");
    for rate in ["75", "12345.5", "1000000"] {
        let moved = place.written(&["rerate", "a.csv", "--iops", rate]);
        assert_eq!(without_time(&moved), without_time(&all), "{rate}");
        let span = moved.last().unwrap().arrival() - moved[0].arrival();
        let reached = moved.len() as f64 / (span as f64 / 1e9);
        let wanted: f64 = rate.parse().unwrap();
        assert!((reached / wanted - 1.0).abs() < 1e-6, "{reached}, not {wanted}");
    }
}

/// Mean gap, and standard deviation over the mean.
fn gaps(requests: &[Request]) -> (f64, f64) {
    let gaps: Vec<_> =
        requests.windows(2).map(|w| (w[1].arrival() - w[0].arrival()) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    (mean, variance.sqrt() / mean)
}

fn share(requests: &[Request], of: impl Fn(&Record) -> bool) -> f64 {
    requests.iter().filter(|r| of(&r.record)).count() as f64 / requests.len() as f64
}

#[track_caller]
fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value / expected - 1.0).abs() < tolerance, "{value}, not {expected}");
}

#[test]
fn synth_depends_on_the_seed_only() {
    for name in ["synth-poisson.toml", "synth-bursty.toml", "synth-closed.toml"] {
        let place = Place::new(&[(name, &example(name))]);
        let bytes = |args: &[&str]| {
            place.written(&[&["synth", name], args].concat());
            fs::read(place.path("out.parquet")).unwrap()
        };
        let once = bytes(&[]);
        assert!(once == bytes(&[]), "{name}");
        let other = bytes(&["--seed", "99"]);
        assert!(once != other, "{name}");
        assert!(other == bytes(&["--seed", "99"]), "{name}");
    }
}

#[test]
fn synth_poisson_is_as_described() {
    let place = Place::new(&[("a.toml", &example("synth-poisson.toml"))]);
    let made = place.written(&["synth", "a.toml"]);
    assert_eq!(made.len(), 100_000);
    assert!(made.iter().all(|r| r.device == "nvme0n1"));
    near(share(&made, |r| r.op == Op::Read), 0.7, 0.01);
    near(share(&made, |r| r.length == 4096), 0.75, 0.01);
    near(share(&made, |r| r.length == 65_536), 0.25, 0.02);
    let (mean, variation) = gaps(&made);
    near(mean, 1e9 / 5000.0, 0.02);
    near(variation, 1.0, 0.02);
    let within = |r: &Record| r.end() <= 100_000_000_000 && r.offset.is_multiple_of(4096);
    near(share(&made, within), 1.0, 1e-12);
    near(share(&made, |r| r.offset < 50_000_000_000), 0.5, 0.02);
}

#[test]
fn synth_bursty_is_as_described() {
    let place = Place::new(&[("a.toml", &example("synth-bursty.toml"))]);
    let made = place.written(&["synth", "a.toml"]);
    near(share(&made, |r| r.op == Op::Read), 0.9, 0.01);
    near(share(&made, |r| r.length == 8192), 1.0, 1e-12);
    assert!(made.last().unwrap().arrival() < 30_000_000_000);
    // 20,000 per second for 50 ms in 250, 500 for the rest; 120 cycles of
    // exponential lengths scatter by a good tenth.
    let (mean, variation) = gaps(&made);
    near(1e9 / mean, 4_400.0, 0.35);
    assert!(variation > 2.0, "{variation}");
    // The hottest of 122,070,312 blocks: 1 / Σ 1 / r^0.99.
    let mut offsets: Vec<_> = made.iter().map(|r| r.record.offset).collect();
    offsets.sort_unstable();
    let hottest = offsets.chunk_by(|a, b| a == b).map(<[u64]>::len).max().unwrap();
    near(hottest as f64 / made.len() as f64, 0.0475, 0.05);
}

#[test]
fn synth_closed_is_as_described() {
    let place = Place::new(&[("a.toml", &example("synth-closed.toml"))]);
    let made = place.written(&["synth", "a.toml"]);
    assert_eq!(made.len(), 50_000);
    near(share(&made, |r| r.op == Op::Read && r.length == 131_072), 1.0, 1e-12);
    // Four clients, 400 µs for the answer and 100 µs of thought each time.
    near(1e9 / gaps(&made).0, 4.0 / 500e-6, 0.02);
    // Each run of 256 starts at a new offset; all other requests continue one of four streams.
    let ends: std::collections::HashSet<_> = made.iter().map(|r| r.record.end()).collect();
    near(share(&made, |r| ends.contains(&r.offset)), 1.0 - 1.0 / 256.0, 0.001);
}

/// A fio log with one request of each kind, and no completions.
const FIO: &str = "\
fio version 3 iolog
1 sda add
1 sda open
2 sda read 0 4096
3 sda sync 0 0
4 sda trim 8192 4096
5 sda write 4096 4096
";

#[test]
fn records_that_the_format_cannot_hold_give_exit_code_3() {
    let biosnoop = "\
TIME(s)     COMM           PID     DISK    T    SECTOR     BYTES   QUE(ms) LAT(ms)
0.000000    fio            77      sda     R    8          4096      0.004   1.250
0.000310    fio            77      sda     FF   0          0         0.004   0.212
0.000500    fio            77      sda     D    8192       4096      0.010   0.100
0.001000    fio            77      sda     W    8192       4096      0.010   0.100
";
    let place = Place::new(&[("a.txt", biosnoop), ("a.log", FIO), ("a.toml", SMALL)]);
    for args in [&["cut", "a.txt", "--to", "1h"][..], &["rerate", "a.txt", "--factor", "2"]] {
        let output = place.trace(&[args, &["-o", "out.csv", "--json"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("left out 2 records that the format has no place for"), "{said}");
        assert!(said.contains("1 flush") && said.contains("1 discard"), "{said}");
        let done: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(done["requests"], 2);
        let kept: Vec<_> = place.read("out.csv").iter().map(|r| r.record.op).collect();
        assert_eq!(kept, [Op::Read, Op::Write]);
        fs::remove_file(place.path("out.csv")).unwrap();
    }
    // No record can be written: no file, rather than an empty one.
    for args in [&["cut", "a.log", "--to", "1h"][..], &["synth", "a.toml"]] {
        let output = place.trace(&[args, &["-o", "out.csv"]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(!place.path("out.csv").exists());
    }
}

const SMALL: &str = "\
seed = 1
requests = 10
capacity_gb = 1
read_share = 1.0
arrivals = { kind = \"poisson\", iops = 5000 }
offsets = { kind = \"uniform\" }
sizes = [{ bytes = 4096, weight = 1 }]
";

/// Runs in a directory with `a.csv` and `bad.toml`. Returns the single line that it prints
/// before it exits with 2, without output.
fn refusal(args: &[&str]) -> String {
    let place = Place::new(&[("a.csv", TRACE), ("bad.toml", "seed = 1\nsead = 2\n")]);
    let output = place.trace(&[args, &["-o", "out.parquet"]].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(!place.path("out.parquet").exists());
    said
}

#[test]
fn invalid_requests_are_refused() {
    for (args, expected) in [
        (&["cut", "a.csv"][..], "no selection: give"),
        (&["cut", "a.csv", "--from", "2s", "--to", "1s"], "--from must be earlier than --to"),
        (&["cut", "a.csv", "--from", "1h"], "a.csv: no request arrives in that range"),
        (&["cut", "a.csv", "--device", "sda"], "no device is called `sda`; seen were usr.0, usr.1"),
        (&["cut", "a.csv", "--device", "sda", "--busiest", "1s"], "no device is called `sda`"),
        (&["cut", "a.csv", "--busiest", "0s"], "above zero, found `0s`"),
        (&["cut", "-", "--busiest", "1s"], "--busiest reads the trace twice"),
        (&["cut", "/dev/null", "--busiest", "1s"], "--busiest reads the trace twice"),
        (&["rerate", "-", "--iops", "5"], "--iops reads the trace twice"),
        (&["rerate", "/dev/null", "--iops", "5"], "--iops reads the trace twice"),
        (&["rerate", "a.csv", "--factor", "0"], "the factor must be from"),
        (&["rerate", "a.csv", "--iops", "0"], "the rate must be more than 0"),
        (&["rerate", "a.csv", "--factor", "1e30"], "number"),
        (&["rerate", "a.csv", "--fctor", "2"], "unexpected argument '--fctor' found; tip: "),
        (&["convrt", "a.csv"], "unrecognized subcommand 'convrt'; tip: "),
        (&["rerate", "a.csv", "b.csv"], "unexpected argument 'b.csv' found; Usage: trimtab"),
        (&["convert", "a.csv", "-o", "-"], "cannot be used multiple times"),
        (&["synth", "none.toml"], "none.toml"),
        (&["synth", "bad.toml"], "bad.toml: line 2: unknown field `sead`"),
    ] {
        let said = refusal(args);
        assert!(said.contains(expected), "{args:?} said {said:?}, not {expected:?}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn output_needs_a_file() {
    let place = Place::new(&[("a.csv", TRACE)]);
    for args in [["convert", "a.csv", "-o", "-"], ["report", "a.csv", "-o", "-"]] {
        let output = place.trace(&args);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("so it needs a file's name"), "{said}");
        assert!(!place.path("-").exists());
    }
}

#[test]
fn lengths_of_time_need_their_unit() {
    assert!(refusal(&["cut", "a.csv", "--from", "10"]).contains("such as 500us, 10ms"));
}
