//! Servers of drives killed at random moments: while their drive is made, used, changed and
//! removed, over both back ends. A killed drive can be removed, leaves nothing, and its name can be used
//! again.
//!
//! Ten kills, in some seconds. For more of them, here and on the kernel of Debian:
//!
//! ```text
//! TRIMTAB_KILLS=200 cargo test --test drive_kills -- --nocapture
//! TRIMTAB_KILLS=200 scripts/guest kills
//! ```

mod emulated;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use emulated::{Bench, stderr, wait_until};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use trimtab_testdisk::{self as testdisk, Feature};

const NAME: &str = "mortal";
const OVER_FUSE: Create = create("fuse");
const OVER_UBLK: Create = create("ublk");

type Create = [&'static str; 8];

/// The command that makes the drive over a back end.
const fn create(backend: &'static str) -> Create {
    ["create", NAME, "--profile", "small.toml", "--size", "64M", "--backend", backend]
}

/// When a server is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Create,
    /// Kills the helper that attaches its device and reads from it, rather than the server.
    Helper,
    Load,
    Change,
    Remove,
}

/// Used in turn.
const MOMENTS: [Moment; 10] = [
    Moment::Create,
    Moment::Load,
    Moment::Create,
    Moment::Change,
    Moment::Remove,
    Moment::Create,
    Moment::Helper,
    Moment::Load,
    Moment::Create,
    Moment::Remove,
];

#[test]
fn server_can_be_killed_at_any_moment() {
    kill_at_any_moment(&OVER_FUSE);
}

#[test]
fn server_over_ublk_can_be_killed_at_any_moment() {
    if testdisk::requires(&[Feature::Ublk]) {
        kill_at_any_moment(&OVER_UBLK);
    }
}

fn kill_at_any_moment(command: &Create) {
    let Some(bench) = Bench::new(&[]) else { return };
    let kills = std::env::var("TRIMTAB_KILLS").ok();
    let kills: usize = kills.map_or(MOMENTS.len(), |text| text.parse().expect("a number of kills"));
    let mut random = Pcg64Mcg::seed_from_u64(7);
    // Measures durations on this machine, so that kills hit every phase.
    let begun = Instant::now();
    bench.done(command);
    let create = begun.elapsed();
    let begun = Instant::now();
    bench.done(&["remove", NAME]);
    let remove = begun.elapsed();
    let mut found = [0; 2];
    for kill in 0..kills {
        let moment = MOMENTS[kill % MOMENTS.len()];
        let mut within = |time: Duration| time.mul_f64(random.random_range(0.0..1.2));
        match moment {
            Moment::Create => kill_in_create(&bench, command, within(create)),
            Moment::Helper => kill_helper(&bench, command, within(create)),
            Moment::Load => kill_under_load(&bench, command, within(create)),
            Moment::Change => kill_in_change(&bench, command, within(create)),
            Moment::Remove => kill_in_remove(&bench, command, within(remove)),
        }
        let removed = clean_up(&bench, &format!("kill {kill}, {moment:?}"));
        found[usize::from(removed)] += 1;
    }
    let [nothing, something] = found;
    testdisk::note(&format!(
        "{kills} kills: {something} left a drive to remove, {nothing} nothing"
    ));
    assert!(something > 0, "every kill came too early or too late");
    bench.done(command);
    bench.remove_all();
}

/// During most of the measurement, the measuring process waits in the kernel for the drive.
#[test]
fn server_can_be_killed_during_the_measurement() {
    let Some(bench) = Bench::new(&[]) else { return };
    for round in 0..5 {
        let mut create = start(&bench, &OVER_FUSE);
        let server = server_of(&mut create).expect("it takes longer than that");
        let is_attached = || bench.traces().iter().any(|trace| trace.contains("mount/disk"));
        wait_until("the device is attached", is_attached);
        thread::sleep(Duration::from_millis(4 * round));
        kill(server);
        finish(create);
        clean_up(&bench, &format!("round {round}"));
    }
}

fn kill_in_create(bench: &Bench, command: &Create, after: Duration) {
    let begun = Instant::now();
    let mut create = start(bench, command);
    let server = server_of(&mut create);
    thread::sleep(after.saturating_sub(begun.elapsed()));
    server.inspect(|&server| kill(server));
    finish(create);
}

fn kill_helper(bench: &Bench, command: &Create, within: Duration) {
    let mut create = start(bench, command);
    let begun = Instant::now();
    // It may continue without its helper or end, but not hang.
    while let Some(server) = server_of(&mut create)
        && begun.elapsed() < within
    {
        children(server).into_iter().for_each(kill);
    }
    finish(create);
}

fn kill_under_load(bench: &Bench, command: &Create, after: Duration) {
    let device = bench.done(command);
    let server = pid(bench);
    thread::scope(|scope| {
        for (seed, direct) in [(1, true), (2, true), (3, false)] {
            let device = &device;
            scope.spawn(move || load(device, seed, direct));
        }
        thread::sleep(after);
        kill(server);
        // Over ublk the load waits for another server; otherwise it has got errors.
        if command == &OVER_UBLK {
            limited(bench, &["remove", "--force", NAME]);
        }
    });
}

/// Reads and writes until an error.
fn load(device: &str, seed: u64, direct: bool) {
    const O_DIRECT: i32 = 0o40000;
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(if direct { O_DIRECT } else { 0 });
    let Ok(file) = options.open(device) else { return };
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut buffer = testdisk::aligned(16384);
    let window = testdisk::window(&mut buffer, 16384);
    loop {
        let offset = random.random_range(0..4000) * 16384;
        let done = match random.random_range(0..8) {
            0 => file.sync_data(),
            1..4 => file.write_all_at(window, offset),
            _ => file.read_exact_at(window, offset),
        };
        if done.is_err() {
            return;
        }
    }
}

fn kill_in_change(bench: &Bench, command: &Create, after: Duration) {
    bench.done(command);
    let server = pid(bench);
    let killer = thread::spawn(move || {
        thread::sleep(after);
        kill(server);
    });
    let changes: [&[&str]; 5] = [
        &["set", NAME, "gc.preemptive=true", "lead_us=3"],
        &["fault", NAME, "stall", "--for", "20ms"],
        &["snapshot", NAME],
        &["restore", NAME],
        &["fault", NAME, "clear"],
    ];
    for change in changes.iter().cycle() {
        // From some time on it fails, as expected.
        let output = limited(bench, change);
        if killer.is_finished() {
            let said = stderr(&output);
            assert!(said.lines().count() <= 1, "{change:?}: {said}");
            break;
        }
    }
    killer.join().unwrap();
}

fn kill_in_remove(bench: &Bench, command: &Create, after: Duration) {
    bench.done(command);
    let server = pid(bench);
    let remove = start(bench, &["remove", NAME]);
    thread::sleep(after);
    kill(server);
    finish(remove);
}

/// Removes the drive if it exists, and checks that nothing is left. Returns whether there was
/// something to remove.
fn clean_up(bench: &Bench, when: &str) -> bool {
    let removed = limited(bench, &["remove", "--force", NAME]);
    let said = stderr(&removed);
    let is_removed = removed.status.success();
    assert!(is_removed || said.contains("no such drive"), "{when}: {said}");
    let listed = limited(bench, &["list", "--json"]);
    assert_eq!(String::from_utf8_lossy(&listed.stdout).trim(), "[]", "{when}");
    assert!(bench.traces().is_empty(), "{when}: {:?}", bench.traces());
    is_removed
}

/// A child process of this test, whose children can be listed.
fn start(bench: &Bench, args: &[&str]) -> Child {
    let mut command = bench.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("trimtab runs")
}

/// The server that a `create` has started, unless `create` has ended.
fn server_of(create: &mut Child) -> Option<Pid> {
    let pid = Pid::from_child(create);
    loop {
        if let Some(&server) = children(pid).first() {
            return Some(server);
        }
        if create.try_wait().unwrap().is_some() {
            return None;
        }
    }
}

fn children(pid: Pid) -> Vec<Pid> {
    let pid = pid.as_raw_nonzero();
    let all = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    all.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

fn pid(bench: &Bench) -> Pid {
    let all: Value = serde_json::from_str(&bench.done(&["list", "--json"])).unwrap();
    Pid::from_raw(all[0]["pid"].as_i64().unwrap() as i32).unwrap()
}

fn kill(pid: Pid) {
    // It may have ended.
    _ = kill_process(pid, Signal::KILL);
}

/// Runs a command, which must end in time.
fn limited(bench: &Bench, args: &[&str]) -> std::process::Output {
    let mut child = bench.command(args);
    let child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("trimtab runs");
    wait_until(&format!("{args:?} ends"), || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

fn finish(mut child: Child) {
    wait_until("a command ends", || child.try_wait().unwrap().is_some());
}
