//! `trimtab compare --live`, as a user runs it: on real block devices.

use std::fs;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use trimtab_testdisk as testdisk;

mod emulated;
use emulated::{Bench, stderr};

const SCENARIO: &str = "seeds = [7]
strategies = ['base', 'clone', 'linnos', 'trimtab', 'ideal']
phase_one = { duration_s = 4 }
phase_two = { duration_s = 2 }
gap_s = 0.1
costs = { failover_us = 0 }

[workload]
read_share = 0.6
offsets = { kind = 'uniform' }
sizes = [{ bytes = 4096, weight = 1 }]
write_sizes = [{ bytes = 16384, weight = 1 }]
arrivals = { kind = 'bursty', on_iops = 1500, off_iops = 200, on_ms = 100, off_ms = 100 }
";
const DEVICE: &str = "
[[device]]
profile = 'small.toml'
capacity = '128M'
fill = { share = 1.0, kind = 'aged' }
";

fn compare(bench: &Bench, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.env("TRIMTAB_RUN", bench.path("")).current_dir(bench.path(""));
    command.args(["compare", "s.toml", "--live"]).args(args).output().unwrap()
}

/// One at a time: each needs the processors alone.
static ALONE: Mutex<()> = Mutex::new(());

fn bench() -> Option<(MutexGuard<'static, ()>, Bench)> {
    if !testdisk::requires(&[testdisk::Feature::Bpf]) {
        return None;
    }
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let bench = Bench::new(&[])?;
    fs::write(bench.path("s.toml"), [SCENARIO, &DEVICE.repeat(3)].concat()).unwrap();
    Some((alone, bench))
}

fn told(bench: &Bench) -> Value {
    serde_json::from_slice(&fs::read(bench.path("out.json")).unwrap()).unwrap()
}

/// Complete, or incomplete because the machine was busy: then one line gives the reason.
fn assert_done(output: &Output) {
    match output.status.code() {
        Some(0) => {}
        Some(3) => {
            let said = stderr(output);
            let expected = ["fell behind", "not seen to end", "the path to the drives is"];
            assert!(expected.iter().any(|word| said.contains(word)), "{said}");
        }
        code => panic!("{code:?}: {}", stderr(output)),
    }
}

#[test]
fn strategies_run_on_emulated_drives_and_in_simulation() {
    let Some((_alone, bench)) = bench() else { return };
    let output = compare(&bench, &["--json", "out.json", "--report", "out.html"]);
    assert_done(&output);
    let told = told(&bench);
    let simulated = told["simulated"]["strategies"].as_array().unwrap();
    let live = told["live"]["strategies"].as_array().unwrap();
    assert_eq!((live.len(), simulated.len()), (5, 5));
    for (live, simulated) in live.iter().zip(simulated) {
        let name = live["name"].as_str().unwrap();
        assert_eq!(live["name"], simulated["name"]);
        // No read is lost, and the requests are the same.
        assert_eq!(live["seeds"][0]["reads"], simulated["seeds"][0]["reads"], "{name}");
        assert_eq!(live["seeds"][0]["errors"].as_u64().unwrap_or(0), 0, "{name}");
        // A drive that reads in 20 µs cannot be faster than half of that.
        assert!(live["median"]["p50_ns"].as_f64() > Some(10e3), "{live}");
    }
    // The latency that the path added is known for each read of phase one.
    let drives = told["live"]["drives"][0].as_array().unwrap();
    let recorded: u64 = drives.iter().map(|drive| drive["reads"].as_u64().unwrap()).sum();
    let added = &told["notes"]["added"];
    assert!(recorded > 1_000 && added["count"].as_u64() >= Some(recorded), "{recorded}: {added}");
    let runs = told["notes"]["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["strategy"]), (6, &Value::from("phase one")));
    for run in &runs[1..] {
        assert!(run["took_ns"].as_u64() > Some(1_000_000_000), "{run}");
        assert_eq!(run["drive_cpu_percent"].as_array().unwrap().len(), 3, "{run}");
        // End-to-end figures of the drives.
        for share in ["early_percent", "saturated_percent"].map(|share| run[share].as_f64()) {
            assert!(share.is_some_and(|share| (0.0..=100.0).contains(&share)), "{run}");
        }
    }
    let extra = |row: usize| live[row]["median"]["extra_io_percent"].as_f64().unwrap();
    assert!(extra(0) == 0.0 && extra(1) == 100.0, "{live:?}");
    let agreement = &told["agreement"];
    assert!(agreement["rows"].as_array().unwrap().len() == 5);
    // Reads of 20 µs are usually too short compared with the path: then that is reported.
    let (share, too_long) = (agreement["path"]["share"].as_f64(), &agreement["path"]["too_long"]);
    assert_eq!((*too_long == true), share > Some(0.1), "{agreement}");
    assert_eq!(*too_long == true, stderr(&output).contains("the path to the drives is"));
    let pairs = ["pairs", "predicted", "in_order"].map(|key| agreement[key].as_u64().unwrap());
    assert!(pairs[0] == 10 && pairs[1] <= 10 && pairs[2] <= pairs[1], "{pairs:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("the same in simulation"), "{table}");
    let page = fs::read_to_string(bench.path("out.html")).unwrap();
    assert!(page.contains("How it was measured"));
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
}

#[test]
fn strategies_run_on_existing_devices_and_write_only_if_permitted() {
    let Some((_alone, bench)) = bench() else { return };
    let disks: Vec<_> = (0..3).map(|_| testdisk::LoopDisk::new(128)).collect();
    let files = disks.iter().map(|disk| disk.path.as_str()).collect::<Vec<_>>().join(",");
    let writes = || -> u64 {
        let stat = |disk: &testdisk::LoopDisk| {
            fs::read_to_string(format!("/sys/block/{}/stat", disk.name())).unwrap()
        };
        let of = |disk| stat(disk).split_whitespace().nth(4).unwrap().parse::<u64>().unwrap();
        disks.iter().map(of).sum()
    };
    // The kernel's counters continue those of an earlier disk of that name.
    let before = writes();
    assert_done(&compare(&bench, &["--files", &files, "--json", "out.json"]));
    assert_eq!(writes(), before);
    let first = told(&bench);
    let rows = first["live"]["strategies"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    // Real drives have no ideal form.
    assert_eq!(names, ["base", "clone", "linnos", "trimtab"]);
    assert!(first["simulated"].is_null());
    let destroys = ["--files", &files, "--i-know-this-destroys-data", "--json", "out.json"];
    assert_done(&compare(&bench, &destroys));
    assert!(writes() > before + 1_000);
}
