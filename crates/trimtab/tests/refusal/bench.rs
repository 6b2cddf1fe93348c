//! A file system on a drive, a file with known content, and programs that read it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trimtab_testdisk::{self as disk, Feature, LoopDisk};

/// One at a time: tests look at the control groups that are left.
static ALONE: Mutex<()> = Mutex::new(());

const NEEDED: &[Feature] = &[
    Feature::Root,
    Feature::Bpf,
    Feature::Loop,
    Feature::Mount,
    Feature::Program("cc"),
    Feature::Program("fio"),
    Feature::Program("mkfs.ext4"),
];

/// The mounted drive. Unmounted when dropped.
pub(crate) struct Bench {
    mounted: PathBuf,
    program: PathBuf,
    _disk: LoopDisk,
    _directory: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    /// `None`: the test is skipped.
    #[track_caller]
    pub(crate) fn make() -> Option<Self> {
        if !disk::requires(NEEDED) {
            return None;
        }
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = trimtab(&["--deadline", "2ms"], "/nowhere/*", &["true"]);
        if tried.code != Some(0) {
            disk::skip(Feature::BpfLsm, tried.errors.trim());
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("reader");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/refusal/reader.c");
        disk::run("cc", &["-O1", "-o", program.to_str().unwrap(), source]);
        let device = LoopDisk::new(64);
        disk::run("mkfs.ext4", &["-q", "-F", &device.path]);
        let mounted = directory.path().join("mounted");
        fs::create_dir(&mounted).unwrap();
        disk::run("mount", &[&device.path, mounted.to_str().unwrap()]);
        let data: Vec<u8> =
            (0..256_u64).flat_map(|number| number.to_ne_bytes().repeat(512)).collect();
        fs::write(mounted.join("data"), data).unwrap();
        disk::run("sync", &[]);
        Some(Self { mounted, program, _disk: device, _directory: directory, _alone: alone })
    }

    /// The path of a file on the drive.
    pub(crate) fn path(&self, name: &str) -> String {
        self.mounted.join(name).to_str().unwrap().to_owned()
    }

    /// A pattern of the file with known content.
    pub(crate) fn glob(&self) -> String {
        self.path("d[a-c]t?")
    }

    /// The reader's program file.
    pub(crate) fn program(&self) -> String {
        self.program.to_str().unwrap().to_owned()
    }

    /// The reader, for a file on the drive; 0 reads: until it is terminated.
    pub(crate) fn reader(&self, method: &str, name: &str, reads: u32) -> [String; 4] {
        [self.program(), method.to_owned(), self.path(name), reads.to_string()]
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, options: &[&str], files: &str, program: &[String]) -> Ended {
        Ended::of(self.start(options, files, program))
    }

    /// Starts a program.
    pub(crate) fn start(&self, options: &[&str], files: &str, program: &[String]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.arg("run").args(options).args(["--json", "--files", files, "--"]).args(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("trimtab runs")
    }

    /// The directory of the group of a running command, and its program.
    pub(crate) fn wait_for_group(&self, running: &Child) -> (String, u32) {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            for group in groups() {
                let processes = fs::read_to_string(format!("{group}/cgroup.procs"));
                if group.ends_with(&format!("-{}", running.id()))
                    && let Some(Ok(process)) =
                        processes.unwrap_or_default().lines().next().map(str::parse)
                {
                    return (group, process);
                }
            }
            assert!(Instant::now() < until, "the program does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        _ = Command::new("umount").arg(&self.mounted).status();
    }
}

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Ended {
    pub(crate) fn of(child: Child) -> Self {
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            output: text(output.stdout),
            errors: text(output.stderr),
        }
    }

    /// A figure of the summary.
    #[track_caller]
    pub(crate) fn count(&self, name: &str) -> u64 {
        let line = self.errors.lines().find(|line| line.starts_with('{'));
        let line = line.unwrap_or_else(|| panic!("no summary: {}", self.errors));
        let summary: serde_json::Value = serde_json::from_str(line).unwrap();
        summary[name].as_u64().unwrap_or_else(|| panic!("no {name}: {line}"))
    }

    /// The reader's figures.
    #[track_caller]
    pub(crate) fn reader(&self) -> [u64; 4] {
        counts(self.output.as_bytes())
    }
}

/// Of the reader's reads: good, refused, with wrong content, failed otherwise.
#[track_caller]
pub(crate) fn counts(output: &[u8]) -> [u64; 4] {
    let output = String::from_utf8_lossy(output);
    let numbers: Vec<_> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("the reader says: {output}"))
}

/// Runs the command without a drive.
pub(crate) fn trimtab(options: &[&str], files: &str, program: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.arg("run").args(options).args(["--files", files, "--"]).args(program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ended::of(command.spawn().expect("trimtab runs"))
}

/// The groups that are there, of any run.
pub(crate) fn groups() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let at = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2")).unwrap();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
    let directory = Path::new(at.split(' ').nth(1).unwrap()).join(own);
    let entries = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    let groups = entries.filter(|path| path.to_string_lossy().contains("/trimtab-run-"));
    groups.map(|path| path.to_str().unwrap().to_owned()).collect()
}

/// Sends a signal.
pub(crate) fn signal(process: u32, name: &str) {
    disk::run("sh", &["-c", &format!("kill -{name} {process}")]);
}

/// Ends the program of a running command: SIGTERM is passed on to it.
pub(crate) fn terminate(running: &Child) {
    signal(running.id(), "TERM");
}
