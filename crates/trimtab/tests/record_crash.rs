//! Interrupted recordings, and recordings with losses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk::{self as testdisk, Feature, LoopDisk};

const TRIMTAB: &str = env!("CARGO_BIN_EXE_trimtab");

fn trimtab(args: &[&str]) -> Output {
    Command::new(TRIMTAB).args(args).output().expect("trimtab runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A process that is killed when dropped.
struct Running(Child);

impl Running {
    fn begin(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().unwrap_or_else(|e| panic!("{program}: {e}")))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Waits for its end. Returns its exit code and its messages.
    fn end(mut self) -> (Option<i32>, String) {
        let status = self.0.wait().expect("it can be waited for");
        let mut said = String::new();
        let mut stderr = self.0.stderr.take().expect("it is piped");
        std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
        (status.code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A disk to record, or a note on why there is none.
fn disk() -> Option<LoopDisk> {
    if !testdisk::requires(testdisk::REAL_DISKS) {
        return None;
    }
    Some(LoopDisk::new(64))
}

/// Waits for a condition; a timeout fails.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The kernel's count of a disk's requests since it was attached.
fn counted(disk: &LoopDisk) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{}/stat", disk.name())).expect("statistics");
    let fields: Vec<u64> = stat.split_whitespace().map(|f| f.parse().expect("a number")).collect();
    fields[0] + fields[4]
}

fn read_some(disk: &LoopDisk, count: u32) {
    let (from, count) = (format!("if={}", disk.path), format!("count={count}"));
    testdisk::run("dd", &[&from, "of=/dev/null", "bs=4k", &count, "iflag=direct", "status=none"]);
}

fn spools(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory is there").flatten();
    entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "spool")).collect()
}

/// A recorder that has started: its spool exists, and the programs are attached once a request
/// is in the spool.
fn recorder(disk: &LoopDisk, trace: &str, more: &[&str]) -> Running {
    let args = [&["record", &disk.path, "--out", trace][..], more].concat();
    let recorder = Running::begin(TRIMTAB, &args);
    let directory = Path::new(trace).parent().expect("a directory").to_owned();
    let before = spools(&directory).len();
    until("a recorder that records", || {
        read_some(disk, 1);
        spools(&directory).len() > before.saturating_sub(1)
            && spools(&directory).iter().any(|s| fs::metadata(s).is_ok_and(|m| m.len() > 1000))
    });
    recorder
}

fn info(trace: &str) -> Value {
    let info = trimtab(&["trace", "info", "--json", trace]);
    assert!(info.status.success(), "{}", stderr(&info));
    serde_json::from_slice(&info.stdout).expect("JSON")
}

#[test]
fn hang_up_ends_a_recording_like_ctrl_c() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("hup.parquet");
    let recorder = recorder(&disk, &trace, &["--duration", "8h", "--tolerate-lost", "100%"]);
    read_some(&disk, 200);
    recorder.signal(Signal::HUP);
    let (code, said) = recorder.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(info(&trace)[0]["requests"].as_u64() >= Some(200));
    assert!(spools(Path::new(&trace).parent().unwrap()).is_empty());
}

#[test]
fn ignored_hang_up_stays_ignored() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("nohup.parquet");
    let script = format!(
        "trap '' HUP; exec {TRIMTAB} record {} --out {trace} --tolerate-lost 100%",
        disk.path
    );
    let recorder = Running::begin("sh", &["-c", &script]);
    let directory = Path::new(&trace).parent().unwrap();
    until("a recorder that records", || {
        read_some(&disk, 1);
        spools(directory).iter().any(|s| fs::metadata(s).is_ok_and(|m| m.len() > 1000))
    });
    recorder.signal(Signal::HUP);
    read_some(&disk, 300);
    recorder.signal(Signal::INT);
    let (code, said) = recorder.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(info(&trace)[0]["requests"].as_u64() >= Some(300));
}

/// The main property: after a kill under load at any moment, everything but the last seconds
/// is recovered.
#[test]
fn recording_is_recovered_after_a_kill() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("killed.parquet");
    let directory = Path::new(&trace).parent().unwrap();
    let base = counted(&disk);
    let recorder = recorder(&disk, &trace, &[]);
    let until_recorded = counted(&disk);
    let name = format!("--filename={}", disk.path);
    let load = ["--name=load", &name, "--rw=randrw", "--bs=4k", "--direct=1", "--iodepth=16"];
    let rate = ["--ioengine=libaio", "--rate_iops=8000,4000", "--time_based", "--runtime=60"];
    let _fio = Running::begin("fio", &[&load[..], &rate, &["--output=/dev/null"]].concat());
    // At a random moment.
    let random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_micros() % 2000;
    let moment = Duration::from_millis(4500 + u64::from(random));
    let begun = Instant::now();
    let mut counts = vec![(Duration::ZERO, until_recorded)];
    while begun.elapsed() < moment {
        counts.push((begun.elapsed(), counted(&disk)));
        std::thread::sleep(Duration::from_millis(10));
    }
    recorder.signal(Signal::KILL);
    let killed = begun.elapsed();
    let at_the_end = counted(&disk);
    drop(recorder);
    assert!(!fs::exists(&trace).unwrap(), "only a complete trace has its name");
    let spools = spools(directory);
    let [spool] = &spools[..] else { panic!("one spool: {spools:?}") };
    let spool = spool.to_str().unwrap();

    // The next recording beside it reports the spool, and does not change it.
    let next = trimtab(&["record", &disk.path, "-o", &disk.beside("b.parquet"), "-d", "10ms"]);
    let announced = stderr(&next).lines().next().unwrap_or_default().to_owned();
    assert!(announced.contains(&format!("trimtab trace recover {spool}")), "{announced}");

    let recovered = trimtab(&["trace", "recover", spool]);
    assert!(recovered.status.success(), "{}", stderr(&recovered));
    assert!(!fs::exists(spool).unwrap());
    let requests = info(&trace)[0]["requests"].as_u64().unwrap();
    let (_, long_before) =
        counts.iter().rfind(|(at, _)| killed - *at >= Duration::from_secs(3)).unwrap();
    assert!(counts.last().unwrap().1 > until_recorded + 1000, "no load: {counts:?}");
    // Without requests that the recorder had not yet seen, and those in flight.
    let expected = long_before - until_recorded - 32;
    assert!(
        requests >= expected && requests <= at_the_end - base,
        "killed after {killed:?}: {requests} recovered, expected {expected} to {}",
        at_the_end - base
    );
    let notes = info(&trace)[0]["notes"].clone();
    for key in ["recovered", "devices", "started", "machine"] {
        assert!(notes.as_array().unwrap().iter().any(|n| n["key"] == key), "{key}: {notes}");
    }
    testdisk::note(&format!(
        "killed after {killed:?}: {requests} requests recovered, the kernel counted {} in all \
         and {expected} until three seconds before",
        at_the_end - base
    ));
}

#[test]
fn active_spool_is_refused_and_abandoned_spool_can_be_removed() {
    let Some(disk) = disk() else { return };
    let trace = disk.beside("a.parquet");
    let recorder = recorder(&disk, &trace, &[]);
    let spool = format!("{trace}.spool");
    for args in [&["trace", "recover", &spool][..], &["trace", "recover", "--remove", &spool]] {
        let refused = trimtab(args);
        assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
        assert!(stderr(&refused).contains("still being recorded"), "{}", stderr(&refused));
    }
    recorder.signal(Signal::KILL);
    drop(recorder);
    let read = trimtab(&["trace", "info", &spool]);
    assert_eq!(read.status.code(), Some(2));
    assert!(stderr(&read).contains("trimtab trace recover"), "{}", stderr(&read));
    let removed = trimtab(&["trace", "recover", "--remove", &spool]);
    assert!(removed.status.success(), "{}", stderr(&removed));
    assert!(!fs::exists(&spool).unwrap() && !fs::exists(&trace).unwrap());
    let missing = trimtab(&["trace", "recover", &spool]);
    assert_eq!(missing.status.code(), Some(2), "{}", stderr(&missing));
}

#[test]
fn replaced_device_is_reported_and_not_recorded() {
    let Some(mut disk) = disk() else { return };
    let trace = disk.beside("anew.parquet");
    let recorder = recorder(&disk, &trace, &["--tolerate-lost", "100%"]);
    let (before, name) = (counted(&disk), disk.name().to_owned());
    if !disk.attach_anew() {
        return testdisk::skip(Feature::Quiet, "another process has taken the loop device");
    }
    read_some(&disk, 400);
    // The recorder checks twice a second.
    std::thread::sleep(Duration::from_secs(3));
    recorder.signal(Signal::INT);
    let (code, said) = recorder.end();
    assert_eq!(code, Some(0), "{said}");
    let told = said.lines().filter(|line| line.contains("a new device of this name")).count();
    assert!(told == 1 && said.contains(&name), "{said}");
    let info = info(&trace);
    assert!(info[0]["requests"].as_u64() <= Some(before), "{info}");
    let notes = info[0]["notes"].as_array().unwrap();
    assert!(notes.iter().any(|n| n["key"] == "replaced" && n["value"] == name.as_str()), "{info}");
}

/// While stopped, the recorder does not empty its ring of 16,384 events.
#[test]
fn losses_are_reported_and_fail_beyond_the_tolerance() {
    let Some(disk) = disk() else { return };
    for (tolerated, expected) in [("0.1%", 3), ("100%", 0)] {
        let trace = disk.beside(&format!("lost-{expected}.parquet"));
        let recorder = recorder(&disk, &trace, &["--buffer", "1", "--tolerate-lost", tolerated]);
        recorder.signal(Signal::STOP);
        for _ in 0..3 {
            read_some(&disk, 12_000);
        }
        recorder.signal(Signal::CONT);
        recorder.signal(Signal::INT);
        let (code, said) = recorder.end();
        assert_eq!(code, Some(expected), "{said}");
        assert_eq!(said.contains("tolerated: lost"), expected == 0, "{said}");
        assert!(said.contains("%)") && said.contains("docs/recording.md"), "{said}");
        let text = String::from_utf8(trimtab(&["trace", "info", &trace]).stdout).unwrap();
        let second = text.lines().nth(1).unwrap_or_default();
        assert!(second.starts_with("lost ") && second.contains("requests (buffer full)"), "{text}");
        let notes = info(&trace)[0]["notes"].clone();
        assert!(notes.as_array().unwrap().iter().any(|n| n["key"] == "lost_ring_full"), "{notes}");
    }
    let wrong = trimtab(&["record", &disk.path, "--tolerate-lost", "2"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("such as 0.1%"), "{}", stderr(&wrong));
}
