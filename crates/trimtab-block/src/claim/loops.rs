//! Loop devices and what is behind them.

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode};

use super::number::{FileId, Identity, Kind, Number};

/// `LOOP_GET_STATUS64` (include/uapi/linux/loop.h).
const GET_STATUS: Opcode = 0x4C05;

/// `struct loop_info64`.
#[repr(C)]
struct Status {
    /// The file system, inode and, of a device, number of the back end.
    device: u64,
    inode: u64,
    rdevice: u64,
    /// Offset, size limit.
    part: [u64; 2],
    /// Number, kind of encryption, size of its key, flags.
    numbers: [u32; 4],
    /// Names of file and cipher, 64 bytes each, and a key of 32.
    texts: [u8; 160],
    init: [u64; 2],
}

const _: () = assert!(size_of::<Status>() == 232);

/// An attached loop device.
#[derive(Clone, Debug)]
pub(super) struct Loop {
    pub(super) number: Number,
    /// What is behind it,
    pub(super) backing: Backing,
    /// and what that was called when it was attached.
    pub(super) behind: String,
}

/// What is behind a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The number of the file system that it lies in.
    pub file_system: u64,
    pub(super) identity: Identity,
}

/// All attached loop devices.
///
/// # Errors
/// It cannot be told what one of them is attached to.
pub(super) fn all() -> io::Result<Vec<Loop>> {
    let Ok(disks) = fs::read_dir("/sys/block") else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for disk in disks.flatten() {
        let path = disk.path();
        let attached_to = || fs::read_to_string(path.join("loop/backing_file")).ok();
        let number = fs::read_to_string(path.join("dev")).ok();
        let Some(number) = number.and_then(|number| Number::parse(&number)) else { continue };
        let Some(behind) = attached_to() else { continue };
        let name = disk.file_name();
        match look(&Path::new("/dev").join(&name), number, &behind) {
            Ok(Some(backing)) => {
                all.push(Loop { number, backing, behind: behind.trim_end().to_owned() });
            }
            Ok(None) => {}
            // It may have been detached just now.
            Err(_) if attached_to().is_none() => {}
            Err(e) => {
                let what = format!("cannot tell what {} is attached to: {e}", name.display());
                return Err(io::Error::new(e.kind(), what));
            }
        }
    }
    Ok(all)
}

fn look(node: &Path, number: Number, behind: &str) -> io::Result<Option<Backing>> {
    let device = match File::open(node) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return by_name(behind),
        device => device?,
    };
    let metadata = device.metadata()?;
    if !metadata.file_type().is_block_device() || metadata.rdev() != number.0 {
        return Err(io::Error::other("its device node is another device's"));
    }
    match backing_of(&device) {
        // Its file system is dead. What was named is not in it, or could not have been opened.
        Err(e) if is_gone(&e) => Ok(None),
        found => found,
    }
}

/// What is behind a loop device that one may not open: what has its name now.
fn by_name(behind: &str) -> io::Result<Option<Backing>> {
    let metadata = fs::metadata(behind.trim_end_matches('\n'))?;
    let identity = Identity::of_metadata(&metadata);
    Ok(identity.map(|identity| Backing { file_system: metadata.dev(), identity }))
}

fn is_gone(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::NOTCONN, Errno::STALE, Errno::IO].contains(&errno))
}

/// What is behind an open loop device; nothing if nothing is.
pub fn backing_of(device: &File) -> io::Result<Option<Backing>> {
    let mut status = MaybeUninit::<Status>::zeroed();
    // SAFETY: the request fills a `struct loop_info64`, which this is, and does not keep the
    // pointer.
    let asked = unsafe { ioctl::ioctl(device, ioctl::Updater::<GET_STATUS, _>::new(&mut status)) };
    match asked {
        Ok(()) => {}
        Err(Errno::NXIO) => return Ok(None),
        Err(e) => return Err(e.into()),
    }
    // SAFETY: all of it are plain numbers, for which any bits will do.
    let status = unsafe { status.assume_init() };
    // The kernel writes these numbers as `stat` does, for all majors that there are.
    let identity = Identity(match status.rdevice {
        0 => Kind::File(FileId { device: status.device, inode: status.inode }),
        number => Kind::Device(Number(number)),
    });
    Ok(Some(Backing { file_system: status.device, identity }))
}
