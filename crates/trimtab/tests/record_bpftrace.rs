//! The recorder's counts compared with those of bpftrace, if it is installed and works.

use std::fs;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk::{self as testdisk, Feature, LoopDisk};

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// bpftrace, counting the requests of a device.
struct Counting {
    process: Running,
    out: String,
}

impl Counting {
    /// Starts it; an error, with a note, if bpftrace does not work.
    fn begin(disk: &LoopDisk) -> Result<Self, String> {
        let dev = fs::read_to_string(format!("/sys/block/{}/dev", disk.name())).unwrap();
        let (major, minor) = dev.trim().split_once(':').unwrap();
        let number = major.parse::<u32>().unwrap() << 20 | minor.parse::<u32>().unwrap();
        let script = format!(
            "tracepoint:block:block_rq_issue /args->dev == {number}/ {{ @issued = count(); }}\n\
             tracepoint:block:block_rq_complete /args->dev == {number}/ {{ @completed = count(); }}\n\
             interval:ms:100 {{ printf(\"ready\\n\"); }}\n"
        );
        let (out, errors) = (disk.beside("bpftrace.out"), disk.beside("bpftrace.err"));
        // bpftrace finds the tracepoints in tracefs, which is not always mounted: it is
        // mounted privately here.
        let command = "mountpoint -q /sys/kernel/tracing || \
                       mount -t tracefs none /sys/kernel/tracing; \
                       exec bpftrace -B line -e \"$1\"";
        let process = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", command, "sh", &script])
            .stderr(fs::File::create(&errors).unwrap())
            .stdout(fs::File::create(&out).unwrap())
            .spawn();
        let mut process = Running(process.map_err(|e| format!("unshare: {e}"))?);
        let begun = Instant::now();
        while !fs::read_to_string(&out).is_ok_and(|text| text.contains("ready")) {
            let ended = process.0.try_wait().unwrap().is_some();
            if ended || begun.elapsed() > Duration::from_secs(60) {
                let said = fs::read_to_string(&errors).unwrap_or_default();
                return Err(format!("bpftrace does not work here: {}", said.trim()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Self { process, out })
    }

    /// Ends it. Returns the numbers of issued and completed requests.
    fn end(mut self) -> (u64, u64) {
        kill_process(Pid::from_child(&self.process.0), Signal::INT).unwrap();
        self.process.0.wait().unwrap();
        let text = fs::read_to_string(&self.out).unwrap();
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.map_or(0, |number| number.trim().parse().expect("a number"))
        };
        (count("@issued"), count("@completed"))
    }
}

#[test]
fn counts_agree_with_those_of_bpftrace() {
    let bpftrace = Feature::Program("bpftrace");
    if !testdisk::requires(&[testdisk::REAL_DISKS, &[bpftrace]].concat()) {
        return;
    }
    let disk = LoopDisk::new(64);
    let counting = match Counting::begin(&disk) {
        Ok(counting) => counting,
        Err(why) => return testdisk::skip(bpftrace, &why),
    };
    let trace = disk.beside("trace.parquet");
    let fio = format!(
        "fio --name=load --filename={} --rw=randrw --bs=4k --direct=1 --ioengine=libaio \
         --iodepth=16 --number_ios=20000 --size=64m --io_size=80m --output=/dev/null",
        disk.path
    );
    let args = ["record", &disk.path, "-o", &trace, "--tolerate-lost", "100%", "--json"];
    let recorded = Command::new(env!("CARGO_BIN_EXE_trimtab"))
        .args(args)
        .args(["--", "sh", "-c", &fio])
        .output()
        .expect("trimtab runs");
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let recorded: Value = serde_json::from_slice(&recorded.stdout).expect("JSON");
    let (issued, completed) = counting.end();

    let info = Command::new(env!("CARGO_BIN_EXE_trimtab"))
        .args(["trace", "info", "--json", &trace])
        .output()
        .expect("trimtab runs");
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    let number = |value: &Value| value.as_u64().expect("a number");
    let (requests, measured) =
        (number(&info[0]["requests"]), number(&info[0]["completions"]["measured"]));
    assert_eq!(requests, number(&recorded["records"]), "the file has what was recorded");
    assert!(requests >= 10_000, "no load: {requests}");
    assert_eq!(requests, issued);
    // If the kernel runs no program at a completion, neither sees it; but each may also miss
    // some independently.
    let lost = number(&recorded["lost"]);
    assert!(measured.abs_diff(completed) <= lost, "{measured}, bpftrace {completed}, lost {lost}");
    testdisk::note(&format!(
        "issued {requests}, bpftrace {issued}; completed {measured}, bpftrace {completed}; \
         lost {lost}"
    ));
}
