//! The inputs of commands: files of the names that they use, disks, drives. Each command has
//! its own directory and drives.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use trimtab_testdisk::{self as testdisk, Feature, LoopDisk};

use super::collect::{Shown, root};
use super::emulated;
use super::table::{ARRAY_LINES, COMPARISON_LINES, Needs, Plan, REPLAY_LINES, SIMULATION_LINES};

#[path = "../drive/mod.rs"]
mod drive;

/// The outcome of a command.
pub(crate) enum Outcome {
    Done,
    Skipped(Feature, String),
    Failed(String),
}

/// Commands that run until Ctrl-C get it after this many seconds.
const ENOUGH: Duration = Duration::from_secs(4);
/// Commands that take longer than this hang.
pub(crate) const TOO_LONG: Duration = Duration::from_secs(100);

/// Folders of example scenarios.
const SCENARIO_FOLDERS: &[&str] = &["array", "mittos"];

/// Inputs that commands share, and disks.
pub(crate) struct Stage {
    directory: tempfile::TempDir,
    /// Two disks and the load on them, which is dropped first; or why there are none.
    disks: Result<([Running; 2], [LoopDisk; 2]), String>,
    no_drives: Option<String>,
}

/// A process that is killed when dropped.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl Stage {
    pub(crate) fn new(commands: &[(&Shown, Plan)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let wants = |needs| {
            commands
                .iter()
                .any(|(_, plan)| matches!(plan, Plan::Run { needs: n, .. } if *n == needs))
        };
        let disks = match testdisk::missing(testdisk::REAL_DISKS) {
            Some(why) => Err(why),
            None if !wants(Needs::Ebpf) => Err("are not needed".to_owned()),
            None => {
                let disks = [LoopDisk::new(64), LoopDisk::new(64)];
                let loads = [load(&disks[0]), load(&disks[1])];
                Ok((loads, disks))
            }
        };
        let mkfs = [Feature::Program("mkfs.ext4")];
        let no_drives = testdisk::missing(&[emulated::NEEDED, &mkfs].concat());
        let stage = Self { directory, disks, no_drives };
        stage.make_programs();
        stage.make_inputs();
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `trimtab` is the program under test, and `sudo` runs its arguments directly.
    fn make_programs(&self) {
        fs::create_dir(self.path("bin")).unwrap();
        symlink(env!("CARGO_BIN_EXE_trimtab"), self.path("bin/trimtab")).unwrap();
        fs::write(self.path("bin/sudo"), "#!/bin/sh\nexec \"$@\"\n").unwrap();
        fs::set_permissions(self.path("bin/sudo"), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn make_inputs(&self) {
        let inputs = self.path("inputs");
        fs::create_dir(&inputs).unwrap();
        let write = |name: &str, text: &str| fs::write(inputs.join(name), text).unwrap();
        write("a.csv", &drive::recording(4000, 1, false));
        write("b.csv", &drive::recording(4000, 2, false));
        let second = drive::recording(4000, 3, false).replace(",srv,0,", ",srv,1,");
        write("disks.csv", &(drive::recording(4000, 4, false) + &second));
        // Three minutes of a volume of another server.
        let mut usr = String::new();
        for (row, line) in drive::recording(4000, 5, false).lines().enumerate() {
            let rest = line.split_once(",srv,").expect("the recording's own form").1;
            writeln!(usr, "{},usr,{rest}", 128_166_372_000_000_000 + row as u64 * 350_000).unwrap();
        }
        write("usr.csv", &usr);
        write("agent.toml", &self.agent_configuration());
        let data = root().join("crates/trimtab-trace/tests/data");
        for number in 0..2 {
            let from = data.join(format!("vda.blktrace.{number}"));
            fs::copy(from, inputs.join(format!("sda.blktrace.{number}"))).unwrap();
        }
        let mut script = "set -e; gzip -k usr.csv; cp usr.csv.gz usr_0.csv.gz; ".to_owned();
        for name in ["night", "disk", "nvme0n1", "sda", "before"] {
            write!(script, "trimtab trace convert a.csv -o {name}.parquet; ").unwrap();
        }
        for name in ["today", "sdb", "sdc", "after"] {
            write!(script, "trimtab trace convert b.csv -o {name}.parquet; ").unwrap();
        }
        script += "trimtab trace convert disks.csv -o disks.parquet; \
                   trimtab trace convert usr.csv -o usr_0.parquet; \
                   trimtab train --trace a.csv -o disk.safetensors; \
                   cp disk.safetensors nvme0n1.safetensors; cp disk.safetensors nvme0n1.model; \
                   cp disk.json nvme0n1.json; \
                   trimtab train --trace a.csv --predictor linnos -o linnos.model; \
                   trimtab profile show femu > mine.toml; \
                   trimtab profile show p4600 --capacity 64G > small.toml; rm disks.csv usr.csv";
        let made = self.shell(&inputs, &script, Duration::from_secs(600));
        assert!(made.status.success(), "inputs: {}", said(&made));
    }

    /// The example's configuration, with an existing disk and a free port.
    fn agent_configuration(&self) -> String {
        let text = fs::read_to_string(root().join("examples/agent.toml")).unwrap();
        let device = self.disks.as_ref().map_or("nvme0n1", |(_, disks)| disks[0].name());
        let other = self.disks.as_ref().map_or("nvme1n1", |(_, disks)| disks[1].name());
        let text = text.replace("\"nvme0n1\"", &format!("\"{device}\""));
        let text = text.replace("\"nvme1n1\"", &format!("\"{other}\""));
        let text = text.replace("/var/lib/trimtab/nvme0n1.safetensors", "disk.safetensors");
        text.replace("127.0.0.1:9753", "127.0.0.1:0")
    }

    /// Runs a command in its own directory.
    pub(crate) fn run(&self, command: &str, plan: &Plan) -> Outcome {
        let Plan::Run { needs, before, script, endless } = plan else {
            unreachable!("is not to run");
        };
        if let Some((feature, why)) = self.lacks(*needs, command) {
            return Outcome::Skipped(feature, why);
        }
        let place = tempfile::tempdir_in(self.directory.path()).expect("a temporary directory");
        self.furnish(place.path());
        let makes_its_own = command.contains("drive create") || command.contains("trimtab array");
        let with_drive = *needs == Needs::Drives && !makes_its_own;
        let slow = match self.make_drive(place.path(), with_drive) {
            Ok(slow) => slow,
            Err(why) => return Outcome::Failed(why),
        };
        let prepared = self.shell(place.path(), &before.replace("@slow", &slow), TOO_LONG);
        let mut script = script.replace("@slow", &slow);
        if let Ok((_, disks)) = &self.disks {
            script = script.replace("@disk", disks[0].name()).replace("@other", disks[1].name());
        }
        let end = if *endless { ENOUGH } else { TOO_LONG };
        let output = match (prepared.status.success(), needs) {
            (false, _) => prepared,
            // With a private BPF file system for pins.
            (true, Needs::Ebpf) => {
                let script = format!("mount -t bpf bpf /sys/fs/bpf && {script}");
                self.run_as(Command::new("unshare").arg("-m"), place.path(), &script, end)
            }
            (true, _) => self.shell(place.path(), &script, end),
        };
        if *needs == Needs::Drives {
            self.shell(
                place.path(),
                "umount -l mnt 2>/dev/null; trimtab array stop --all --force; \
                 trimtab drive remove --all --force",
                Duration::from_secs(60),
            );
        }
        check_output(&output, *endless)
    }

    /// Checks that the options of a command that does not run exist: those before `--help` are
    /// checked first.
    pub(crate) fn parses(&self, command: &str) -> Result<(), String> {
        let Some((_, options)) = command.split_once("trimtab ") else { return Ok(()) };
        if !command.trim_start_matches("sudo ").starts_with("trimtab ") {
            return Ok(());
        }
        // What follows `--` are options of another program.
        let own = options.split(" -- ").next().unwrap_or(options);
        let output = self.shell(
            self.directory.path(),
            &format!("trimtab {own} --help"),
            Duration::from_secs(20),
        );
        if output.status.success() { Ok(()) } else { Err(said(&output)) }
    }

    fn lacks(&self, needs: Needs, command: &str) -> Option<(Feature, String)> {
        let programs = ["fio", "jq"].into_iter();
        let programs = programs.filter(|program| command.contains(&format!("{program} ")));
        let mut features: Vec<_> = programs.map(Feature::Program).collect();
        if command.contains("compare-cloudphysics") {
            features.push(Feature::Traces);
        }
        let missing = |feature| Some((feature, testdisk::missing(&[feature])?));
        let lacking = match needs {
            Needs::Nothing => None,
            Needs::Drives => self.no_drives.as_ref().map(|why| (Feature::Fuse, why.clone())),
            Needs::Ebpf => self.disks.as_ref().err().map(|why| (Feature::Bpf, why.clone())),
        };
        features.into_iter().find_map(missing).or(lacking)
    }

    /// Copies the inputs, and the files of the source tree that commands name.
    fn furnish(&self, place: &Path) {
        for entry in fs::read_dir(self.path("inputs")).unwrap().flatten() {
            fs::copy(entry.path(), place.join(entry.file_name())).unwrap();
        }
        for folder in ["scripts", "include", "dist"] {
            symlink(root().join(folder), place.join(folder)).unwrap();
        }
        for folder in ["examples", "mnt", "local"] {
            fs::create_dir(place.join(folder)).unwrap();
        }
        furnish_examples(&root().join("examples"), &place.join("examples"));
    }

    /// The drive that pages call `slow`, but small. Returns its device.
    fn make_drive(&self, place: &Path, is_wanted: bool) -> Result<String, String> {
        if !is_wanted {
            return Ok(String::new());
        }
        fs::write(place.join("drive.toml"), emulated::SMALL).unwrap();
        let create = "trimtab drive create slow --profile drive.toml --size 64M --lead 0us";
        let output = self.shell(place, create, TOO_LONG);
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(said(&output)),
        }
    }

    fn shell(&self, place: &Path, script: &str, end: Duration) -> Output {
        self.run_as(&mut Command::new("env"), place, script, end)
    }

    /// Runs a script by a command that takes another one as its arguments, with Ctrl-C after
    /// `end`.
    fn run_as(&self, command: &mut Command, place: &Path, script: &str, end: Duration) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .args(["timeout", "--preserve-status", "-s", "INT", "-k", "20"])
            .arg(end.as_secs().to_string())
            .args(["sh", "-c", script])
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("TRIMTAB_RUN", place.join("run"))
            .current_dir(place)
            .stdin(Stdio::null())
            .output()
            .expect("env, unshare and timeout run")
    }
}

/// Reads across a disk, until it is dropped.
fn load(disk: &LoopDisk) -> Running {
    let job = ["--name=load", "--direct=1", "--bs=4k", "--rw=randread", "--rate_iops=500"];
    let time = ["--time_based", "--runtime=600", "--thinktime_blocks=1", "--thread"];
    let file = format!("--filename={}", disk.path);
    let child = Command::new("fio").args(job).args(time).arg(file).stdout(Stdio::null()).spawn();
    Running(child.expect("fio runs"))
}

/// Provides the example files: scenarios shortened, all others as links.
fn furnish_examples(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() && SCENARIO_FOLDERS.iter().any(|folder| from.ends_with(folder)) {
            fs::create_dir(&to).unwrap();
            furnish_examples(&from, &to);
        } else if from.extension().is_some_and(|extension| extension == "toml") {
            fs::write(to, shorter(&from, &fs::read_to_string(&from).unwrap())).unwrap();
        } else {
            symlink(from, to).unwrap();
        }
    }
}

/// A scenario that takes a second or two.
fn shorter(path: &Path, scenario: &str) -> String {
    let name = path.file_name().unwrap().to_string_lossy();
    let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy();
    let lines = match (&*folder, name.split_once('-')) {
        ("array", _) => ARRAY_LINES,
        ("mittos", _) => COMPARISON_LINES,
        (_, Some(("compare", _))) if scenario.contains("trace = ") => REPLAY_LINES,
        (_, Some(("compare", _))) => COMPARISON_LINES,
        (_, Some(("sim", _))) => SIMULATION_LINES,
        _ => &[],
    };
    let line = |line: &str| {
        let short = lines.iter().find(|(begin, _)| line.starts_with(begin));
        short.map_or(line, |(_, short)| short).to_owned() + "\n"
    };
    scenario.lines().map(line).collect()
}

fn check_output(output: &Output, endless: bool) -> Outcome {
    let said = said(output);
    match output.status.code() {
        Some(0) => Outcome::Done,
        // Some kernels hide completions from BPF programs; in a short recording these exceed a
        // few in a million at once.
        Some(3) if said.contains("that no BPF program saw") => Outcome::Done,
        // Ended by Ctrl-C.
        Some(130) if endless => Outcome::Done,
        // The kernel hid completions from the recorder.
        Some(3) if said.contains("not seen to complete") => Outcome::Done,
        code => Outcome::Failed(format!("exit code {code:?}: {said}")),
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let from = text.len().saturating_sub(600);
    text.get(from..).unwrap_or(&text).trim().replace('\n', " / ")
}
