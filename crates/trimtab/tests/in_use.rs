//! Devices and files in use are not written to, under any name: `compare --live --files` with
//! `--i-know-this-destroys-data`, `drive create --file`, and outputs.

mod emulated;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use emulated::{Bench, Mounted, stderr};
use trimtab_testdisk::{self as testdisk, LoopDisk};

const SCENARIO: &str = "seeds = [7]
strategies = ['base']
phase_one = { duration_s = 1 }
phase_two = { duration_s = 1 }
gap_s = 0.1
[workload]
read_share = 0.2
offsets = { kind = 'uniform' }
sizes = [{ bytes = 4096, weight = 1 }]
arrivals = { kind = 'poisson', iops = 2000 }
[[device]]
profile = 'small.toml'
capacity = '128M'
[[device]]
profile = 'small.toml'
capacity = '128M'
";

const EXT4: [&str; 4] = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

/// Held for writing while a mount namespace is made and lives. It has a copy of each mount of the
/// machine, which keeps a file system that another test has unmounted in use: it writes to its
/// device when the namespace ends.
static NAMESPACE: RwLock<()> = RwLock::new(());

/// A bench with no mount namespace beside it.
struct Undisturbed {
    bench: Bench,
    _no_namespace: RwLockReadGuard<'static, ()>,
}

impl Deref for Undisturbed {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

fn bench(programs: &[&'static str]) -> Option<Undisturbed> {
    let no_namespace = NAMESPACE.read().unwrap_or_else(PoisonError::into_inner);
    Some(Undisturbed { bench: prepared(programs)?, _no_namespace: no_namespace })
}

fn prepared(programs: &[&'static str]) -> Option<Bench> {
    let bench = Bench::new(&[&["losetup", "mkfs.ext4", "fsck.ext4"], programs].concat())?;
    fs::write(bench.path("s.toml"), SCENARIO).unwrap();
    File::create(bench.path("other")).unwrap().set_len(32 << 20).unwrap();
    Some(bench)
}

fn compare(bench: &Bench, files: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    command.env("TRIMTAB_RUN", bench.path("")).current_dir(bench.path(""));
    command.args(["compare", "s.toml", "--live", "--i-know-this-destroys-data", "--files"]);
    command.arg(files.join(",")).output().unwrap()
}

/// Expects a refusal whose reason contains all of these words.
fn assert_refused(output: &Output, reason: &[&str]) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(reason.iter().all(|word| said.contains(word)), "{reason:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
}

/// A comparison that would write to it is refused for this reason, and has written nothing:
/// `disk` holds its bytes.
fn assert_unharmed(bench: &Bench, disk: &Path, named: &str, reason: &[&str]) {
    assert_beginning_unharmed(usize::MAX, bench, disk, named, reason);
}

/// The same of so many bytes at its beginning.
fn assert_beginning_unharmed(
    bytes: usize,
    bench: &Bench,
    disk: &Path,
    named: &str,
    reason: &[&str],
) {
    let content = || {
        rustix::fs::sync();
        let mut content = fs::read(disk).unwrap();
        content.truncate(bytes);
        content
    };
    let before = content();
    assert_refused(&compare(bench, &[named, "other"]), &[&[named], reason].concat());
    // In any order.
    assert_refused(&compare(bench, &["other", named]), reason);
    assert!(content() == before, "{named}: was written to");
}

/// Makes ext4 on a device, and writes a file to it.
fn file_system(device: &str, at: PathBuf) -> Mounted {
    testdisk::run("mkfs.ext4", &[&EXT4[..], &[device]].concat());
    let mounted = Mounted::new(device, at);
    for number in 0..64_u8 {
        fs::write(mounted.path().join(format!("file-{number}")), vec![number; 100_000]).unwrap();
    }
    mounted
}

/// Unmounts it, and checks it.
fn check(mounted: Mounted, device: &str) {
    for number in 0..64_u8 {
        let content = fs::read(mounted.path().join(format!("file-{number}"))).unwrap();
        assert!(content == vec![number; 100_000], "file-{number}");
    }
    mounted.unmount();
    testdisk::run("fsck.ext4", &["-f", "-n", device]);
}

/// Detached when dropped.
struct Loop(String);

impl Loop {
    fn over(path: &str) -> Self {
        let output = Command::new("losetup").args(["--find", "--show", path]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }

    fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        testdisk::run("losetup", &["--detach", &self.0]);
    }
}

/// Active swap until dropped.
struct Swap(String);

/// The page that mkswap writes. To the others the kernel may swap while it is active.
const SWAP_HEADER: usize = 4096;

impl Swap {
    /// `None` if the kernel cannot swap to it.
    fn on(path: &str) -> Option<Self> {
        testdisk::run("mkswap", &[path]);
        let output = Command::new("swapon").arg(path).output().unwrap();
        if output.status.success() {
            return Some(Self(path.to_owned()));
        }
        testdisk::skip(testdisk::Feature::Kernel, stderr(&output).trim());
        None
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        testdisk::run("swapoff", &[&self.0]);
    }
}

#[test]
fn mounted_device_is_refused_under_any_name() {
    let Some(bench) = bench(&["mknod"]) else { return };
    let disk = LoopDisk::new(32);
    let mounted = file_system(&disk.path, bench.path("mounted here"));
    let at = bench.path("mounted here");
    let reason = ["is mounted at", at.to_str().unwrap(), "(ext4): unmount it first"];
    assert_unharmed(&bench, &disk.file, &disk.path, &reason);
    // A link to a link.
    symlink(&disk.path, bench.path("first")).unwrap();
    symlink("first", bench.path("second")).unwrap();
    assert_unharmed(&bench, &disk.file, "second", &reason);
    // Another node of the device.
    let number = fs::metadata(&disk.path).unwrap().rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let node = bench.path("node");
    let numbers = [major.to_string(), minor.to_string()];
    testdisk::run("mknod", &[node.to_str().unwrap(), "b", &numbers[0], &numbers[1]]);
    assert_unharmed(&bench, &disk.file, "node", &reason);
    check(mounted, &disk.path);
}

#[test]
fn back_end_of_a_loop_device_is_refused() {
    let Some(bench) = bench(&[]) else { return };
    let disk = LoopDisk::new(32);
    let mounted = file_system(&disk.path, bench.path("mounted"));
    let reason = ["is behind", &*disk.path];
    assert_unharmed(&bench, &disk.file, disk.file.to_str().unwrap(), &reason);
    let linked = disk.beside("linked");
    fs::hard_link(&disk.file, &linked).unwrap();
    assert_unharmed(&bench, &disk.file, &linked, &reason);
    // Another device over the same file leads to the same file system.
    let second = Loop::over(&linked);
    assert_unharmed(
        &bench,
        &disk.file,
        &second.0,
        &["is a loop device over", reason[0], reason[1]],
    );
    // So does one over the device.
    let above = Loop::over(&disk.path);
    let mounted_below = ["is a loop device over", disk.name(), "which is mounted at"];
    assert_unharmed(&bench, &disk.file, &above.0, &mounted_below);
    check(mounted, &disk.path);
    let above_it = ["is behind", above.name()];
    assert_unharmed(&bench, &disk.file, &disk.path, &above_it);
}

#[test]
fn active_swap_is_refused() {
    let Some(bench) = bench(&["mkswap", "swapon", "swapoff"]) else { return };
    let disk = LoopDisk::new(32);
    if let Some(_swap) = Swap::on(&disk.path) {
        symlink(&disk.path, bench.path("link")).unwrap();
        let reason = ["is active swap: swapoff it first"];
        assert_beginning_unharmed(SWAP_HEADER, &bench, &disk.file, &disk.path, &reason);
        assert_beginning_unharmed(SWAP_HEADER, &bench, &disk.file, "link", &reason);
    }
    let file = bench.path("swap");
    fs::write(&file, vec![0; 16 << 20]).unwrap();
    testdisk::run("chmod", &["600", file.to_str().unwrap()]);
    fs::hard_link(&file, bench.path("linked")).unwrap();
    if let Some(_swap) = Swap::on(file.to_str().unwrap()) {
        let reason = ["is active swap: swapoff it first"];
        assert_beginning_unharmed(SWAP_HEADER, &bench, &file, "swap", &reason);
        assert_beginning_unharmed(SWAP_HEADER, &bench, &file, "linked", &reason);
    }
}

#[test]
fn emulated_drive_and_its_content_are_refused() {
    let Some(bench) = bench(&[]) else { return };
    let args = ["--size", "64M", "--data", "file", "--file", "content"];
    let device = bench.create("kept", &args);
    let content = bench.path("content");
    let mounted = file_system(&device, bench.path("mounted"));
    fs::hard_link(&content, bench.path("linked")).unwrap();
    let holds = ["holds the content of the emulated drive `kept` (process "];
    assert_unharmed(&bench, &content, "content", &holds);
    assert_unharmed(&bench, &content, "linked", &holds);
    assert_unharmed(&bench, &content, &device, &["is mounted at"]);
    check(mounted, &device);
    assert_unharmed(&bench, &content, &device, &["is the emulated drive `kept` (process "]);
    // It is detected from other run directories too.
    let elsewhere = prepared(&[]).unwrap();
    assert_unharmed(&elsewhere, &content, &device, &["is the emulated drive `kept` (process "]);
    bench.remove_all();
}

#[test]
fn disk_and_its_partitions_conflict() {
    let Some(bench) = bench(&[]) else { return };
    let disk = LoopDisk::new(64);
    disk.add_partition(1, 1 << 20, 40 << 20).unwrap();
    disk.add_partition(2, 42 << 20, 20 << 20).unwrap();
    let [first, second] = [1, 2].map(|number| format!("{}p{number}", disk.path));
    let mounted = file_system(&first, bench.path("mounted"));
    let name = first.rsplit('/').next().unwrap();
    let reason = ["has the partition", name, "which is mounted at"];
    assert_unharmed(&bench, &disk.file, &disk.path, &reason);
    assert_unharmed(&bench, &disk.file, &first, &["is mounted at"]);
    check(mounted, &first);
    let mounted = file_system(&disk.path, bench.path("mounted"));
    let reason = ["is a partition of", disk.name(), "which is mounted at"];
    assert_unharmed(&bench, &disk.file, &second, &reason);
    check(mounted, &disk.path);
}

/// A process that has a device mounted in a private namespace.
struct Hidden(Child);

impl Hidden {
    fn mount(device: &str, at: &Path) -> Self {
        fs::create_dir_all(at).unwrap();
        let script = r#"mount "$0" "$1" && echo ready && read -r _"#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script, device]);
        let mut child =
            command.arg(at).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn mount_in_another_namespace_is_found() {
    let _alone = NAMESPACE.write().unwrap_or_else(PoisonError::into_inner);
    let Some(bench) = prepared(&["unshare"]) else { return };
    let disk = LoopDisk::new(32);
    let at = bench.path("mounted");
    let mounted = file_system(&disk.path, at.clone());
    mounted.unmount();
    let hidden = Hidden::mount(&disk.path, &at);
    let namespace = format!("(ext4) in process {}'s namespace: unmount it first", hidden.0.id());
    let reason = ["is mounted at", at.to_str().unwrap(), &namespace];
    assert_unharmed(&bench, &disk.file, &disk.path, &reason);
    drop(hidden);
    check(Mounted::new(&disk.path, at), &disk.path);
}

#[test]
fn same_device_twice_is_refused() {
    let Some(bench) = bench(&[]) else { return };
    symlink("other", bench.path("link")).unwrap();
    fs::hard_link(bench.path("other"), bench.path("linked")).unwrap();
    let same = |name: &str| assert_refused(&compare(&bench, &["other", name]), &["is the same as"]);
    ["other", "./other", "link", "linked"].into_iter().for_each(same);
    let disk = LoopDisk::new(64);
    disk.add_partition(1, 1 << 20, 40 << 20).unwrap();
    let first = format!("{}p1", disk.path);
    let both = compare(&bench, &[&disk.path, &first]);
    assert_refused(&both, &[&first, "is on the same disk as", &disk.path]);
}

#[test]
fn content_file_in_use_is_refused() {
    let Some(bench) = bench(&[]) else { return };
    bench.create("kept", &["--size", "64M", "--data", "file", "--file", "content"]);
    bench.done(&["remove", "kept"]);
    let content = bench.path("content");
    fs::hard_link(&content, bench.path("linked")).unwrap();
    let above = Loop::over(content.to_str().unwrap());
    let mounted = file_system(&above.0, bench.path("mounted"));
    let create = |file| {
        let args = ["create", "kept", "--profile", "small.toml", "--size", "64M"];
        [&args[..], &["--data", "file", "--file", file]].concat()
    };
    bench.fails(&create("content"), 2, &format!("is behind {}", above.0));
    bench.fails(&create("linked"), 2, &format!("is behind {}", above.0));
    check(mounted, &above.0);
    drop(above);
    // The remains of a killed drive do not block the use of files.
    bench.create("killed", &["--size", "64M"]);
    let pid = bench.stat("killed")["pid"].clone();
    let pid = pid.as_u64().or_else(|| server(&bench, "killed")).unwrap();
    testdisk::run("kill", &["-KILL", &pid.to_string()]);
    bench.done(&create("linked"));
    bench.fails(&create("content")[..], 2, "the drive already exists");
    bench.remove_all();
}

/// The process that serves a drive.
fn server(bench: &Bench, name: &str) -> Option<u64> {
    let info = fs::read(bench.path(&format!("drives/{name}/info.json"))).ok()?;
    serde_json::from_slice::<serde_json::Value>(&info).ok()?["pid"].as_u64()
}

#[test]
fn output_does_not_overwrite_a_device() {
    let Some(bench) = bench(&[]) else { return };
    let disk = LoopDisk::new(32);
    testdisk::run("mkfs.ext4", &[&EXT4[..], &[&*disk.path]].concat());
    let before = fs::read(&disk.file).unwrap();
    for output in ["--json", "--report"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
        command.current_dir(bench.path("")).args(["compare", "s.toml", output, &disk.path]);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{output:?}");
        assert!(stderr(&output).contains("is a block device"), "{}", stderr(&output));
    }
    rustix::fs::sync();
    assert!(fs::read(&disk.file).unwrap() == before);
}
