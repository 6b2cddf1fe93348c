//! A drive's figures of its end-to-end latency: early answers, saturation, and correction.

mod emulated;

use std::process::Command;
use std::time::{Duration, Instant};

use emulated::{Bench, wait_until};
use serde_json::Value;
use trimtab_testdisk as testdisk;

/// Reads from a device with fio for some seconds.
fn read(device: &str, depth: u32, seconds: u32) {
    let options = [
        "--name=read".to_owned(),
        format!("--filename={device}"),
        format!("--iodepth={depth}"),
        format!("--runtime={seconds}"),
    ];
    let mut fio = Command::new("fio");
    fio.args(options).args(["--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring"]);
    let output = fio.args(["--time_based", "--output-format=terse"]).output().expect("fio runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The drive's path figures, once it has seen reads; `None` if it cannot observe them.
fn path(bench: &Bench) -> Option<Value> {
    let begun = Instant::now();
    loop {
        let stat = bench.stat("drive");
        if !stat["path"].is_null() {
            return Some(stat["path"].clone());
        }
        let lacking = stat["lacking"].as_array().unwrap();
        if let Some(why) = lacking.iter().find(|why| why.to_string().contains("at the block layer"))
        {
            testdisk::skip(testdisk::Feature::Bpf, &why.to_string());
            return None;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was seen: {stat}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn count(path: &Value, what: &str) -> f64 {
    path[what].as_f64().unwrap()
}

#[test]
fn early_answers_are_reported_and_corrected_in_use() {
    let Some(bench) = Bench::new(&["fio"]) else { return };
    let whole = ["--profile", "consumer-a", "--size", "3G", "--fill", "1", "--overwrites", "0"];
    // As if it had been made while the machine was very busy.
    let made = bench.done(&[&["create", "drive", "--lead", "200us"], &whole[..]].concat());
    read(&made, 1, 1);
    let Some(_) = path(&bench) else { return };
    read(&made, 1, 1);
    wait_until("the reads are seen", || {
        let reads = bench.stat("drive")["reads"]["requests"].as_f64().unwrap();
        count(&path(&bench).unwrap(), "reads") > 0.3 * reads
    });
    let before = path(&bench).unwrap();
    let early = count(&before, "early") / count(&before, "reads");
    assert!(early > 0.5, "{before}");
    assert_eq!(bench.stat("drive")["lead_us"], 200.0);

    bench.done(&["set", "drive", "lead_us=auto"]);
    read(&made, 1, 2);
    wait_until("it is corrected", || bench.stat("drive")["lead_us"].as_f64().unwrap() < 150.0);
    let before = path(&bench).unwrap();
    read(&made, 1, 2);
    wait_until("the reads are seen", || {
        count(&path(&bench).unwrap(), "reads") > count(&before, "reads") + 1_000.0
    });
    let now = path(&bench).unwrap();
    let of = |what: &str| count(&now, what) - count(&before, what);
    assert!(of("early") / of("reads") < 0.4, "{before} {now}");
    bench.remove_all();
}

#[test]
fn saturated_machine_is_reported() {
    let Some(bench) = Bench::new(&["fio"]) else { return };
    let whole = ["--profile", "consumer-a", "--size", "3G", "--fill", "1", "--overwrites", "0"];
    let made = bench.done(&[&["create", "drive"], &whole[..]].concat());
    // The model could complete millions of reads a second.
    read(&made, 128, 1);
    let Some(_) = path(&bench) else { return };
    read(&made, 128, 2);
    wait_until("it is told", || {
        let path = path(&bench).unwrap();
        count(&path, "saturated") > 0.2 * count(&path, "reads")
    });
    let told = bench.done(&["stat", "drive"]);
    assert!(told.contains("machine saturated") && told.contains("seen by programs"), "{told}");
    bench.remove_all();
}
