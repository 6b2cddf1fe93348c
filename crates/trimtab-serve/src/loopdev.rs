//! Loop devices: a file as a block device.
//!
//! A process that serves the file must not call these functions: the kernel's accesses to the file
//! would wait for that process (helper.rs).

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode};

use super::error::Error;
use super::{fuse, protect};

// <linux/loop.h>
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_config`, with `struct loop_info64` in it.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    /// Device, inode, rdevice, offset, size limit.
    fields: [u64; 5],
    /// Number, encryption type, key size.
    numbers: [u32; 3],
    flags: u32,
    /// Names of file and cipher, 64 bytes each, and a key of 32.
    texts: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// How long a device may take to release its file.
const PATIENCE: Duration = Duration::from_secs(5);

/// An attached loop device. Detached when dropped, unless it is released by `keep`; the kernel does
/// that as soon as no process has it open.
pub struct LoopDevice {
    /// `/dev/loop…`
    path: PathBuf,
    /// Its I/O scheduler before, if it was changed: the setting outlives the attachment.
    scheduler_before: Option<String>,
}

impl LoopDevice {
    /// Attaches a file, with direct I/O, and sets the kernel's scheduler for it.
    pub(crate) fn attach(file: &Path, block_bytes: u32, scheduler: &str) -> Result<Self, Error> {
        const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).write(true).custom_flags(O_DIRECT).open(file);
        let file = file.map_err(Error::system("open the device's file"))?;
        let mut device = Self::attach_file(&file, block_bytes)?;
        device.set_scheduler(scheduler)?;
        if protect::memory_is_limited() {
            limit_dirty(&device.path, true);
        }
        Ok(device)
    }

    /// Attaches an open file.
    ///
    /// # Errors
    /// The kernel has no loop devices, or refuses the file.
    pub fn attach_file(file: &File, block_bytes: u32) -> Result<Self, Error> {
        let control = open_control()?;
        // Another process may take the free device first: then try the next.
        for _ in 0..100 {
            let number = free_number(&control).map_err(Error::system("find a loop device"))?;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let device = OpenOptions::new().read(true).write(true).open(&path);
            let device = device.map_err(Error::system(format!("open {}", path.display())))?;
            match configure(&device, file, block_bytes) {
                Ok(()) => return Ok(Self { path, scheduler_before: None }),
                Err(Errno::BUSY) => {}
                Err(e) => return Err(Error::system(format!("attach {}", path.display()))(e)),
            }
        }
        Err(Error::Failed("other processes take every free loop device first".to_owned()))
    }

    /// Sets the kernel's I/O scheduler for it, until it is dropped.
    ///
    /// # Errors
    /// The kernel has no such scheduler.
    pub fn set_scheduler(&mut self, scheduler: &str) -> Result<(), Error> {
        self.scheduler_before = set_scheduler(&self.path, scheduler)?;
        Ok(())
    }

    /// Makes the kernel, and the schedulers that ask for it, take it for a disk with platters. The
    /// next attachment of this loop device resets it. Not essential: `/sys` may be read-only.
    pub(crate) fn set_rotational(&self) {
        _ = fs::write(sys(&self.path).join("queue/rotational"), "1");
    }

    /// Leaves it attached: returns its path, and its scheduler before, if it was changed.
    pub(crate) fn keep(mut self) -> (PathBuf, Option<String>) {
        let kept = (std::mem::take(&mut self.path), self.scheduler_before.take());
        std::mem::forget(self);
        kept
    }
}

/// Opens the control device, and so checks that the kernel has loop devices.
///
/// # Errors
/// It has none, or the process lacks privileges.
pub fn open_control() -> Result<File, Error> {
    let control = File::options().read(true).write(true).open("/dev/loop-control");
    control.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Failed(
            "this kernel has no loop devices (/dev/loop-control): load the module loop".to_owned(),
        ),
        std::io::ErrorKind::PermissionDenied => Error::Privilege,
        _ => Error::system("open /dev/loop-control")(e),
    })
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        restore_scheduler(&self.path, self.scheduler_before.as_deref());
        detach(&self.path);
    }
}

/// Sets the kernel's I/O scheduler for a device. Returns the one before, if that was another.
pub(crate) fn set_scheduler(path: &Path, scheduler: &str) -> Result<Option<String>, Error> {
    let file = sys(path).join("queue/scheduler");
    let all = fs::read_to_string(&file).unwrap_or_default();
    let known = |name: &str| name.trim_matches(['[', ']']).to_owned();
    let current = all.split_whitespace().find(|name| name.starts_with('[')).map(known);
    if current.as_deref() == Some(scheduler) {
        return Ok(None);
    }
    fs::write(&file, scheduler).map_err(|_| {
        let all: Vec<_> = all.split_whitespace().map(known).collect();
        let all = all.join(", ");
        Error::BadInput(format!("`{scheduler}`: no such I/O scheduler here; there are: {all}"))
    })?;
    Ok(current)
}

/// Has the kernel count a device's dirty pages exactly when it makes writers wait (`strict_limit`), or
/// not. Otherwise it goes by figures of their control group that may be seconds old: in a group with
/// little memory all of it may wait to be written to the device, and a server in that group has
/// none left to write it with. Kernels without that file keep exact figures of control groups.
pub(crate) fn limit_dirty(path: &Path, strictly: bool) {
    _ = fs::write(sys(path).join("bdi/strict_limit"), if strictly { "1" } else { "0" });
}

/// Restores a device's scheduler, if it was changed.
pub(crate) fn restore_scheduler(path: &Path, before: Option<&str>) {
    if let Some(before) = before {
        _ = fs::write(sys(path).join("queue/scheduler"), before);
    }
}

/// Detaches a device, and waits some seconds until it has released its file. An open device is
/// detached when it is closed.
pub(crate) fn detach(path: &Path) {
    // It outlives the attachment.
    limit_dirty(path, false);
    let Ok(device) = File::options().read(true).write(true).open(path) else { return };
    // SAFETY: LOOP_CLR_FD takes no argument.
    let cleared = unsafe { ioctl::ioctl(&device, ioctl::NoArg::<LOOP_CLR_FD>::new()) };
    // Our own descriptor counts as a user too.
    drop(device);
    let begun = Instant::now();
    while cleared.is_ok() && sys(path).join("loop").exists() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Devices attached to this file, whether or not its path still resolves.
pub(crate) fn attached_to(file: &Path) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir("/sys/block") else { return Vec::new() };
    let is_attached =
        |entry: &fs::DirEntry| backing_file(&entry.path()).is_some_and(|backing| backing == file);
    let name = |entry: fs::DirEntry| Path::new("/dev").join(entry.file_name());
    all.flatten().filter(is_attached).map(name).collect()
}

/// A device's backing file, from its directory in `/sys/block`. For a file in a detached file
/// system, this is the path inside that file system.
fn backing_file(sys: &Path) -> Option<PathBuf> {
    let backing = fs::read_to_string(sys.join("loop/backing_file")).ok()?;
    Some(backing.trim_end_matches('\n').into())
}

/// Whether a device is attached to this file of a detached file system.
pub(crate) fn is_attached_to_lost(path: &Path, file: &str) -> bool {
    backing_file(&sys(path)).is_some_and(|backing| backing == Path::new("/").join(file))
}

/// How a device is used, if detaching it would break a user.
pub(crate) fn use_of(path: &Path) -> Option<String> {
    let name = name(path);
    if !is_claimed(path) {
        let nqn = trimtab_block::claim::exported_as(path)?;
        return Some(format!("{name} is exported as the NVMe drive {nqn}: unexport it first"));
    }
    Some(match mounted_at(path) {
        Some(at) => format!("{name} is mounted at {at}: unmount it first"),
        None => format!("{name} is in use (mounted elsewhere, or by another device): end that"),
    })
}

/// What keeps a device that was ended: it has nothing any more, and goes with its last user.
#[must_use]
pub fn still_used(device: &Path) -> Option<String> {
    let shown = device.display();
    is_attached_to_lost(device, fuse::FILE).then(|| match mounted_at(device) {
        Some(at) => format!(
            "a file system on it is still mounted at {at}: unmount it, and its device {shown} goes too"
        ),
        None => format!("{shown} is still open: it goes when what uses it is closed"),
    })
}

/// How a device is used whose server was killed: opening it could wait for the next one.
pub(crate) fn use_without_opening(path: &Path) -> Option<String> {
    let holders = fs::read_dir(sys(path).join("holders"));
    let is_held = || holders.is_ok_and(|mut holders| holders.next().is_some());
    match mounted_at(path) {
        Some(at) => Some(format!("{} is mounted at {at}", name(path))),
        None => is_held().then(|| format!("{} is in use by another device", name(path))),
    }
}

/// A device's mount point, as this process sees it.
pub(crate) fn mounted_at(path: &Path) -> Option<String> {
    let number = fs::read_to_string(sys(path).join("dev")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    mounts
        .find_map(|mut fields| (fields.nth(2)? == number.trim()).then(|| fields.nth(1))?)
        .map(str::to_owned)
}

fn is_claimed(path: &Path) -> bool {
    const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;
    // For a block device, O_EXCL fails if it is claimed.
    let opened = OpenOptions::new().read(true).custom_flags(O_EXCL).open(path);
    opened.is_err_and(|e| e.kind() == std::io::ErrorKind::ResourceBusy)
}

/// The kernel's name for a device.
pub(crate) fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn sys(path: &Path) -> PathBuf {
    Path::new("/sys/block").join(name(path))
}

fn free_number(control: &File) -> rustix::io::Result<i32> {
    struct GetFree;
    // SAFETY: the request takes no argument, and returns a number.
    unsafe impl ioctl::Ioctl for GetFree {
        type Output = i32;
        const IS_MUTATING: bool = false;
        fn opcode(&self) -> Opcode {
            LOOP_CTL_GET_FREE
        }
        fn as_ptr(&mut self) -> *mut std::ffi::c_void {
            std::ptr::null_mut()
        }
        unsafe fn output_from_ptr(
            output: ioctl::IoctlOutput,
            _: *mut std::ffi::c_void,
        ) -> rustix::io::Result<i32> {
            Ok(output)
        }
    }
    // SAFETY: as above: no argument, returns a number.
    unsafe { ioctl::ioctl(control, GetFree) }
}

fn configure(device: &File, file: &File, block_size: u32) -> rustix::io::Result<()> {
    let config = LoopConfig {
        fd: file.as_raw_fd() as u32,
        block_size,
        fields: [0; 5],
        numbers: [0; 3],
        flags: LO_FLAGS_DIRECT_IO,
        texts: [0; 160],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: the request reads a `struct loop_config`, which this is, and does not
    // keep the pointer.
    unsafe { ioctl::ioctl(device, ioctl::Setter::<LOOP_CONFIGURE, _>::new(config)) }
}
