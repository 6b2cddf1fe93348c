//! `trimtab run`, as a user runs it: reads of unchanged programs, refused by the kernel.
//!
//! On a kernel without BPF LSM only what comes before it is tested; scripts/guest runs all of
//! it on Debian's. Times of a guest are those of an emulated processor: nothing here measures
//! them.

mod bench;
#[path = "../emulated/mod.rs"]
mod emulated;
#[path = "../privileges/mod.rs"]
mod privileges;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bench::{Bench, Ended, trimtab};
use trimtab_testdisk::{self as disk, Feature};

/// A drive that is late for every read. On a crowded machine the publisher may not run for a
/// while; that has a test of its own.
const LATE: &[&str] = &["--deadline", "2ms", "--assume-wait", "10ms", "--stale", "1m"];

#[test]
fn bad_input_is_told_in_one_line() {
    let bad: &[(&[&str], &str)] = &[
        (&["--deadline", "0ms"], "above zero"),
        (&["--deadline", "-2ms"], "such as 500us"),
        (&["--deadline", "584y"], "such as 500us"),
        (&["--deadline", "2h"], "at most 1m"),
        (&["--deadline", "2ms", "--hop", "3ms"], "less than the deadline"),
        (&["--deadline", "2ms", "--admit-share", "0%"], "some reads must be admitted"),
        (&["--deadline", "2ms", "--files", "/a/[b"], "not closed"),
        (&["--deadline", "2ms", "--model", "/nowhere/model"], "/nowhere/model"),
    ];
    for (args, said) in bad {
        let ended = trimtab(args, "/nowhere/*", &["true"]);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.errors);
        assert!(
            ended.errors.contains(said) && ended.errors.lines().count() == 1,
            "{}",
            ended.errors
        );
    }
    let help =
        Command::new(env!("CARGO_BIN_EXE_trimtab")).args(["run", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("already read another replica") && help.contains("EBUSY"), "{help}");
}

#[test]
fn kernel_without_bpf_lsm_is_told_in_one_line() {
    if !disk::requires(&[Feature::Root, Feature::Bpf]) {
        return;
    }
    let ended = trimtab(LATE, "/nowhere/*", &["true"]);
    if ended.code == Some(0) {
        return;
    }
    assert_eq!(ended.code, Some(1));
    let cannot = ended.errors.contains("cannot refuse reads") && ended.errors.contains("BPF_LSM");
    let no_group = ended.errors.contains("cgroup");
    assert!(cannot || no_group, "{}", ended.errors);
    assert_eq!(ended.errors.lines().count(), 1, "{}", ended.errors);
    disk::skip(Feature::BpfLsm, ended.errors.trim());
}

#[test]
fn late_reads_are_refused_but_for_the_share() {
    let Some(bench) = Bench::make() else { return };
    for method in ["pread", "preadv2", "io_uring", "reopen", "dup", "fork", "set"] {
        let ended = bench.run(LATE, &bench.glob(), &bench.reader(method, "data", 2000));
        assert_eq!(ended.code, Some(0), "{method}: {}", ended.errors);
        assert_eq!(ended.count("files"), 1, "{method}");
        // One in twenty is admitted. A read that io_uring repeats in another thread is decided
        // twice; it still ends once.
        assert_eq!(ended.reader(), [100, 1900, 0, 0], "{method}: {}", ended.errors);
        assert_eq!([ended.count("share"), ended.count("refused")], [100, 1900], "{method}");
        assert_eq!(ended.count("reads"), 2000, "{method}");
    }
    let all = [LATE, &["--admit-share", "100%"]].concat();
    let ended = bench.run(&all, &bench.glob(), &bench.reader("pread", "data", 100));
    assert_eq!((ended.reader(), ended.count("share")), ([100, 0, 0, 0], 100));
}

#[test]
fn what_was_not_asked_for_is_never_refused() {
    let Some(bench) = Bench::make() else { return };
    // Buffered, mapped, written.
    for method in ["buffered", "map", "write"] {
        let ended = bench.run(LATE, &bench.glob(), &bench.reader(method, "data", 300));
        assert_eq!((ended.reader(), ended.count("reads")), ([300, 0, 0, 0], 0), "{method}");
    }
    // Another file.
    let ended = bench.run(LATE, &bench.path("other*"), &bench.reader("pread", "data", 300));
    assert_eq!((ended.reader(), ended.count("reads")), ([300, 0, 0, 0], 0));
    assert!(ended.errors.contains("no file matches"), "{}", ended.errors);
    // A drive that is in time.
    let in_time = ["--deadline", "2ms", "--assume-wait", "1ms", "--stale", "1m"];
    let ended = bench.run(&in_time, &bench.glob(), &bench.reader("pread", "data", 300));
    assert_eq!((ended.reader(), ended.count("in_time")), ([300, 0, 0, 0], 300));
    // The hop counts: 1 ms is too late for 1.9 ms less 1 ms.
    let wait = ["--deadline", "1900us", "--assume-wait", "1ms", "--hop", "1ms"];
    let with_hop = [&wait[..], &["--stale", "1m"]].concat();
    let ended = bench.run(&with_hop, &bench.glob(), &bench.reader("pread", "data", 300));
    assert_eq!(ended.count("refused"), 285);
}

#[test]
fn programs_outside_are_never_refused() {
    let Some(bench) = Bench::make() else { return };
    let inside = bench.start(LATE, &bench.glob(), &bench.reader("pread", "data", 0));
    bench.wait_for_group(&inside);
    let outside =
        Command::new(bench.program()).args(["pread", &bench.path("data"), "500"]).output();
    assert_eq!(bench::counts(&outside.unwrap().stdout), [500, 0, 0, 0]);
    bench::terminate(&inside);
    let ended = Ended::of(inside);
    let [good, refused, wrong, failed] = ended.reader();
    assert!(refused > 0 && (wrong, failed) == (0, 0), "{good} good: {}", ended.errors);
    assert!(good.abs_diff((good + refused) / 20) <= 1, "{good} good, {refused} refused");
}

#[test]
fn fio_sees_refused_reads_as_errors_and_right_data_otherwise() {
    let Some(bench) = Bench::make() else { return };
    // The content that fio verifies is its own.
    let fio = |engine: &str, rest: &[&str]| -> Vec<String> {
        let fixed = ["fio", "--name=job", "--direct=1", "--bs=4k", "--size=1M", "--verify=crc32c"];
        let more = ["--output-format=json", "--continue_on_error=read", "--ignore_error=EBUSY"];
        let named = [format!("--filename={}", bench.path("fio")), format!("--ioengine={engine}")];
        let fixed = fixed.iter().chain(&more).chain(rest).map(|&arg| arg.to_owned());
        fixed.chain(named).collect()
    };
    let written = fio("psync", &["--rw=write", "--do_verify=0"]);
    disk::run(&written[0], &written[1..].iter().map(String::as_str).collect::<Vec<_>>());
    for engine in ["psync", "pvsync2", "io_uring"] {
        let reads = fio(engine, &["--rw=read", "--verify_only=0", "--iodepth=4"]);
        let ended = bench.run(LATE, &bench.path("fio"), &reads);
        let json: serde_json::Value =
            serde_json::from_str(&ended.output[ended.output.find('{').unwrap_or(0)..])
                .unwrap_or_else(|e| panic!("{engine}: {e}: {} {}", ended.output, ended.errors));
        let errors = json["jobs"][0]["total_err"].as_u64().unwrap();
        let refused = ended.count("refused");
        assert!(refused > 0 && errors == refused, "{engine}: {errors} errors, {refused} refused");
        assert_eq!(json["jobs"][0]["first_error"], 16, "{engine}: EBUSY");
        assert_eq!(ended.count("share"), (refused + ended.count("share")) / 20, "{engine}");
    }
}

#[test]
fn file_that_comes_later_is_refused_too() {
    let Some(bench) = Bench::make() else { return };
    let ended = bench.run(LATE, &bench.path("made-*"), &bench.reader("later", "made-now", 1000));
    assert!(ended.errors.contains("no file matches"), "{}", ended.errors);
    assert_eq!(ended.count("files"), 1);
    // Until it is named, its reads are admitted.
    let [good, refused, wrong, failed] = ended.reader();
    assert_eq!([good + refused, wrong, failed], [1000, 0, 0]);
    assert!(refused > 0 && ended.count("refused") == refused, "{}", ended.errors);
}

#[test]
fn block_device_can_be_named() {
    let Some(bench) = Bench::make() else { return };
    let raw = disk::LoopDisk::new(1);
    fs::copy(bench.path("data"), &raw.path).unwrap();
    let reader = [bench.program(), "pread".to_owned(), raw.path.clone(), "200".to_owned()];
    let ended = bench.run(LATE, &raw.path, &reader);
    assert_eq!((ended.reader(), ended.count("refused")), ([10, 190, 0, 0], 190));
}

#[test]
fn tracked_drive_is_judged_by_its_state() {
    let Some(bench) = Bench::make() else { return };
    let reads = bench.reader("pread", "data", 300);
    // No read takes a minute.
    let ended = bench.run(&["--deadline", "1m", "--stale", "1m"], &bench.glob(), &reads);
    assert_eq!((ended.reader(), ended.count("in_time")), ([300, 0, 0, 0], 300), "{}", ended.errors);
    // While another program keeps the drive busy, every wait is longer than a microsecond.
    let name = format!("--filename={}", bench.path("noise"));
    let noise = ["--name=noise", "--rw=randread", "--direct=1", "--bs=64k", "--size=8M"];
    // One process, which is all that is killed.
    let more =
        ["--thread", "--ioengine=io_uring", "--iodepth=8", "--time_based", "--runtime=60", &name];
    let noise = Command::new("fio").args(noise).args(more).stdout(Stdio::null()).spawn();
    let mut noise = noise.unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let ended =
        bench.run(&["--deadline", "1us"], &bench.glob(), &bench.reader("pread", "data", 1000));
    noise.kill().and_then(|()| noise.wait()).unwrap();
    let [good, refused, wrong, failed] = ended.reader();
    assert!(refused > 0 && [good + refused, wrong, failed] == [1000, 0, 0], "{}", ended.errors);
    assert_eq!(ended.count("refused"), refused, "{}", ended.errors);
}

/// The state tracker of another process, and a drive that answers nothing for a while.
#[test]
fn stalled_drive_is_refused_and_without_the_agent_nothing_is() {
    let Some(bench) = Bench::make() else { return };
    let Some(drives) = emulated::Bench::new(&[]) else { return };
    let device = drives.create("one", &["--size", "64M"]);
    fs::copy(bench.path("data"), &device).unwrap();
    disk::run("sync", &[]);
    let pins = format!("/sys/fs/bpf/trimtab-refusal-{}", std::process::id());
    let mut watch = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    watch.args(["watch", &device, "--pin", &pins]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !Path::new(&pins).join("devices").exists() {
        assert!(Instant::now() < until && watch.try_wait().unwrap().is_none(), "it tracks");
        std::thread::sleep(Duration::from_millis(20));
    }
    let reader = |reads: &str| ["pread", &device, reads].map(str::to_owned);
    let all = |reads: &str| [&[bench.program()][..], &reader(reads)].concat();
    let patient = ["--deadline", "1m", "--stale", "1m", "--pins", &pins];
    let strict =
        ["--deadline", "500ms", "--stale", "1m", "--pins", &pins, "--admit-share", "0.0001%"];

    let ended = bench.run(&patient, &device, &all("100"));
    assert_eq!((ended.reader(), ended.count("in_time")), ([100, 0, 0, 0], 100), "{}", ended.errors);
    drives.done(&["fault", "one", "stall", "--for", "10m"]);
    let mut hanging = Command::new(bench.program());
    let hanging = hanging.args(reader("1")).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let ended = bench.run(&strict, &device, &all("300"));
    assert_eq!((ended.reader(), ended.count("refused")), ([0, 300, 0, 0], 300), "{}", ended.errors);
    drives.done(&["fault", "one", "clear"]);
    assert_eq!(bench::counts(&hanging.wait_with_output().unwrap().stdout), [1, 0, 0, 0]);
    let ended = bench.run(&patient, &device, &all("100"));
    assert_eq!((ended.reader(), ended.count("in_time")), ([100, 0, 0, 0], 100), "{}", ended.errors);

    // The agent ends without a farewell while the program reads.
    let running = bench.start(&patient, &device, &all("0"));
    bench.wait_for_group(&running);
    std::thread::sleep(Duration::from_secs(1));
    watch.kill().and_then(|()| watch.wait().map(drop)).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    bench::terminate(&running);
    let ended = Ended::of(running);
    fs::remove_file(Path::new(&pins).join("devices")).and_then(|()| fs::remove_dir(&pins)).unwrap();
    let [good, refused, wrong, failed] = ended.reader();
    assert_eq!([refused, wrong, failed], [0, 0, 0], "{}", ended.errors);
    assert!(ended.count("in_time") > 0 && ended.count("not_tracked") > 0, "{}", ended.errors);
    // In between what it left may be of a moment that decides nothing.
    let admitted = ["in_time", "not_tracked", "unsure"].map(|reason| ended.count(reason));
    assert_eq!(good, admitted.iter().sum::<u64>(), "{}", ended.errors);
    drives.done(&["remove", "one"]);
}

#[test]
fn file_on_no_drive_is_admitted_and_told() {
    let Some(bench) = Bench::make() else { return };
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("data");
    fs::copy(bench.path("data"), &path).unwrap();
    let path = path.to_str().unwrap();
    // Without O_DIRECT: a file system in memory has none before Linux 6.6.
    let reader = [bench.program(), "buffered".to_owned(), path.to_owned(), "50".to_owned()];
    let ended = bench.run(LATE, path, &reader);
    assert_eq!((ended.code, ended.reader()), (Some(0), [50, 0, 0, 0]));
    assert!(ended.errors.contains("on no single drive"), "{}", ended.errors);
}

#[test]
fn without_its_publisher_everything_is_admitted() {
    let Some(bench) = Bench::make() else { return };
    let short = ["--deadline", "2ms", "--assume-wait", "10ms", "--stale", "200ms"];
    let inside = bench.start(&short, &bench.glob(), &bench.reader("pread", "data", 0));
    bench.wait_for_group(&inside);
    // It stands still: what it has published gets too old.
    std::thread::sleep(Duration::from_millis(300));
    bench::signal(inside.id(), "STOP");
    std::thread::sleep(Duration::from_millis(1500));
    bench::signal(inside.id(), "CONT");
    std::thread::sleep(Duration::from_millis(300));
    bench::terminate(&inside);
    let ended = Ended::of(inside);
    let [good, refused, wrong, failed] = ended.reader();
    assert_eq!([refused, wrong, failed], [ended.count("refused"), 0, 0], "{}", ended.errors);
    assert!(refused > 0 && ended.count("stale") > 100, "{}", ended.errors);
    assert_eq!(good, ended.count("stale") + ended.count("share"), "{}", ended.errors);
}

#[test]
fn after_sigkill_the_program_goes_on_and_the_next_run_cleans_up() {
    let Some(bench) = Bench::make() else { return };
    let mut inside = bench.start(LATE, &bench.glob(), &bench.reader("pread", "data", 0));
    let (group, reader) = bench.wait_for_group(&inside);
    std::thread::sleep(Duration::from_secs(1));
    inside.kill().and_then(|()| inside.wait().map(drop)).unwrap();
    assert!(Path::new(&group).exists(), "the program is still in it");
    // From here on no read may be refused: another reader in the same group shows it.
    let entry = format!("{group}/cgroup.procs");
    let shell =
        format!("echo $$ > {entry} && exec {} pread {} 500", bench.program(), bench.path("data"));
    let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
    assert_eq!(bench::counts(&output.stdout), [500, 0, 0, 0]);
    bench::signal(reader, "TERM");
    let mut rest = String::new();
    inside.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    let [_, refused, wrong, failed] = bench::counts(rest.as_bytes());
    assert!(refused > 0 && (wrong, failed) == (0, 0), "{rest}");
    let ended = bench.run(LATE, &bench.glob(), &["true".to_owned()]);
    assert_eq!(ended.code, Some(0));
    assert!(!Path::new(&group).exists(), "{group}");
    assert_eq!(bench::groups(), [""; 0]);
}

#[test]
fn program_is_run_as_by_a_shell() {
    let Some(bench) = Bench::make() else { return };
    let shell = |script: &str| ["sh".to_owned(), "-c".to_owned(), script.to_owned()];
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("echo out", 0)] {
        let ended = bench.run(LATE, &bench.glob(), &shell(script));
        assert_eq!(ended.code, Some(code), "{script}: {}", ended.errors);
        assert_eq!(ended.output, if script == "echo out" { "out\n" } else { "" });
    }
    let ended = bench.run(LATE, &bench.glob(), &["no-such-program".to_owned()]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.errors.contains("no such command"), "{}", ended.errors);
    // Signals are passed on, and the program decides what they mean.
    let script = "trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done";
    let mut running = bench.start(LATE, &bench.glob(), &shell(script));
    let mut ready = [0; 6];
    running.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    // The command gives up what it does not need, and the program has what the user has.
    let kept = privileges::set("CAP_BPF CAP_PERFMON CAP_DAC_OVERRIDE CAP_KILL");
    privileges::assert_comes_to(running.id(), kept);
    bench::signal(running.id(), "USR1");
    assert_eq!(Ended::of(running).code, Some(9));
    let shown = "grep CapEff /proc/self/status";
    let ended = bench.run(LATE, &bench.glob(), &shell(shown));
    let own = Command::new("sh").args(["-c", shown]).output().unwrap();
    assert_eq!(ended.output.as_bytes(), own.stdout);
    // What it leaves running goes on outside of the group.
    let ended = bench.run(LATE, &bench.glob(), &shell("sleep 3 >/dev/null 2>&1 & echo $!"));
    let left = Path::new("/proc").join(ended.output.trim());
    assert!(left.exists(), "it still runs");
    assert_eq!(bench::groups(), [""; 0]);
}

#[test]
fn drive_that_vanishes_ends_nothing() {
    let Some(bench) = Bench::make() else { return };
    let mut raw = disk::LoopDisk::new(1);
    fs::copy(bench.path("data"), &raw.path).unwrap();
    let path = raw.path.clone();
    let running = bench.start(LATE, &path, &["sleep".to_owned(), "60".to_owned()]);
    bench.wait_for_group(&running);
    if !raw.attach_anew() {
        bench::terminate(&running);
        _ = Ended::of(running);
        return disk::skip(Feature::Quiet, "another process has taken the loop device");
    }
    let until = Instant::now() + Duration::from_secs(20);
    let group = bench::groups().pop().unwrap();
    // The device of the same name is another one, and is not refused.
    let shell =
        format!("echo $$ > {group}/cgroup.procs && exec {} pread {path} 100", bench.program());
    loop {
        let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
        let [good, _, wrong, failed] = bench::counts(&output.stdout);
        assert_eq!([wrong, failed], [0, 0]);
        if good == 100 {
            break;
        }
        assert!(Instant::now() < until, "it is still refused");
    }
    bench::terminate(&running);
    let ended = Ended::of(running);
    assert_eq!(ended.code, Some(143), "{}", ended.errors);
    assert!(ended.errors.contains("is gone"), "{}", ended.errors);
}

#[test]
fn kept_data_are_what_was_written() {
    let Some(bench) = Bench::make() else { return };
    let before = fs::read(bench.path("data")).unwrap();
    let ended = bench.run(LATE, &bench.glob(), &bench.reader("write", "data", 256));
    assert_eq!(ended.reader(), [256, 0, 0, 0]);
    let file = fs::File::open(bench.path("data")).unwrap();
    let mut after = vec![0; before.len()];
    file.read_exact_at(&mut after, 0).unwrap();
    assert!(before == after);
}
