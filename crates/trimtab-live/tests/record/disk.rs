//! Real block devices for tests: loop devices over temporary files.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// A loop device, detached when dropped.
pub(crate) struct LoopDisk {
    pub(crate) path: String,
    pub(crate) file: PathBuf,
    /// Queue parameters and what they were: they outlive the attachment.
    changed: Mutex<Vec<(String, String)>>,
    _directory: tempfile::TempDir,
}

impl LoopDisk {
    /// A disk of this size over a sparse file.
    pub(crate) fn new(mib: u64) -> Self {
        // In memory where possible: no other disk then works at the same time.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a temporary directory");
        let file = directory.path().join("disk");
        File::create(&file).and_then(|f| f.set_len(mib << 20)).expect("a sparse file");
        let path = attach(&file, true);
        Self { path, file, changed: Mutex::default(), _directory: directory }
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().expect("a path")
    }

    /// Sets a queue parameter, `/sys/block/NAME/queue/WHAT`.
    pub(crate) fn set_queue(&self, what: &str, value: &str) {
        let path = format!("/sys/block/{}/queue/{what}", self.name());
        let before = fs::read_to_string(&path).expect("the parameter can be read");
        fs::write(&path, value).unwrap_or_else(|e| panic!("{path} = {value}: {e}"));
        // Of alternatives, the current one stands in brackets.
        let before = match before.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
            Some((current, _)) => current.to_owned(),
            None => before.trim().to_owned(),
        };
        self.changed.lock().unwrap().push((path, before));
    }

    /// Opens the disk for direct reading and writing.
    pub(crate) fn open_direct(&self) -> File {
        const O_DIRECT: i32 = 0o40000;
        OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_DIRECT)
            .open(&self.path)
            .expect("the disk opens")
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        for (path, before) in self.changed.lock().unwrap().iter().rev() {
            _ = fs::write(path, before);
        }
        _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

/// Attaches a file, and gives the device's path.
pub(crate) fn attach(file: &Path, direct: bool) -> String {
    let direct = if direct { "--direct-io=on" } else { "--direct-io=off" };
    let output = Command::new("losetup")
        .args(["--find", "--show", direct])
        .arg(file)
        .output()
        .expect("losetup runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a path").trim().to_owned()
}

/// A buffer that direct I/O accepts.
pub(crate) fn aligned(bytes: usize) -> Vec<u8> {
    // Large allocations are page-aligned but for the allocator's header, so
    // leave room to find the boundary in.
    vec![0x5a; bytes + 4096]
}

/// The aligned part of such a buffer.
pub(crate) fn window(buffer: &mut [u8], bytes: usize) -> &mut [u8] {
    let start = buffer.as_ptr().align_offset(4096);
    &mut buffer[start..start + bytes]
}

/// Runs a program, which must succeed.
pub(crate) fn run(program: &str, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
}

/// Tells the user something: past the test runner, which shows only what failed
/// tests print.
pub(crate) fn say(what: &str) {
    _ = writeln!(std::io::stderr(), "{what}");
}

/// What is missing to run these tests here, if anything.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("needs a kernel with BTF".to_owned());
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("needs loop devices".to_owned());
    }
    ["losetup", "fio", "blkdiscard"]
        .into_iter()
        .find(|tool| Command::new(tool).arg("--version").output().is_err())
        .map(|tool| format!("needs the program {tool}"))
}
