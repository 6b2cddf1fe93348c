//! Arrays and emulated drives as NVMe drives, by the kernel's target: verified over both transports, over
//! two hops, with hosts that may and may not connect; a mirror whose remote member's target dies; what
//! crashes leave; refusals. Runs where the kernel has the target
//! (`RELEASE=trixie scripts/guest array_nvme`).

mod array_bench;
mod emulated;
mod nvme_host;
#[path = "array_nvme/target_dies.rs"]
mod target_dies;

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use array_bench::{Arrays, open_direct, read_block, rounds, write_block};
use emulated::{Mounted, stderr, wait_until};
use nvme_host::{Connection, Host, TARGET, configured, has_nvme};
use serde_json::Value;
use trimtab_testdisk as testdisk;

const HOST: Host = Host(1);

/// Where tests listen, so that they do not meet what else may use the registered port.
const LISTEN: &str = "127.0.0.1:14420";
const TCP: &str = "transport=tcp,traddr=127.0.0.1,trsvcid=14420";
const LOOP: &str = "transport=loop,traddr=trimtab";

/// Figures, also of a test that passes: what is printed by macros is shown of those that fail only.
fn report(line: &str) {
    let mut console = File::options().append(true).open("/proc/self/fd/2").unwrap();
    writeln!(console, "array_nvme: {line}").unwrap();
}

/// Arrays whose exports are taken away at the end.
struct Bench {
    arrays: Arrays,
    before: Vec<PathBuf>,
    /// The kernel has one target, and names and addresses in it are the same in all tests.
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Bench {
    fn new() -> Option<Self> {
        let arrays = Arrays::new(&["fio"])?;
        has_nvme().then(|| {
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            Self { arrays, before: configured(), _alone }
        })
    }

    fn mirror(&self, name: &str) -> String {
        let [one, two] = ["one", "two"].map(|member| format!("{name}-{member}"));
        let members = self.arrays.files(&[&one, &two], 64);
        self.arrays.done(&["create", name, "--level", "1", "--assume-clean"], &members)
    }

    fn drive(&self, name: &str, args: &[&str]) -> String {
        self.arrays.bench.create(name, &[&["--size", "64M", "--lead", "0us"], args].concat())
    }

    fn export(&self, name: &str, args: &[&str]) -> String {
        self.arrays.done(&[&["export", name], args].concat(), &[])
    }

    fn export_drive(&self, name: &str, args: &[&str]) -> String {
        self.arrays.bench.done(&[&["export", name], args].concat())
    }

    fn listed(&self, name: &str) -> Value {
        let all: Value = serde_json::from_str(&self.arrays.done(&["list", "--json"], &[])).unwrap();
        let array = all.as_array().unwrap().iter().find(|array| array["name"] == name);
        array.cloned().unwrap_or_default()
    }

    fn nothing_is_left(&self) {
        assert_eq!(configured(), self.before);
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Also after a failed test; before the arrays, which the target has open.
        _ = self.arrays.run(&["unexport", "--all"], &[]);
        _ = self.arrays.bench.drive(&["unexport", "--all"]);
    }
}

fn connect(nqn: &str, by: &str) -> (Connection, String) {
    let connection = HOST.connect(nqn, by).unwrap_or_else(|e| panic!("{nqn} {by}: {e}"));
    let device = connection.device();
    (connection, device)
}

/// Runs where the kernel has no NVMe target, too: it is not asked.
#[test]
fn what_cannot_be_exported_is_refused_at_once() {
    let Some(arrays) = Arrays::new(&[]) else { return };
    let members = arrays.files(&["a", "b"], 16);
    arrays.done(&["create", "ours", "--level", "1", "--assume-clean"], &members);
    let export = |more: &[&str], code, expected: &str| {
        arrays.fails(&[&["export", "ours"], more].concat(), &[], code, expected);
    };
    export(&["--nvme", "rdma"], 2, "expected tcp or loop");
    export(&["--nvme", "loop", "--listen", "127.0.0.1"], 2, "no address to listen on");
    export(&["--nvme", "tcp", "--listen", "localhost"], 2, "no address to listen on");
    export(&["--nvme", "tcp", "--listen", "127.0.0.1:0"], 2, "no address to listen on");
    export(&["--nvme", "tcp", "--listen", "0.0.0.0"], 2, "--host NQN");
    export(&["--nvme", "tcp", "--host", "../x"], 2, "begins with `nqn.`");
    arrays.fails(&["export", "other", "--nvme", "loop"], &[], 2, "no such array");
    arrays.fails(&["unexport", "ours"], &[], 2, "not exported");
    arrays.fails(&["unexport", "../ours"], &[], 2, "name is 1 to 32");
    arrays.done(&["unexport", "--all"], &[]);
    if !Path::new(TARGET).exists() {
        export(&["--nvme", "loop"], 1, "modprobe");
    }
    arrays.done(&["stop", "ours"], &[]);
}

#[test]
fn an_array_is_verified_over_both_transports_and_keeps_its_id() {
    let Some(bench) = Bench::new() else { return };
    let device = bench.mirror("ours");
    let mut nqns = Vec::new();
    for (args, by, shown) in [
        (&["--nvme", "loop"][..], LOOP, "loop".to_owned()),
        (&["--nvme", "tcp", "--listen", LISTEN], TCP, format!("tcp {LISTEN}")),
    ] {
        let nqn = bench.export("ours", args);
        // The connection has found the device by the id: it is that of the array.
        let (connection, remote) = connect(&nqn, by);
        let uuid = bench.arrays.stat("ours")["exported"]["uuid"].as_str().unwrap().to_owned();
        let of_array = bench.listed("ours")["uuid"].as_str().unwrap().replace(':', "");
        assert_eq!(uuid.replace('-', ""), of_array);
        assert!(nqn.ends_with(&uuid), "{nqn}");
        bench.arrays.verify(&remote, 7);
        assert_eq!(bench.arrays.checksum(&remote), bench.arrays.checksum(&device), "{by}");

        let exported = &bench.listed("ours")["exported"];
        assert_eq!(exported["transport"][0], shown, "{exported}");
        assert_eq!(exported["hosts"], Value::Null, "{exported}");
        let text = bench.arrays.done(&["list"], &[]);
        assert!(text.contains(&shown), "{text}");
        assert!(bench.arrays.done(&["stat", "ours"], &[]).contains(&nqn));
        let fails = |args: &[&str], code, expected: &str| {
            bench.arrays.fails(args, &[], code, expected);
        };
        fails(&["export", "ours", "--nvme", "loop"], 2, "exported already");
        fails(&["stop", "ours"], 1, "unexport ours` first");
        let [other] = &bench.arrays.files(&["other"], 64)[..] else { unreachable!() };
        let members = [device.clone(), other.clone()];
        let create = ["create", "over", "--level", "1", "--assume-clean"];
        bench.arrays.fails(&create, &members, 2, "is exported as the NVMe drive");
        drop(connection);
        bench.arrays.done(&["unexport", "ours"], &[]);
        fails(&["unexport", "ours"], 2, "not exported");
        bench.nothing_is_left();
        nqns.push(nqn);
    }
    assert_eq!(nqns[0], nqns[1]);
    // With --force it ends, and its export with it.
    bench.export("ours", &["--nvme", "loop"]);
    bench.arrays.done(&["stop", "ours", "--force"], &[]);
    bench.nothing_is_left();
    assert!(bench.arrays.traces().is_empty(), "{:?}", bench.arrays.traces());
}

#[test]
fn only_allowed_hosts_connect() {
    let Some(bench) = Bench::new() else { return };
    bench.mirror("ours");
    let (friend, stranger) = (Host(2), Host(3));
    for (kind, by) in [("loop", LOOP), ("tcp", TCP)] {
        let mut args = vec!["--nvme", kind];
        if kind == "tcp" {
            args.extend(["--listen", LISTEN]);
        }
        let (host, other) = (friend.nqn(), Host(4).nqn());
        args.extend(["--host", &host, &other]);
        let nqn = bench.export("ours", &args);
        assert_eq!(bench.listed("ours")["exported"]["hosts"][0], host);
        assert!(stranger.connect(&nqn, by).is_err(), "{kind}: a stranger connects");
        let connection = friend.connect(&nqn, by).unwrap();
        bench.arrays.verify(&connection.device(), 8);
        drop(connection);
        bench.arrays.done(&["unexport", "--all"], &[]);
        bench.nothing_is_left();
    }
    bench.arrays.done(&["stop", "ours"], &[]);
}

/// A drive is exported, is a member of a mirror and of stripes, and these are exported again.
#[test]
fn two_hops_are_verified() {
    let Some(bench) = Bench::new() else { return };
    for (level, policy) in [("1", "adaptive"), ("0", "plain"), ("5", "trimtab")] {
        let drive = bench.drive("inner", &[]);
        let nqn = bench.export_drive("inner", &["--nvme", "tcp", "--listen", LISTEN]);
        let (inner, remote) = connect(&nqn, TCP);
        let locals = bench.arrays.files(&["b", "c"], 64);
        // As large as the drive, to the byte: members of stripes without redundancy must be.
        let bytes = fs::read_to_string(drive.replace("/dev", "/sys/block") + "/size").unwrap();
        let bytes = bytes.trim().parse::<u64>().unwrap() * 512;
        for local in &locals {
            File::options().write(true).open(local).unwrap().set_len(bytes).unwrap();
        }
        let count = if level == "5" { 2 } else { 1 };
        let members = [&[remote.clone()][..], &locals[..count]].concat();
        let create = ["create", "outer", "--level", level, "--policy", policy];
        let array = bench.arrays.done(&[&create[..], &["--force"]].concat(), &members);
        assert_eq!(bench.arrays.states("outer")[0], "active");
        let nqn = bench.export("outer", &["--nvme", "tcp", "--listen", LISTEN]);
        let (outer, far) = connect(&nqn, TCP);
        bench.arrays.verify(&far, 9);
        bench.arrays.wait_for_resync("outer");
        assert_eq!(bench.arrays.checksum(&far), bench.arrays.checksum(&array));
        if level != "0" {
            bench.arrays.check("outer");
        }
        let by = bench.arrays.bench.stat("inner")["exported"]["transport"][0].clone();
        assert_eq!(by, format!("tcp {LISTEN}"));
        let args = ["remove", "inner"];
        bench.arrays.bench.fails(&args, 1, "unexport inner` first");
        // It goes with its parts in the order in which it was made.
        drop(outer);
        bench.arrays.done(&["unexport", "outer"], &[]);
        bench.arrays.done(&["stop", "outer"], &[]);
        // It is assembled from what the drive has, by its own path.
        drop(inner);
        bench.arrays.bench.done(&["unexport", "inner"]);
        let members = [&[drive][..], &locals[..count]].concat();
        bench.arrays.done(&["assemble", "outer"], &members);
        bench.arrays.done(&["stop", "outer"], &[]);
        bench.arrays.bench.done(&["remove", "inner"]);
        bench.nothing_is_left();
    }
}

#[test]
fn what_killed_servers_and_commands_leave_is_removed() {
    let Some(bench) = Bench::new() else { return };
    // The server is killed: its export stays, and hosts get errors.
    for (host_stays, by_stop) in [(false, false), (true, false), (false, true)] {
        bench.mirror("ours");
        let nqn = bench.export("ours", &["--nvme", "tcp", "--listen", LISTEN]);
        let (connection, remote) = connect(&nqn, TCP);
        let disk = open_direct(&remote);
        write_block(&disk, 0, 1).unwrap();
        bench.arrays.kill("ours");
        wait_until("the kill", || {
            bench.listed("ours")["state"] == "killed: assemble it, or stop it"
        });
        assert!(read_block(&disk, 0).is_err(), "nothing serves this");
        drop(disk);
        let text = bench.arrays.done(&["list"], &[]);
        assert!(text.contains("of a server that is gone: unexport it"), "{text}");
        let connection = host_stays.then_some(connection);
        if !by_stop {
            bench.arrays.done(&["unexport", "ours"], &[]);
            bench.nothing_is_left();
        }
        bench.arrays.done(&["stop", "ours"], &[]);
        bench.nothing_is_left();
        drop(connection);
        assert!(bench.arrays.traces().is_empty(), "{:?}", bench.arrays.traces());
    }

    // The array is gone, too: assembled again under its name, it is another device.
    let members = bench.arrays.files(&["a", "b"], 64);
    bench.arrays.done(&["create", "ours", "--level", "1", "--assume-clean"], &members);
    let nqn = bench.export("ours", &["--nvme", "loop"]);
    bench.arrays.kill("ours");
    bench.arrays.done(&["assemble", "ours"], &members);
    bench.arrays.fails(&["export", "ours", "--nvme", "loop"], &[], 2, "exported already");
    bench.arrays.done(&["unexport", "ours"], &[]);
    assert_eq!(bench.export("ours", &["--nvme", "loop"]), nqn, "it keeps its id");
    bench.arrays.done(&["unexport", "ours"], &[]);

    // The command is killed while it sets up or takes down, a little later each time.
    let subsystem = Path::new(TARGET).join("subsystems").join(&nqn);
    let host = Host(5).nqn();
    let export = ["export", "ours", "--nvme", "tcp", "--listen", LISTEN, "--host", &host];
    let (mut left, rounds) = (0, rounds(20));
    for round in 0..rounds {
        let pause = Duration::from_micros(100 * (round / 2));
        if round % 2 == 0 {
            kill_when(&bench, &export, pause, || subsystem.exists());
        } else {
            bench.arrays.done(&export, &[]);
            let link = subsystem.join("namespaces/1/enable");
            let is_off = || fs::read_to_string(&link).is_ok_and(|enabled| enabled.trim() == "0");
            kill_when(&bench, &["unexport", "ours"], pause, || is_off() || !subsystem.exists());
        }
        let now = configured();
        let is_exported = bench.listed("ours")["exported"]["is_complete"] == true;
        left += usize::from(now != bench.before && !is_exported);
        let output = bench.arrays.run(&["unexport", "ours"], &[]);
        assert_eq!(output.status.success(), subsystem_in(&now), "{}", stderr(&output));
        bench.nothing_is_left();
    }
    report(&format!("killed commands left a part of an export in {left} of {rounds} rounds"));
    bench.arrays.done(&["stop", "ours"], &[]);
}

/// Kills a command so long after a condition holds, unless it ends before.
fn kill_when(bench: &Bench, args: &[&str], pause: Duration, mut is_so: impl FnMut() -> bool) {
    let mut command = bench.arrays.bench.trimtab(&[&["array"], args].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !is_so() && child.try_wait().unwrap().is_none() {}
    std::thread::sleep(pause);
    _ = child.kill();
    child.wait().unwrap();
}

/// Whether a subsystem of ours is among what is configured.
fn subsystem_in(configured: &[PathBuf]) -> bool {
    configured.iter().any(|path| path.display().to_string().contains("trimtab:array:"))
}

/// What others have set up in the target stays, and stands in the way where it must.
#[test]
fn what_others_export_stays() {
    let Some(mut bench) = Bench::new() else { return };
    let nqn = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-00000000ffff";
    let foreign = Path::new(TARGET).join("subsystems").join(nqn);
    let port = Path::new(TARGET).join("ports/1");
    let [file] = &bench.arrays.files(&["foreign"], 16)[..] else { unreachable!() };
    fs::create_dir(&foreign).unwrap();
    fs::create_dir(foreign.join("namespaces/1")).unwrap();
    fs::write(foreign.join("namespaces/1/device_path"), file).unwrap();
    fs::write(foreign.join("namespaces/1/enable"), "1").unwrap();
    fs::create_dir(&port).unwrap();
    for (name, value) in [
        ("addr_trtype", "tcp"),
        ("addr_adrfam", "ipv4"),
        ("addr_traddr", "127.0.0.1"),
        ("addr_trsvcid", "14421"),
    ] {
        fs::write(port.join(name), value).unwrap();
    }
    std::os::unix::fs::symlink(&foreign, port.join("subsystems").join(nqn)).unwrap();
    let nothing = std::mem::replace(&mut bench.before, configured());

    bench.mirror("ours");
    let export = |more: &[&str], code, expected: &str| {
        bench.arrays.fails(&[&["export", "ours"], more].concat(), &[], code, expected);
        bench.nothing_is_left();
    };
    export(&["--nvme", "tcp", "--listen", "127.0.0.1:14421"], 2, "port 1");
    let taken = TcpListener::bind("127.0.0.1:14422").unwrap();
    export(&["--nvme", "tcp", "--listen", "127.0.0.1:14422"], 1, "in use by another program");
    drop(taken);
    export(&["--nvme", "tcp", "--listen", "192.0.2.1", "--any-host"], 2, "no such address");
    let members = [file.clone(), bench.arrays.files(&["other"], 64)[0].clone()];
    let create = ["create", "over", "--level", "1", "--assume-clean"];
    bench.arrays.fails(&create, &members, 2, "is exported as the NVMe drive");

    bench.export("ours", &["--nvme", "tcp", "--listen", LISTEN]);
    bench.arrays.done(&["unexport", "--all"], &[]);
    bench.arrays.bench.done(&["unexport", "--all"]);
    bench.nothing_is_left();

    fs::remove_file(port.join("subsystems").join(nqn)).unwrap();
    fs::remove_dir(&port).unwrap();
    fs::write(foreign.join("namespaces/1/enable"), "0").unwrap();
    fs::remove_dir(foreign.join("namespaces/1")).unwrap();
    fs::remove_dir(&foreign).unwrap();
    bench.before = nothing;

    // What is in use is not exported.
    let device = bench.listed("ours")["device"].as_str().unwrap().to_owned();
    testdisk::run("mkfs.ext4", &["-q", &device]);
    let mounted = Mounted::new(&device, bench.arrays.bench.path("mnt"));
    bench.arrays.fails(&["export", "ours", "--nvme", "loop"], &[], 2, "is mounted");
    mounted.unmount();
    bench.arrays.done(&["stop", "ours"], &[]);
    bench.nothing_is_left();
}

/// What each hop costs at depth 1: paths are read in turn, so that the machine's noise meets all alike.
#[test]
fn overhead_of_hops() {
    const ROUNDS: usize = 7;
    const READS: u64 = 200;
    let Some(bench) = Bench::new() else { return };
    for read_us in [20, 2_000] {
        let profile = emulated::SMALL.replace("read_us = 20", &format!("read_us = {read_us}"));
        fs::write(bench.arrays.bench.path("small.toml"), profile).unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| bench.drive(name, &[]));
        let nqn = bench.export_drive("a", &["--nvme", "loop"]);
        let (by_loop, a_by_loop) = connect(&nqn, LOOP);
        let [(by_b, b_by_tcp), (by_c, c_by_tcp)] = ["b", "c"].map(|name| {
            connect(&bench.export_drive(name, &["--nvme", "tcp", "--listen", LISTEN]), TCP)
        });
        let create = ["create", "both", "--level", "0", "--force"];
        let array = bench.arrays.done(&create, &[b_by_tcp.clone(), c_by_tcp]);
        let nqn = bench.export("both", &["--nvme", "tcp", "--listen", LISTEN]);
        let (by_both, both_by_tcp) = connect(&nqn, TCP);

        let paths = [&a, &b, &a_by_loop, &b_by_tcp, &array, &both_by_tcp];
        let mut medians: [Vec<Duration>; 6] = Default::default();
        for _ in 0..ROUNDS {
            for (path, medians) in paths.iter().zip(&mut medians) {
                medians.push(median_read(path, READS));
            }
        }
        let spread = |mut times: Vec<Duration>| {
            times.sort();
            let us = |time: Duration| time.as_secs_f64() * 1e6;
            (us(times[ROUNDS / 2]), us(times[0]), us(times[ROUNDS - 1]))
        };
        let names =
            ["drive a", "drive b", "a, loop", "b, tcp", "array of b and c, tcp", "array, tcp"];
        let base = [None, None, Some(0), Some(1), None, Some(4)];
        let times = medians.map(spread);
        for ((name, base), (middle, least, most)) in names.iter().zip(base).zip(times) {
            let ratio = base.map_or_else(String::new, |base| {
                let hop = middle - times[base].0;
                format!("; the hop {hop:.0} µs, {:.2} times", middle / times[base].0)
            });
            report(&format!(
                "reads take a drive {read_us} µs: {name}: {middle:.0} µs ({least:.0}–{most:.0}){ratio}"
            ));
        }

        drop(by_both);
        bench.arrays.done(&["stop", "both", "--force"], &[]);
        drop((by_loop, by_b, by_c, c));
        bench.arrays.bench.done(&["unexport", "--all"]);
        bench.arrays.bench.remove_all();
        bench.nothing_is_left();
    }
}

fn median_read(device: &str, reads: u64) -> Duration {
    let disk = open_direct(device);
    let mut buffer = testdisk::aligned(4096);
    let mut times: Vec<_> = (0..reads)
        .map(|index| {
            let window = testdisk::window(&mut buffer, 4096);
            let begun = Instant::now();
            let at = (index * 7919 % 16_000) * 4096;
            std::os::unix::fs::FileExt::read_exact_at(&disk, window, at).unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort();
    times[times.len() / 2]
}
