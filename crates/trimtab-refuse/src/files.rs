//! Naming files: the mark at a file's inode that the programs in the kernel look for.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, RingBuffer, RingBufferBuilder};
use rustix::fs::{Mode, OFlags};
use trimtab_block::BlockDevice;
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::abi::{NO_DRIVE, NamedFile, OpenedFile};
use crate::drives::DriveMap;
use crate::refuser::handle;
use crate::{Error, Pattern};

/// Marks files that the program may read.
pub(crate) struct Files {
    patterns: Vec<Pattern>,
    marks: MapHandle,
    openings: RingBuffer<'static>,
    opened: Receiver<Opening>,
    drives: DriveMap,
    named: u64,
}

/// A file that the program has opened for direct reads.
struct Opening {
    path: PathBuf,
    inode: u64,
    /// major << 20 | minor
    device: u32,
}

impl Files {
    pub(crate) fn new(object: &Object, patterns: Vec<Pattern>) -> Result<Self, Error> {
        let (sender, opened) = channel();
        let ring = handle(object, "rf_openings")?;
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&ring, move |bytes| receive(&sender, bytes))
            .map_err(Error::library("read which files the program opens"))?;
        let openings = builder.build();
        let openings = openings.map_err(Error::library("read which files the program opens"))?;
        let marks = handle(object, "rf_files")?;
        Ok(Self { patterns, marks, openings, opened, drives: DriveMap::default(), named: 0 })
    }

    /// How many files have been named so far.
    pub(crate) const fn named(&self) -> u64 {
        self.named
    }

    /// Names a file and returns whether it is on a drive that has a slot.
    pub(crate) fn name(
        &mut self,
        path: &Path,
        slot: &mut dyn FnMut(&BlockDevice) -> Option<u32>,
    ) -> Result<bool, Error> {
        let file = reference(path)?;
        let found = file.metadata().map_err(Error::file("look at it", path))?;
        self.mark(&file, &found, path, slot)
    }

    /// Names the files of the patterns that the program has opened since the last call.
    pub(crate) fn follow(&mut self, slot: &mut dyn FnMut(&BlockDevice) -> Option<u32>) {
        if self.openings.consume().is_err() {
            return;
        }
        while let Ok(opening) = self.opened.try_recv() {
            if !self.patterns.iter().any(|pattern| pattern.matches(&opening.path)) {
                continue;
            }
            // The file may have another name by now, or none, and its reads stay admitted.
            let Ok(file) = reference(&opening.path) else { continue };
            let Ok(found) = file.metadata() else { continue };
            if opening.is(&found) {
                _ = self.mark(&file, &found, &opening.path, slot);
            }
        }
    }

    fn mark(
        &mut self,
        file: &File,
        found: &Metadata,
        path: &Path,
        slot: &mut dyn FnMut(&BlockDevice) -> Option<u32>,
    ) -> Result<bool, Error> {
        let drive = self.drives.of(found).as_ref().and_then(slot).unwrap_or(NO_DRIVE);
        let named = NamedFile { drive, reserved: 0 };
        let key = file.as_raw_fd().to_ne_bytes();
        self.marks
            .update(&key, named.as_bytes(), MapFlags::ANY)
            .map_err(|e| Error::file("name it to the kernel", path)(std::io::Error::other(e)))?;
        self.named += 1;
        Ok(drive != NO_DRIVE)
    }
}

impl Opening {
    fn is(&self, found: &Metadata) -> bool {
        let number = rustix::fs::makedev(self.device >> 20, self.device & 0xf_ffff);
        found.ino() == self.inode && found.dev() == number
    }
}

/// A descriptor that refers to a file without opening it: no device is started, and no lock or
/// lease is broken.
fn reference(path: &Path) -> Result<File, Error> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty());
    file.map(File::from).map_err(Error::file("open it", path))
}

fn receive(sender: &Sender<Opening>, bytes: &[u8]) -> i32 {
    if let Ok((opened, _)) = OpenedFile::read_from_prefix(bytes)
        && let Some(length) = (opened.length as usize).checked_sub(1)
        && let Some(path) = opened.path.get(..length)
    {
        let path = PathBuf::from(OsStr::from_bytes(path));
        _ = sender.send(Opening { path, inode: opened.inode, device: opened.device });
    }
    0
}
