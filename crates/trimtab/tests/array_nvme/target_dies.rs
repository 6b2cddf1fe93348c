//! A mirror whose remote member's target dies under load.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use trimtab_testdisk as testdisk;

use super::array_bench::{open_direct, read_block, write_block};
use super::emulated::{stderr, wait_until};
use super::{Bench, LISTEN, TCP, connect, report};

/// How a remote member's target ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// It is taken down: hosts see the connection end.
    Unexported,
    /// The server of the exported drive is killed: hosts see errors.
    Killed,
    /// Nothing arrives any more, and nothing says so.
    Unplugged,
}

/// The machine of a target, behind a cable.
struct Cable;

impl Cable {
    const TARGET: &str = "10.77.0.2:14420";
    const TCP: &str = "transport=tcp,traddr=10.77.0.2,trsvcid=14420";

    fn new() -> Self {
        for line in [
            "netns add trimtab-target",
            "link add trimtab0 type veth peer name trimtab1 netns trimtab-target",
            "address add 10.77.0.1/24 dev trimtab0",
            "link set trimtab0 up",
            "-n trimtab-target address add 10.77.0.2/24 dev trimtab1",
            "-n trimtab-target link set trimtab1 up",
        ] {
            testdisk::run("ip", &line.split(' ').collect::<Vec<_>>());
        }
        Self
    }

    /// Drops every packet without a word, as a broken cable does.
    fn unplug(&self) {
        let discipline = "qdisc replace dev trimtab0 root netem loss 100%";
        testdisk::run("tc", &discipline.split(' ').collect::<Vec<_>>());
    }

    /// The opposite. Without it the end of the connection waits until an attempt to connect has been given
    /// up, which takes the kernel more than two minutes.
    fn plug_in(&self) {
        testdisk::run("tc", &["qdisc", "delete", "dev", "trimtab0", "root"]);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for line in ["link delete trimtab0", "netns delete trimtab-target"] {
            _ = Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status();
        }
    }
}

/// A mirror of a remote and a local member, with fio that verifies and a reader beside it, while the
/// remote member's target ends.
#[test]
fn a_mirror_loses_nothing_when_a_target_dies_under_load() {
    let Some(bench) = Bench::new() else { return };
    const ROUNDS: usize = 2;
    for (end, policy) in [
        (End::Unexported, "plain"),
        (End::Unexported, "adaptive"),
        (End::Killed, "adaptive"),
        (End::Unplugged, "adaptive"),
    ] {
        let rounds = (0..ROUNDS).map(|_| lose_target(&bench, end, policy));
        let (mut before, mut after): (Vec<_>, Vec<_>) = rounds.unzip();
        let shown = |times: &mut Vec<Duration>| {
            times.sort();
            let ms: Vec<_> =
                times.iter().map(|time| format!("{:.0}", time.as_secs_f64() * 1e3)).collect();
            ms.join(", ")
        };
        report(&format!(
            "{end:?}, {policy}: the longest read of each round, ms: in {WINDOW_S} s before the \
             target's end {}; in {WINDOW_S} s from then on {}",
            shown(&mut before),
            shown(&mut after)
        ));
        bench.nothing_is_left();
    }
}

/// Seconds before and after a target's end that are compared.
const WINDOW_S: u64 = 6;

/// Returns how long the longest read took before the end, and from then on.
fn lose_target(bench: &Bench, end: End, policy: &str) -> (Duration, Duration) {
    bench.drive("far", &[]);
    let cable = matches!(end, End::Unplugged).then(Cable::new);
    let (nqn, by) = if cable.is_some() {
        // In the namespace of the target: the kernel listens in that of the process.
        let listen = ["--nvme", "tcp", "--listen", Cable::TARGET, "--any-host"];
        let export = bench.arrays.bench.command(&[&["export", "far"][..], &listen].concat());
        let program = export.get_program().to_owned();
        let mut inside = Command::new("nsenter");
        inside.arg("--net=/run/netns/trimtab-target").arg(program).args(export.get_args());
        inside.envs(export.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = inside.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (String::from_utf8(output.stdout).unwrap().trim().to_owned(), Cable::TCP)
    } else {
        (bench.export_drive("far", &["--nvme", "tcp", "--listen", LISTEN]), TCP)
    };
    let limits = "reconnect_delay=1,ctrl_loss_tmo=600,fast_io_fail_tmo=0,keep_alive_tmo=1";
    let (connection, remote) = connect(&nqn, &format!("{by},{limits}"));
    let members = [&[remote.clone()][..], &bench.arrays.files(&["near"], 64)].concat();
    let create =
        ["create", "pair", "--level", "1", "--policy", policy, "--assume-clean", "--force"];
    let array = bench.arrays.done(&create, &members);

    // Blocks that the reader knows, beyond those that fio writes to.
    const KNOWN: std::ops::Range<u64> = 12_288..13_312;
    let disk = open_direct(&array);
    KNOWN.for_each(|block| write_block(&disk, block, block + 1).unwrap());
    let mut fio = fio(&array);
    let done = AtomicBool::new(false);
    let window = Duration::from_secs(WINDOW_S);
    let (before, after) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| timed_reads(&disk, KNOWN, &done));
        std::thread::sleep(window);
        let ended = Instant::now();
        match end {
            End::Unexported => _ = bench.arrays.bench.done(&["unexport", "far"]),
            End::Killed => kill_drive(bench, "far"),
            End::Unplugged => cable.as_ref().unwrap().unplug(),
        }
        let has_ended = ends(&mut fio);
        if !has_ended {
            report_what_hangs(bench, &fio);
            _ = fio.kill();
        }
        std::thread::sleep((ended + window).saturating_duration_since(Instant::now()));
        // Before anything that may panic: the scope waits for the reader.
        done.store(true, Ordering::Relaxed);
        let reads = reader.join().unwrap();
        assert!(has_ended, "{end:?}, {policy}: fio waits forever, or has found an error");
        // A read that is under way when the target ends counts from then on, however long it takes.
        let (from, to) = (ended - window, ended + window);
        let reads = reads.iter().filter(|(begun, _)| (from..to).contains(begun));
        let (after, before): (Vec<_>, Vec<_>) =
            reads.partition(|(begun, took)| *begun + *took >= ended);
        let longest = |reads: Vec<&(Instant, Duration)>| reads.iter().map(|read| read.1).max();
        (longest(before).expect("some reads"), longest(after).expect("some reads"))
    });
    let states = bench.arrays.states("pair");
    assert_eq!(states, ["failed", "active"], "{end:?}, {policy}");
    // Everything is there, from the local member.
    for block in KNOWN {
        assert_eq!(read_block(&disk, block).unwrap(), block + 1);
    }
    drop(disk);
    if matches!(end, End::Unexported) {
        // The target is back, and the host connects again by itself.
        bench.export_drive("far", &["--nvme", "tcp", "--listen", LISTEN]);
        wait_until("the connection", || open_direct(&remote).sync_all().is_ok());
        bench.arrays.done(&["remove", "pair", &remote], &[]);
        bench.arrays.done(&["add", "pair", &remote, "--force"], &[]);
        bench.arrays.wait_for_rebuild("pair");
        bench.arrays.check("pair");
    }
    bench.arrays.done(&["stop", "pair"], &[]);
    cable.iter().for_each(Cable::plug_in);
    drop(connection);
    drop(cable);
    _ = bench.arrays.bench.drive(&["unexport", "far"]);
    bench.arrays.bench.done(&["remove", "far"]);
    (before, after)
}

/// Writes at random, then reads and verifies.
fn fio(device: &str) -> std::process::Child {
    let arguments = [
        "--name=load",
        &format!("--filename={device}"),
        "--direct=1",
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=4",
        "--ioengine=libaio",
        "--size=10M",
        "--rate_iops=200",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_state_save=0",
        "--output-format=terse",
        // Its process has what it has read and written.
        "--thread",
    ];
    Command::new("fio").args(arguments).stdout(Stdio::null()).spawn().expect("fio runs")
}

/// Whether a process ends by itself, and well, rather than read and write nothing for minutes. How long all
/// of it takes is a matter of the machine.
fn ends(process: &mut std::process::Child) -> bool {
    const PATIENCE: Duration = Duration::from_secs(240);
    let progress = format!("/proc/{}/io", process.id());
    let (mut last, mut since) = (String::new(), Instant::now());
    while since.elapsed() < PATIENCE {
        if let Some(status) = process.try_wait().unwrap() {
            return status.success();
        }
        let now = fs::read_to_string(&progress).unwrap_or_default();
        let now: String = now.lines().filter(|line| line.contains("_bytes")).collect();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Where requests are, by the array, and what blocks in the kernel.
fn report_what_hangs(bench: &Bench, fio: &std::process::Child) {
    report(&bench.arrays.stat("pair").to_string());
    let server = bench.arrays.server("pair").map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    for process in server.into_iter().chain([fio.id()]) {
        for thread in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten()
        {
            let of = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            report(&format!("{process} {}{}", of("comm"), of("stack")));
        }
    }
    _ = fs::write("/proc/sysrq-trigger", "w");
    let log = Command::new("dmesg").output().unwrap();
    let log = String::from_utf8_lossy(&log.stdout);
    let lines: Vec<_> = log.lines().collect();
    report(&lines[lines.len().saturating_sub(200)..].join("\n"));
}

/// Reads known blocks until it is told to end, with pauses that leave the processors to others: when each
/// read began, and how long it took.
fn timed_reads(
    disk: &File,
    known: std::ops::Range<u64>,
    done: &AtomicBool,
) -> Vec<(Instant, Duration)> {
    let mut reads = Vec::new();
    for block in known.cycle() {
        if done.load(Ordering::Relaxed) {
            break;
        }
        let begun = Instant::now();
        assert_eq!(read_block(disk, block).expect("reads go on"), block + 1);
        reads.push((begun, begun.elapsed()));
        std::thread::sleep(Duration::from_millis(2));
    }
    reads
}

fn kill_drive(bench: &Bench, name: &str) {
    let all: Value = serde_json::from_str(&bench.arrays.bench.done(&["list", "--json"])).unwrap();
    let drive = all.as_array().unwrap().iter().find(|drive| drive["name"] == name).unwrap();
    let pid = rustix::process::Pid::from_raw(drive["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
