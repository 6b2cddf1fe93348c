//! Requirements of tests: real block devices, which are loop devices over temporary files, and
//! [`requires`], which skips a test if the machine lacks a feature.
//!
//! Failures panic, and so fail the test.

mod feature;
mod partition;
mod skip;
pub mod stack;

pub use feature::Feature;
pub use skip::{missing, requires, skip};

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// What tests on real disks need: [`LoopDisk`]s with BPF programs that look at them, and load.
pub const REAL_DISKS: &[Feature] = &[
    Feature::Root,
    Feature::Bpf,
    Feature::Loop,
    Feature::Program("fio"),
    Feature::Program("blkdiscard"),
];

/// A loop device. Detached when dropped.
pub struct LoopDisk {
    /// Path of the device, `/dev/loop…`.
    pub path: String,
    /// The backing file.
    pub file: PathBuf,
    /// Changed queue parameters with their old values: they outlive the attachment.
    changed: Mutex<Vec<(String, String)>>,
    open: File,
    _directory: tempfile::TempDir,
}

impl LoopDisk {
    /// A disk of this size over a sparse file.
    #[must_use]
    pub fn new(mib: u64) -> Self {
        // In memory where possible: then no other disk is involved.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = directory.expect("a temporary directory");
        let file = directory.path().join("disk");
        File::create(&file).and_then(|f| f.set_len(mib << 20)).expect("a sparse file");
        let (path, open) = attach(&file);
        let disk = Self { path, file, changed: Mutex::default(), open, _directory: directory };
        // Partitions of a killed test.
        disk.remove_partitions();
        disk
    }

    /// Detaches the file, and attaches it again under the same name: a new device for the kernel.
    /// False if another process has taken the name meanwhile; this disk must not be used then.
    pub fn attach_anew(&mut self) -> bool {
        // The device is detached at its last close, which is this.
        self.open = File::open("/dev/null").expect("it is there");
        let name = self.name().to_owned();
        for _ in 0..500 {
            if !Path::new(&format!("/sys/block/{name}/loop/backing_file")).exists() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let file = self.file.to_str().expect("a temporary file's name");
        let attached = Command::new("losetup").args([&self.path, file]).output();
        if !attached.expect("losetup runs").status.success() {
            return false;
        }
        self.open = File::open(&self.path).expect("the disk opens");
        self.open.lock().expect("no process holds the lock for long");
        // As in `attach`.
        run("losetup", &["--detach", &self.path]);
        true
    }

    /// Whether direct I/O reaches the file, past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        let dio = format!("/sys/block/{}/loop/dio", self.name());
        fs::read_to_string(dio).is_ok_and(|dio| dio.trim() == "1")
    }

    /// The kernel's name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().expect("a path")
    }

    /// Path of a file in the disk's directory, removed with it.
    #[must_use]
    pub fn beside(&self, name: &str) -> String {
        self.file.with_file_name(name).to_str().expect("a temporary file's name").to_owned()
    }

    /// Sets a queue parameter, `/sys/block/NAME/queue/WHAT`.
    pub fn set_queue(&self, what: &str, value: &str) {
        let path = format!("/sys/block/{}/queue/{what}", self.name());
        let before = fs::read_to_string(&path).expect("the parameter can be read");
        fs::write(&path, value).unwrap_or_else(|e| panic!("{path} = {value}: {e}"));
        // The current one of several values is in brackets.
        let before = match before.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
            Some((current, _)) => current.to_owned(),
            None => before.trim().to_owned(),
        };
        self.changed.lock().unwrap().push((path, before));
    }

    /// Opens the disk for direct reading and writing.
    #[must_use]
    pub fn open_direct(&self) -> File {
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
        self.remove_partitions();
    }
}

/// Attaches a file, with direct I/O if its file system supports it, and returns the device's path.
/// The device is detached at its last close, however this process ends.
fn attach(file: &Path) -> (String, File) {
    let losetup = |args: &[&str]| {
        let output = Command::new("losetup").args(args).output().expect("losetup runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let path = String::from_utf8(output.stdout).expect("a path").trim().to_owned();
        if output.status.success() { Ok(path) } else { Err(error) }
    };
    let file = file.to_str().expect("a temporary file's name");
    let path = losetup(&["--find", "--show", "--direct-io=on", file])
        .or_else(|_| losetup(&["--find", "--show", file]))
        .unwrap_or_else(|error| panic!("{error}"));
    let open = File::open(&path).expect("the disk opens");
    // Otherwise udev would read it after changes, and these reads would be counted.
    open.lock().expect("no process holds the lock for long");
    // For a device in use this only schedules the detach at its last close.
    losetup(&["--detach", &path]).unwrap_or_else(|error| panic!("{error}"));
    (path, open)
}

/// A buffer that direct I/O accepts.
#[must_use]
pub fn aligned(bytes: usize) -> Vec<u8> {
    // Large allocations are page-aligned after the allocator's header, so this reserves space for
    // alignment.
    vec![0x5a; bytes + 4096]
}

/// The aligned part of such a buffer.
pub fn window(buffer: &mut [u8], bytes: usize) -> &mut [u8] {
    let start = buffer.as_ptr().align_offset(4096);
    &mut buffer[start..start + bytes]
}

/// Runs a program. Panics if it fails.
pub fn run(program: &str, args: &[&str]) {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {error}");
}

/// Runs `run` in a thread with a private BPF file system, whose root has this mode. The mount ends
/// with the thread and its children.
pub fn with_bpf_files(mode: u32, run: impl FnOnce(&Path) + Send) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Other users may pass if the root directory's mode permits.
    let passable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(directory.path(), passable).expect("it is ours");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: only this thread and its children see other mounts; file descriptors are not
            // unshared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.expect("mounts of its own");
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change("/", private).expect("the namespace is private");
            mount("bpf", directory.path(), "bpf", MountFlags::empty(), None).expect("a mount");
            let mode = fs::Permissions::from_mode(mode);
            fs::set_permissions(directory.path(), mode).expect("it is ours");
            run(directory.path());
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Reports a skipped test on standard error, past the test harness, which captures the output of
/// passing tests.
pub fn note(what: &str) {
    _ = writeln!(std::io::stderr(), "{what}");
}
