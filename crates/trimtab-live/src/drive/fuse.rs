//! The back end: one file of a FUSE file system, which a loop device makes a block
//! device of.
//!
//! ```text
//!   block device ─> loop ─> FUSE ─> reader threads ─> Engine ─> reply
//! ```
//!
//! Here, and nowhere else, is the library `fuser` used, and what a kernel request
//! looks like known. Where a kernel has ublk, that would take this module's place
//! and the loop device's.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL, WriteFlags,
};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use trimtab_io::{Nanos, Op};

use super::awake::Waker;
use super::clock;
use super::engine::{Answer, Engine};
use super::error::Error;
use super::store::{Payload, Store};

/// The only file.
const FILE: &str = "disk";
const DISK: INodeNo = INodeNo(2);
/// Requests that the kernel gives out before it lets others wait; its own default
/// of 12 would throttle the drive.
const MOST_IN_FLIGHT: u16 = 512;
/// Threads that take requests: so that one request's copying of a megabyte does not
/// keep the next one waiting.
const READERS: usize = 2;
/// Attributes never change, so the kernel need not ask again.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// The granularity of discards.
const BLOCK: u32 = 4096;

/// A mounted drive file. Unmounted when dropped.
pub(super) struct Mounted {
    directory: PathBuf,
    session: Option<JoinHandle<()>>,
}

impl Mounted {
    /// Mounts a file of `capacity` bytes in a directory.
    pub(super) fn new(
        directory: &Path,
        capacity: u64,
        engine: Arc<Engine<Ticket>>,
        store: Arc<Store>,
        waker: Option<Waker>,
    ) -> Result<Self, Error> {
        let device = open_device()?;
        mount(&device, directory)?;
        let mut mounted = Self { directory: directory.to_owned(), session: None };
        let mut config = Config::default();
        config.n_threads = Some(READERS);
        config.clone_fd = true;
        let disk = Disk { capacity, engine, store, waker };
        let session = Session::from_fd(disk, device, SessionACL::Owner, config)
            .map_err(Error::system("talk to the kernel's FUSE"))?;
        let serve = move || {
            // It ends when the file system is unmounted; an error is that end too.
            _ = session.run();
        };
        let thread = std::thread::Builder::new().name("requests".to_owned()).spawn(serve);
        mounted.session = Some(thread.map_err(Error::system("start a thread"))?);
        Ok(mounted)
    }

    /// Opens the file as a loop device wants it.
    pub(super) fn open(&self) -> Result<File, Error> {
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(file_in(&self.directory), flags, Mode::empty());
        Ok(File::from(file.map_err(Error::system("open the drive's file"))?))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Requests that are still on their way end in errors.
        _ = unmount(&self.directory);
        if let Some(session) = self.session.take() {
            _ = session.join();
        }
    }
}

/// Where the drive's file is, in its mount.
pub(super) fn file_in(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Unmounts what may be mounted there, a dead server's too.
pub(super) fn unmount(directory: &Path) -> rustix::io::Result<()> {
    rustix::mount::unmount(directory, UnmountFlags::DETACH | UnmountFlags::FORCE)
}

fn open_device() -> Result<OwnedFd, Error> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::NOENT | rustix::io::Errno::NODEV => Error::Failed(
            "this kernel has no FUSE (/dev/fuse): load the module fuse, or simulate with \
             `trimtab sim run`"
                .to_owned(),
        ),
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Error::Privilege,
        e => Error::system("open /dev/fuse")(e),
    })
}

fn mount(device: &OwnedFd, directory: &Path) -> Result<(), Error> {
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
    let options = CString::new(options).expect("no zero in it");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("trimtab", directory, "fuse.trimtab", flags, options.as_c_str()).map_err(
        |e| match e {
            rustix::io::Errno::PERM => Error::Privilege,
            e => Error::system(format!("mount a file system at {}", directory.display()))(e),
        },
    )
}

/// The file system.
struct Disk {
    capacity: u64,
    engine: Arc<Engine<Ticket>>,
    store: Arc<Store>,
    waker: Option<Waker>,
}

/// A request of the kernel that waits for its answer.
pub(super) enum Ticket {
    Read(ReplyData, Payload),
    Write(ReplyWrite, u32),
    Other(ReplyEmpty),
}

impl Answer for Ticket {
    fn done(self) {
        match self {
            Self::Read(reply, payload) => reply.data(payload.bytes()),
            Self::Write(reply, bytes) => reply.written(bytes),
            Self::Other(reply) => reply.ok(),
        }
    }

    fn failed(self) {
        match self {
            Self::Read(reply, _) => reply.error(Errno::EIO),
            Self::Write(reply, _) => reply.error(Errno::EIO),
            Self::Other(reply) => reply.error(Errno::EIO),
        }
    }
}

impl Disk {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_disk = inode == DISK;
        FileAttr {
            ino: inode,
            size: if is_disk { self.capacity } else { 0 },
            blocks: 0,
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        }
    }

    /// A range within the drive.
    fn within(&self, offset: u64, length: u64) -> bool {
        offset.checked_add(length).is_some_and(|end| end <= self.capacity)
    }

    fn submit(&self, arrival: Nanos, op: Op, offset: u64, length: u64, ticket: Ticket) {
        if let Some(waker) = &self.waker {
            waker.used(arrival);
        }
        self.engine.submit(arrival, op, offset, length, ticket);
    }

    fn write_error(&self, error: &io::Error) -> Errno {
        let errno = error.raw_os_error().unwrap_or(Errno::EIO.code());
        if errno == Errno::ENOSPC.code() {
            self.engine.state().figures.no_room += 1;
        }
        Errno::from_i32(errno)
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What a kernel has not, it works without.
        _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        _ = config.set_max_background(MOST_IN_FLIGHT);
        _ = config.set_congestion_threshold(MOST_IN_FLIGHT);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == FILE {
            reply.entry(&FOR_EVER, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(inode));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // The loop device takes the granularity of discards from here.
        reply.statfs(self.capacity / u64::from(BLOCK), 0, 0, 2, 0, BLOCK, 255, BLOCK);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if inode != DISK {
            return reply.error(Errno::EISDIR);
        }
        let direct = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), direct);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let arrival = clock::now();
        let length = u64::from(size).min(self.capacity.saturating_sub(offset));
        // Copied now, in the time that the model takes anyway.
        match self.store.read(offset.min(self.capacity), length as usize) {
            Ok(payload) => {
                let ticket = Ticket::Read(reply, payload);
                self.submit(arrival, Op::Read, offset, length, ticket);
            }
            Err(_) => reply.error(Errno::EIO),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let arrival = clock::now();
        if !self.within(offset, data.len() as u64) {
            return reply.error(Errno::ENOSPC);
        }
        match self.store.write(offset, data) {
            Ok(()) => {
                let ticket = Ticket::Write(reply, data.len() as u32);
                self.submit(arrival, Op::Write, offset, data.len() as u64, ticket);
            }
            Err(error) => reply.error(self.write_error(&error)),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.submit(clock::now(), Op::Flush, 0, 0, Ticket::Other(reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Of a file that is closed; nothing to do with the drive's buffer.
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let arrival = clock::now();
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        // Discards, and zeroes that need not be written.
        if !mode.intersects(FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if !self.within(offset, length) {
            return reply.error(Errno::EINVAL);
        }
        match self.store.discard(offset, length) {
            Ok(()) => {
                self.submit(arrival, Op::Discard, offset, length, Ticket::Other(reply));
            }
            Err(error) => reply.error(self.write_error(&error)),
        }
    }
}
