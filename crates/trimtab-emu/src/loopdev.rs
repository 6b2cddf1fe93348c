//! Loop devices: a file as a block device.
//!
//! Nothing here may be called by a process that serves the file, as long as it does: what
//! the kernel asks of the file meanwhile would wait for that process (helper.rs).

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode};

use super::error::Error;

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
    places: [u64; 5],
    /// Number, kind of encryption, size of its key.
    numbers: [u32; 3],
    flags: u32,
    /// Names of file and cipher, 64 bytes each, and a key of 32.
    texts: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// How long a device may take to let its file go.
const PATIENCE: Duration = Duration::from_secs(5);

/// An attached loop device. Detached when dropped, unless it is kept; the kernel does that
/// as soon as nobody has it open.
pub(super) struct LoopDevice {
    /// `/dev/loop…`
    path: PathBuf,
    /// What its scheduler was, if it has another now: it outlives the attachment.
    scheduler_before: Option<String>,
}

impl LoopDevice {
    /// Attaches a file, with direct I/O, and sets the kernel's scheduler for it.
    pub(super) fn attach(file: &Path, block_bytes: u32, scheduler: &str) -> Result<Self, Error> {
        const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).write(true).custom_flags(O_DIRECT).open(file);
        let file = file.map_err(Error::system("open the drive's file"))?;
        let mut device = Self::attach_file(&file, block_bytes)?;
        device.set_scheduler(scheduler)?;
        Ok(device)
    }

    pub(super) fn attach_file(file: &File, block_bytes: u32) -> Result<Self, Error> {
        let control = open_control()?;
        // Others may take the one that is free meanwhile: then there is another.
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
        Err(Error::Failed("others take every free loop device at once".to_owned()))
    }

    pub(super) fn set_scheduler(&mut self, scheduler: &str) -> Result<(), Error> {
        let file = sys(&self.path).join("queue/scheduler");
        let all = fs::read_to_string(&file).unwrap_or_default();
        let known = |name: &str| name.trim_matches(['[', ']']).to_owned();
        let current = all.split_whitespace().find(|name| name.starts_with('[')).map(known);
        if current.as_deref() == Some(scheduler) {
            return Ok(());
        }
        fs::write(&file, scheduler).map_err(|_| {
            let all: Vec<_> = all.split_whitespace().map(known).collect();
            let all = all.join(", ");
            Error::BadInput(format!("`{scheduler}`: no such I/O scheduler here; there are: {all}"))
        })?;
        self.scheduler_before = current;
        Ok(())
    }

    /// Leaves it attached: its path, and what its scheduler was, if it has another now.
    pub(super) fn keep(mut self) -> (PathBuf, Option<String>) {
        let kept = (std::mem::take(&mut self.path), self.scheduler_before.take());
        std::mem::forget(self);
        kept
    }
}

/// Opens what gives out loop devices, which are there if that can be done.
pub(super) fn open_control() -> Result<File, Error> {
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

/// Gives a device the scheduler that it had, if it was given another.
pub(super) fn restore_scheduler(path: &Path, before: Option<&str>) {
    if let Some(before) = before {
        _ = fs::write(sys(path).join("queue/scheduler"), before);
    }
}

/// Detaches a device, and waits until it has let its file go, or for some seconds.
/// One that is open goes when it is closed.
pub(super) fn detach(path: &Path) {
    let Ok(device) = File::options().read(true).write(true).open(path) else { return };
    // SAFETY: LOOP_CLR_FD takes no argument.
    let cleared = unsafe { ioctl::ioctl(&device, ioctl::NoArg::<LOOP_CLR_FD>::new()) };
    // As long as we have it open too, it is in use.
    drop(device);
    let begun = Instant::now();
    while cleared.is_ok() && sys(path).join("loop").exists() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Devices that are attached to this file, whether or not it can still be reached.
pub(super) fn attached_to(file: &Path) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir("/sys/block") else { return Vec::new() };
    let is_attached =
        |entry: &fs::DirEntry| backing_file(&entry.path()).is_some_and(|backing| backing == file);
    let name = |entry: fs::DirEntry| Path::new("/dev").join(entry.file_name());
    all.flatten().filter(is_attached).map(name).collect()
}

/// What a device is attached to, by its directory in `/sys/block`. Of a file in a file system
/// that is mounted nowhere any more it is the path there.
fn backing_file(sys: &Path) -> Option<PathBuf> {
    let backing = fs::read_to_string(sys.join("loop/backing_file")).ok()?;
    Some(backing.trim_end_matches('\n').into())
}

/// Whether a device is attached to this file of a file system that is mounted nowhere any
/// more.
pub(super) fn is_attached_to_lost(path: &Path, file: &str) -> bool {
    backing_file(&sys(path)).is_some_and(|backing| backing == Path::new("/").join(file))
}

/// How a device is used, if detaching it would pull it away under somebody.
pub(super) fn use_of(path: &Path) -> Option<String> {
    if !is_claimed(path) {
        return None;
    }
    let name = name(path);
    Some(match mounted_at(path) {
        Some(at) => format!("{name} is mounted at {at}: unmount it first"),
        None => format!("{name} is in use (mounted elsewhere, or by another device): end that"),
    })
}

/// Where a device is mounted, as far as this process sees.
pub(super) fn mounted_at(path: &Path) -> Option<String> {
    let number = fs::read_to_string(sys(path).join("dev")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' '));
    mounts
        .find_map(|mut fields| (fields.nth(2)? == number.trim()).then(|| fields.nth(1))?)
        .map(str::to_owned)
}

fn is_claimed(path: &Path) -> bool {
    const O_EXCL: i32 = rustix::fs::OFlags::EXCL.bits() as i32;
    // Of a block device, that means: unless someone has claimed it.
    let opened = OpenOptions::new().read(true).custom_flags(O_EXCL).open(path);
    opened.is_err_and(|e| e.kind() == std::io::ErrorKind::ResourceBusy)
}

/// The kernel's name for a device.
pub(super) fn name(path: &Path) -> &str {
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
    // SAFETY: as said there.
    unsafe { ioctl::ioctl(control, GetFree) }
}

fn configure(device: &File, file: &File, block_size: u32) -> rustix::io::Result<()> {
    let config = LoopConfig {
        fd: file.as_raw_fd() as u32,
        block_size,
        places: [0; 5],
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
