//! The library, used from C programs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use trimtab_block::BlockDevice;
use trimtab_predict::{Model, card_path};
use trimtab_testdisk::{self as disk, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

mod programs;
#[path = "../../trimtab-read/tests/models/mod.rs"]
mod reading;
use programs::{LIBRARIES, ROOT, compile, run, stderr};

fn content() -> Vec<u8> {
    (0..400 * 4096 + 77_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A model that predicts every read late, and its file in this directory.
fn late_model(directory: &Path) -> (Model, PathBuf) {
    let late = reading::stubborn(true);
    let (tensors, card) = late.to_files().unwrap();
    let model = directory.join("late.safetensors");
    fs::write(&model, tensors).unwrap();
    fs::write(card_path(&model), card).unwrap();
    (late, model)
}

#[test]
fn example_copies_plain_files() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("failover");
    let source = Path::new(ROOT).join("examples/c/failover.c");
    let Some(()) = compile(&source, &program) else { return };
    let files = ["a", "b", "c"].map(|name| directory.path().join(name));
    files.iter().for_each(|file| fs::write(file, content()).unwrap());
    let args = files.each_ref().map(|file| file.as_os_str());
    let output = run(&program, &args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout == content());
    assert!(stderr(&output).contains("replica 0: 0 refused, 402 read"), "{}", stderr(&output));
    // No process has files in the run directory any more.
    assert_eq!(fs::read_dir(directory.path().join("run/readers")).unwrap().count(), 0);
    if let Ok(full) = fs::File::options().write(true).open("/dev/full") {
        let mut command = Command::new(&program);
        command.args(args).env("LD_LIBRARY_PATH", &*LIBRARIES).stdout(full);
        let output = command.env("TRIMTAB_RUN", directory.path().join("run")).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("cannot write"), "{}", stderr(&output));
    }
    let [a, b, c] = args;
    let wrong = run(&program, &[a, b, c, OsStr::new(""), OsStr::new(""), OsStr::new("5ms")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("WITHIN_US is 5ms"), "{}", stderr(&wrong));
    let output = run(&program, &[args[0], args[1], OsStr::new("/nowhere/file")]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("cannot open /nowhere/file for reading: No such file"), "{said}");
}

/// A disk without readahead: an admitted read loads no other page into the cache.
struct NothingAhead {
    file: String,
    before: String,
}

impl NothingAhead {
    fn of(disk: &LoopDisk) -> Self {
        let file = format!("/sys/block/{}/queue/read_ahead_kb", disk.name());
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, "0").unwrap();
        Self { file, before }
    }
}

impl Drop for NothingAhead {
    fn drop(&mut self) {
        // The setting stays with the device for its next user.
        _ = fs::write(&self.file, &self.before);
    }
}

#[test]
fn example_fails_over_between_drives() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("failover");
    let source = Path::new(ROOT).join("examples/c/failover.c");
    let Some(()) = compile(&source, &program) else { return };
    // Only the last drive is read, except for probes and reads over the ceiling.
    let (late, model) = late_model(directory.path());

    let disks = [(); 3].map(|()| LoopDisk::new(2));
    let _nothing_ahead = disks.each_ref().map(NothingAhead::of);
    let content = content();
    for disk in &disks {
        fs::write(&disk.path, &content).unwrap();
        let file = fs::File::open(&disk.path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    let devices = disks.each_ref().map(|disk| BlockDevice::find(&disk.path).unwrap());
    let functions = vec![late.trained.functions().to_vec(); 3];
    let mut tracker =
        StateTracker::load(&devices, &TrackerOptions { functions, ..TrackerOptions::default() })
            .unwrap();
    disk::with_bpf_files(0o700, |files| {
        let pins = files.join("trimtab");
        tracker.pin(&pins).unwrap();
        fails_over(&program, &disks, &content, &model, &pins);
        last_replica_fails(&program, &disks, &content, &model, &pins);
        drop(tracker);
    });
}

/// The example copies a drive, and reads next to nothing from the first two.
fn fails_over(program: &Path, disks: &[LoopDisk; 3], content: &[u8], model: &Path, pins: &Path) {
    let paths = disks.each_ref().map(|disk| OsStr::from_bytes(disk.path.as_bytes()));
    // Refused if the model predicts late, which it always does.
    let within = OsStr::new("0");
    let args = [paths[0], paths[1], paths[2], model.as_os_str(), pins.as_os_str(), within];
    let output = run(program, &args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(output.stdout.len(), 2 << 20, "{}", stderr(&output));
    assert!(output.stdout[..content.len()] == *content);
    let said = stderr(&output);
    let refused = |replica: usize| -> u64 {
        let line = said.lines().nth(replica).unwrap();
        let number = line.split_whitespace().nth(2).unwrap();
        number.parse().unwrap()
    };
    assert!(refused(0) > 200 && refused(1) > 200 && refused(2) == 0, "{said}");
}

/// A last replica that fails does not lose the data of the busy ones.
fn last_replica_fails(
    program: &Path,
    disks: &[LoopDisk; 3],
    content: &[u8],
    model: &Path,
    pins: &Path,
) {
    let [first, second, _] = disks.each_ref().map(|disk| OsStr::from_bytes(disk.path.as_bytes()));
    // Reading its beginning is an I/O error.
    let broken = OsStr::new("/proc/self/mem");
    let within = OsStr::new("0");
    let args = [first, second, broken, model.as_os_str(), pins.as_os_str(), within];
    let output = run(program, &args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout[..content.len()] == *content);
}

#[test]
fn errors_are_errno_and_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("wrong.c"), directory.path().join("wrong"));
    fs::write(&source, include_str!("wrong.c")).unwrap();
    let Some(()) = compile(&source, &program) else { return };
    let output = run(&program, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn mapped_pages_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("mapped.c"), directory.path().join("mapped"));
    fs::write(&source, include_str!("mapped.c")).unwrap();
    let Some(()) = compile(&source, &program) else { return };
    let output = run(&program, &[directory.path().join("file").as_os_str()]);
    if output.status.code() == Some(77) {
        return disk::skip(disk::Feature::Kernel, "pages of temporary files cannot be evicted");
    }
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn options_take_effect() {
    if !disk::requires(disk::REAL_DISKS) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("options.c"), directory.path().join("options"));
    fs::write(&source, include_str!("options.c")).unwrap();
    let Some(()) = compile(&source, &program) else { return };
    let (late, model) = late_model(directory.path());
    let disk = LoopDisk::new(2);
    let device = BlockDevice::find(&disk.path).unwrap();
    let functions = vec![late.trained.functions().to_vec()];
    let keeping = TrackerOptions { functions, ..TrackerOptions::default() };
    let mut tracker = StateTracker::load(&[device], &keeping).unwrap();
    disk::with_bpf_files(0o700, |files| {
        let pins = files.join("trimtab");
        tracker.pin(&pins).unwrap();
        let args = [OsStr::new(&disk.path), model.as_os_str(), pins.as_os_str()];
        let output = run(&program, &args);
        assert!(output.status.success(), "{}", stderr(&output));
        drop(tracker);
    });
}

/// Files for set.c, and for the example.
fn replicas(directory: &Path) {
    for name in ["a", "b"] {
        fs::write(directory.join(name), content()).unwrap();
    }
    fs::write(directory.join("longer"), [content(), vec![0; 10]].concat()).unwrap();
    fs::hard_link(directory.join("a"), directory.join("linked")).unwrap();
}

#[test]
fn sets_of_replicas_are_read_and_wrong_ones_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("set.c"), directory.path().join("set"));
    fs::write(&source, include_str!("set.c")).unwrap();
    let Some(()) = compile(&source, &program) else { return };
    replicas(directory.path());
    let output = run(&program, &[directory.path().as_os_str()]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn example_copies_from_a_set() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("replicas");
    let Some(()) = compile(&Path::new(ROOT).join("examples/c/replicas.c"), &program) else {
        return;
    };
    replicas(directory.path());
    let path = |name: &str| directory.path().join(name);
    let output = run(&program, &[path("a").as_os_str(), path("b").as_os_str()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout == content());
    let said = stderr(&output);
    assert!(said.contains("402 reads") && said.contains("replica 1: "), "{said}");
    let output = run(&program, &[path("a").as_os_str(), path("missing").as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("replica 1: cannot open"), "{}", stderr(&output));
    let output = run(&program, &[OsStr::new("-d"), OsStr::new("5ms")]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// The header also compiles as C++, if there is a compiler.
#[test]
fn header_compiles_as_cpp() {
    let header = Path::new(ROOT).join("include/trimtab.h");
    let args = ["-x", "c++", "-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
    if disk::requires(&[disk::Feature::Program("c++")]) {
        let output = Command::new("c++").args(args).arg(header).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
}

#[test]
fn only_the_interface_is_exported() {
    if !disk::requires(&[disk::Feature::Program("nm")]) {
        return;
    }
    let library = LIBRARIES.join("libtrimtab.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    names.sort_unstable();
    let header = fs::read_to_string(Path::new(ROOT).join("include/trimtab.h")).unwrap();
    assert_eq!(names.len(), 21, "{names:?}");
    for name in names {
        assert!(name.starts_with("trimtab_") && header.contains(&format!("{name}(")), "{name}");
    }
}
