//! Loop devices and their back ends.

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
    /// The back end's file system, inode and, for a device, number.
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
    /// Its back end.
    pub(super) backing: Backing,
    /// The back end's name when it was attached.
    pub(super) behind: String,
}

/// The back end of a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    /// The number of the file system that contains it.
    pub file_system: u64,
    pub(super) identity: Identity,
}

/// All attached loop devices.
///
/// # Errors
/// The back end of one of them cannot be determined.
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
            // It may have been detached in the meantime.
            Err(_) if attached_to().is_none() => {}
            Err(e) => {
                let what = format!("cannot determine what {} is attached to: {e}", name.display());
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
        // Its file system is dead. The named object is not in it, or it could not have been
        // opened.
        Err(e) if is_gone(&e) => Ok(None),
        found => found,
    }
}

/// The back end of a loop device that this process may not open: the file that has its name
/// now.
fn by_name(behind: &str) -> io::Result<Option<Backing>> {
    let metadata = fs::metadata(behind.trim_end_matches('\n'))?;
    let identity = Identity::of_metadata(&metadata);
    Ok(identity.map(|identity| Backing { file_system: metadata.dev(), identity }))
}

fn is_gone(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::NOTCONN, Errno::STALE, Errno::IO].contains(&errno))
}

/// The back end of an open loop device; `None` without one.
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
    // SAFETY: the structure consists of integers, for which any bits are valid.
    let status = unsafe { status.assume_init() };
    // The kernel encodes these numbers as `stat` does, for all existing majors.
    let identity = Identity(match status.rdevice {
        0 => Kind::File(FileId { device: status.device, inode: status.inode }),
        number => Kind::Device(Number(number)),
    });
    Ok(Some(Backing { file_system: status.device, identity }))
}
