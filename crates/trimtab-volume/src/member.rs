//! The devices of an array: claimed, and open for data and for metadata.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags};
use trimtab_block::DirectBuffer;
use trimtab_block::claim::{Claim, ClaimError, Identity, signature};
use trimtab_md::{Member as Metadata, SuperblockError};
use trimtab_serve::Error;

/// A device or file that only this process uses, until it is dropped.
#[derive(Debug)]
pub(crate) struct MemberDevice {
    pub(crate) path: PathBuf,
    /// Open for data, past the page cache.
    claim: Claim,
    /// Open for metadata.
    pub(crate) metadata: Metadata,
    /// What offsets and lengths of data must be multiples of, bytes.
    pub(crate) block_bytes: u32,
    /// It is a file in memory: io_uring would hand each request to another thread.
    pub(crate) in_memory: bool,
    /// It makes zeroes without data, and reads them afterwards.
    pub(crate) makes_zeroes: bool,
    /// What was written may be lost with the power, until it is flushed.
    pub(crate) is_volatile: bool,
}

impl MemberDevice {
    /// Claims a device or file.
    pub(crate) fn claim(path: &Path) -> Result<Self, Error> {
        let path = std::path::absolute(path).map_err(Error::system("find the directory"))?;
        let claim = Claim::member(&path).map_err(|error| match error {
            error @ (ClaimError::InUse { .. } | ClaimError::NoStorage(_)) => {
                Error::BadInput(error.to_string())
            }
            error @ ClaimError::Open { .. } if !path.exists() => Error::BadInput(error.to_string()),
            error => Error::Failed(error.to_string()),
        })?;
        let failed = || Error::system(format!("open {}", path.display()));
        // The claimed object, whatever its path leads to by now. Through the page cache: metadata are
        // where data never are, and in sectors.
        let again = format!("/proc/self/fd/{}", claim.file().as_raw_fd());
        let file = File::options().read(true).write(true).open(again).map_err(failed())?;
        let metadata =
            Metadata::new(file, path.display().to_string()).map_err(Error::system("seek"))?;
        let block_bytes = block_bytes(claim.file()).map_err(failed())?;
        let in_memory = is_in_memory(claim.file()).map_err(failed())?;
        let is_volatile = !in_memory && is_volatile(claim.file()).map_err(failed())?;
        let makes_zeroes = makes_zeroes(claim.file()).map_err(failed())?;
        Ok(Self { path, claim, metadata, block_bytes, in_memory, makes_zeroes, is_volatile })
    }

    /// Whether a path leads to it, or to its disk or a partition of it.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        identity(path).is_some_and(|identity| identity.overlaps(&self.claim.identity()))
    }

    /// For data.
    pub(crate) const fn file(&self) -> &File {
        self.claim.file()
    }

    /// Whether it is there to be overwritten: has no file system, and belongs to no array.
    pub(crate) fn check_unused(&self) -> Result<(), Error> {
        let shown = self.path.display();
        let refused = |holds: &str| {
            Err(Error::BadInput(format!("{shown} holds {holds}: --force overwrites it")))
        };
        match self.metadata.candidate().map_err(|e| Error::Failed(e.to_string()))?.superblock {
            Ok(superblock) => {
                return refused(&format!(
                    "a member of the array {} (UUID {})",
                    superblock.name, superblock.array_uuid
                ));
            }
            Err(SuperblockError::None | SuperblockError::TooShort { .. }) => {}
            Err(error) => return refused(&format!("metadata of md ({error})")),
        }
        let found = signature(self.file()).map_err(Error::system(format!("read {shown}")))?;
        found.map_or(Ok(()), refused)
    }

    /// What was written is on stable storage when this returns.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file().sync_data()
    }
}

/// What a path leads to, if there is something. Without opening it for data.
fn identity(path: &Path) -> Option<Identity> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::open(path, flags, Mode::empty()).map(File::from);
    Identity::of(&found.ok()?).ok().flatten()
}

/// Whether two paths lead to the same file or disk, or one of them to a partition of the other.
pub(crate) fn overlap(one: &Path, other: &Path) -> bool {
    let other = identity(other);
    identity(one).zip(other).is_some_and(|(one, other)| one.overlaps(&other))
}

impl AsFd for MemberDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

/// Whether `fallocate` with `FALLOC_FL_PUNCH_HOLE` makes zeroes: of a file where its file system has holes,
/// of a block device where it takes `WRITE_ZEROES`. Changes nothing.
fn makes_zeroes(file: &File) -> io::Result<bool> {
    const PAGE: u64 = 4096;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let most = queue_attribute(&metadata, "write_zeroes_max_bytes");
        return Ok(most.is_some_and(|most| most.trim() != "0"));
    }
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // Behind its end.
    Ok(rustix::fs::fallocate(file, mode, metadata.len().next_multiple_of(PAGE), PAGE).is_ok())
}

/// An attribute of a block device's queue. Of a partition it is that of its disk.
fn queue_attribute(of: &std::fs::Metadata, name: &str) -> Option<String> {
    let number = of.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let at = |disk: &str| format!("/sys/dev/block/{major}:{minor}/{disk}queue/{name}");
    std::fs::read_to_string(at("")).or_else(|_| std::fs::read_to_string(at("../"))).ok()
}

fn is_in_memory(file: &File) -> io::Result<bool> {
    // TMPFS_MAGIC, <linux/magic.h>.
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    let is_file = file.metadata()?.is_file();
    Ok(is_file && rustix::fs::fstatfs(file)?.f_type == TMPFS)
}

/// Whether the kernel has it that a device's write cache must be flushed. Below files there may be one.
fn is_volatile(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.file_type().is_block_device() {
        return Ok(true);
    }
    let said = queue_attribute(&metadata, "write_cache");
    Ok(said.is_none_or(|said| said.trim() == "write back"))
}

/// The unit of direct I/O: the least with which the kernel accepts a read.
fn block_bytes(file: &File) -> io::Result<u32> {
    const LEAST: usize = 512;
    const MOST: u32 = 4096;
    let mut buffer = DirectBuffer::new(LEAST)?;
    match file.read_at(buffer.content(LEAST), LEAST as u64) {
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Ok(MOST),
        // Other errors show when it is read from.
        _ => Ok(LEAST as u32),
    }
}
