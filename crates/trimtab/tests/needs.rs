//! A command checks its requirements before work that takes minutes.

mod emulated;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use emulated::{Bench, stderr};
use trimtab_testdisk as testdisk;

/// Simulating this takes far longer than a test may.
const LONG: &str = "phase_one = { reads = 5_000_000 }
phase_two = { reads = 5_000_000 }
[workload]
read_share = 0.5
offsets = { kind = 'uniform' }
sizes = [{ bytes = 4096, weight = 1 }]
arrivals = { kind = 'poisson', iops = 2000 }
[[device]]
profile = 'small.toml'
capacity = '128M'
fill = { share = 1.0, kind = 'aged' }
[[device]]
profile = 'small.toml'
capacity = '128M'
fill = { share = 1.0, kind = 'aged' }
";
const CHANGE: &str = "
[change]
retrain = { reads = 1000 }
workload = { read_share = 0.5, offsets = { kind = 'uniform' }, \
sizes = [{ bytes = 4096, weight = 1 }], arrivals = { kind = 'poisson', iops = 2000 } }
";

const NOBODY: u32 = 65_534;

fn bench(programs: &[&'static str]) -> Option<Bench> {
    let bench = Bench::new(programs)?;
    fs::write(bench.path("long.toml"), LONG).unwrap();
    Some(bench)
}

fn trimtab(bench: &Bench, args: &[&str]) -> Command {
    in_bench(Command::new(env!("CARGO_BIN_EXE_trimtab")), bench, args)
}

/// The same with a nearly empty `/dev`.
fn without_devices(bench: &Bench, args: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    let script = r#"mount -t tmpfs none /dev && mknod /dev/null c 1 3 && exec "$0" "$@""#;
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command.arg(env!("CARGO_BIN_EXE_trimtab"));
    in_bench(command, bench, args)
}

fn in_bench(mut command: Command, bench: &Bench, args: &[&str]) -> Command {
    command.env("TRIMTAB_RUN", bench.path("")).current_dir(bench.path("")).args(args);
    command
}

/// Expects a refusal with one line of this text, long before the work could be done.
fn assert_refused_at_once(mut command: Command, code: i32, expected: &str) {
    const SOON: Duration = Duration::from_secs(60);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > SOON {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?}: still at work");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output: Output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
    assert!(said.contains(expected), "{command:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{command:?}: {said}");
}

#[test]
fn live_comparison_checks_for_root_before_simulating() {
    let Some(bench) = bench(&[]) else { return };
    // In a directory that other users can access.
    let program = bench.path("trimtab");
    // By another process: a program that another test starts meanwhile would inherit the file that
    // is being written, and as long as it has it the file cannot be executed (ETXTBSY).
    testdisk::run("cp", &[env!("CARGO_BIN_EXE_trimtab"), program.to_str().unwrap()]);
    for path in [bench.path(""), program.clone()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = in_bench(Command::new(program), &bench, &["compare", "--live", "long.toml"]);
    command.uid(NOBODY).gid(NOBODY);
    assert_refused_at_once(command, 1, "emulated drives and arrays need root");
}

#[test]
fn live_comparison_checks_other_requirements_before_simulating() {
    let Some(bench) = bench(&["unshare"]) else { return };
    let live = ["compare", "--live", "long.toml"];
    assert_refused_at_once(without_devices(&bench, &live), 1, "this kernel has no FUSE");
    let mut elsewhere = trimtab(&bench, &live);
    elsewhere.env("TRIMTAB_RUN", "/proc/nowhere");
    assert_refused_at_once(elsewhere, 1, "TRIMTAB_RUN names another directory");
    for output in ["--report", "--json"] {
        let args = [&live[..], &[output, "nowhere/out"]].concat();
        assert_refused_at_once(trimtab(&bench, &args), 1, "nowhere/out: ");
    }
    fs::write(bench.path("changes.toml"), [LONG, CHANGE].concat()).unwrap();
    let changes = ["compare", "--live", "changes.toml"];
    assert_refused_at_once(trimtab(&bench, &changes), 2, "`change` is for simulations");
}

#[test]
fn drive_checks_requirements_before_ageing() {
    let Some(bench) = bench(&["unshare"]) else { return };
    let create = ["drive", "create", "big", "--size", "256G", "--fill", "1", "--overwrites", "50"];
    assert_refused_at_once(without_devices(&bench, &create), 1, "this kernel has no FUSE");
    let unknown = [&create[..], &["--scheduler", "nonsense"]].concat();
    let reason = "`nonsense`: no such I/O scheduler here; there are: ";
    assert_refused_at_once(trimtab(&bench, &unknown), 2, reason);
    assert!(bench.traces().is_empty(), "{:?}", bench.traces());
}

#[test]
fn unwritable_output_is_reported_before_reading_input() {
    let Some(bench) = bench(&["mkfifo"]) else { return };
    // A pipe that no process writes to.
    testdisk::run("mkfifo", &[bench.path("trace").to_str().unwrap()]);
    let train = ["train", "--trace", "trace", "-o", "nowhere/model.safetensors"];
    assert_refused_at_once(trimtab(&bench, &train), 1, "nowhere/model.safetensors: ");
    let train = ["train", "--trace", "trace", "-o", "model.safetensors", "--steered", "2"];
    assert_refused_at_once(trimtab(&bench, &train), 2, "--steered must be from 0 to 1");
    // The input is read twice, so it is a file; errors in it would come later.
    fs::write(bench.path("nonsense"), "nonsense\n").unwrap();
    let cut = ["trace", "cut", "nonsense", "--busiest", "1s", "-o", "nowhere/cut.parquet"];
    assert_refused_at_once(trimtab(&bench, &cut), 1, "nowhere/cut.parquet: ");
}
