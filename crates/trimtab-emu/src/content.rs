//! A drive's content: none, in memory, or in a file.
//!
//! The flash model determines where data lies and how long an access takes, but does not hold
//! the bytes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use trimtab_serve::Error;

use super::spec::{Data, Flush};
use trimtab_block::claim::{Claim, ClaimError};

/// Granularity of memory allocation, bytes.
const CHUNK: usize = 64 << 10;
/// The kernel's largest request, as a rule.
static ZEROES: [u8; 1 << 20] = [0; 1 << 20];

/// A drive's content. Bytes never written are zeroes. Several threads may use it at once; a read
/// that races with a write of the same bytes returns either version, as on any drive.
pub(super) enum Content {
    Nothing,
    Memory(Memory),
    File(Claim),
}

/// The data of a read.
#[derive(Debug)]
pub(super) enum Payload {
    Zeroes(usize),
    Bytes(Vec<u8>),
}

impl Payload {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Zeroes(length) => &ZEROES[..*length],
            Self::Bytes(bytes) => bytes,
        }
    }

    fn zeroes(length: usize) -> Self {
        if length <= ZEROES.len() { Self::Zeroes(length) } else { Self::Bytes(vec![0; length]) }
    }
}

impl Content {
    /// For a drive of `capacity` bytes.
    ///
    /// # Errors
    /// The file cannot be used, another drive uses it, or it holds a drive of another size.
    pub(super) fn open(data: &Data, capacity: u64) -> Result<Self, Error> {
        Ok(match data {
            Data::None => Self::Nothing,
            Data::Memory { cap_bytes } => Self::Memory(Memory::new(capacity, *cap_bytes)),
            Data::File { path, flush } => {
                let file = open(path, capacity)?;
                if *flush == Flush::Durable {
                    sync_name(file.file(), path)?;
                }
                Self::File(file)
            }
        })
    }

    /// Reads bytes within the drive.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Payload> {
        match self {
            Self::Nothing => Ok(Payload::zeroes(length)),
            Self::Memory(memory) => Ok(memory.read(offset, length)),
            Self::File(claim) => {
                let mut bytes = vec![0; length];
                claim.file().read_exact_at(&mut bytes, offset)?;
                Ok(Payload::Bytes(bytes))
            }
        }
    }

    /// Writes bytes within the drive.
    ///
    /// # Errors
    /// `ENOSPC`: beyond the memory's cap, or the file system below is full.
    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Memory(memory) => memory.write(offset, bytes),
            Self::File(claim) => claim.file().write_all_at(bytes, offset),
        }
    }

    /// Discards bytes within the drive: they read as zeroes then, and take no space.
    pub(super) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Memory(memory) => {
                memory.discard(offset, length);
                Ok(())
            }
            Self::File(claim) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(rustix::fs::fallocate(claim.file(), hole, offset, length)?)
            }
        }
    }

    /// Bytes allocated, and the cap.
    pub(super) fn used(&self) -> (u64, Option<u64>) {
        match self {
            Self::Nothing => (0, None),
            Self::Memory(memory) => (memory.used.load(Ordering::Relaxed), Some(memory.cap)),
            Self::File(claim) => {
                use std::os::unix::fs::MetadataExt;
                (claim.file().metadata().map_or(0, |metadata| metadata.blocks() * 512), None)
            }
        }
    }

    /// Makes it durable, if it is in a file.
    pub(super) fn sync(&self) -> io::Result<()> {
        if let Self::File(claim) = self { claim.file().sync_data() } else { Ok(()) }
    }
}

/// Opens a drive's file, or makes a sparse one. Refuses a file that anything else uses.
fn open(path: &Path, capacity: u64) -> Result<Claim, Error> {
    let shown = path.display();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(Error::system(format!("open {shown}")))?;
    let metadata = file.metadata().map_err(Error::system(format!("look at {shown}")))?;
    if !metadata.is_file() {
        return Err(Error::BadInput(format!("{shown}: not a regular file")));
    }
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(Error::BadInput(format!("{shown}: another drive uses it")));
    }
    let claim = Claim::of(file, path).map_err(|e| match e {
        ClaimError::InUse { .. } => Error::BadInput(e.to_string()),
        _ => Error::Failed(e.to_string()),
    })?;
    let file = claim.file();
    match metadata.len() {
        0 => file.set_len(capacity).map_err(Error::system(format!("make {shown} that long")))?,
        length if length != capacity => {
            let why = format!("holds a drive of {length} bytes, and this one has {capacity}");
            return Err(Error::BadInput(format!("{shown}: {why}; remove it or give its size")));
        }
        _ => {}
    }
    Ok(claim)
}

/// Makes the file itself and its name durable: flushed data would be lost without them.
fn sync_name(file: &File, path: &Path) -> Result<(), Error> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or_else(|| Path::new("."));
    file.sync_all()
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(Error::system(format!("flush {} and its directory", path.display())))
}

/// [`CHUNK`] bytes, `None` before the first write to them.
type Chunk = Option<Box<[u8]>>;

/// Content in memory; only chunks that were written take space.
pub(super) struct Memory {
    /// One lock per chunk, so that requests do not wait for each other's copying.
    chunks: Box<[Mutex<Chunk>]>,
    used: AtomicU64,
    cap: u64,
}

impl Memory {
    fn new(capacity: u64, cap: u64) -> Self {
        let chunks = (0..capacity.div_ceil(CHUNK as u64)).map(|_| Mutex::new(None)).collect();
        Self { chunks, used: AtomicU64::new(0), cap }
    }

    fn read(&self, offset: u64, length: usize) -> Payload {
        // Reads of unwritten chunks allocate nothing.
        let (mut bytes, mut done) = (Vec::new(), 0);
        for piece in pieces(offset, length as u64) {
            if let Some(chunk) = &*lock(&self.chunks[piece.chunk]) {
                bytes.reserve_exact(length - bytes.len());
                bytes.resize(done, 0);
                bytes.extend_from_slice(&chunk[piece.from..piece.until]);
            }
            done += piece.until - piece.from;
        }
        if bytes.is_empty() {
            return Payload::zeroes(length);
        }
        bytes.resize(length, 0);
        Payload::Bytes(bytes)
    }

    fn write(&self, offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        for piece in pieces(offset, bytes.len() as u64) {
            let (now, rest) = bytes.split_at(piece.until - piece.from);
            let mut chunk = lock(&self.chunks[piece.chunk]);
            if chunk.is_none() {
                self.take()?;
                *chunk = Some(vec![0; CHUNK].into());
            }
            let chunk = chunk.as_mut().expect("just made");
            chunk[piece.from..piece.until].copy_from_slice(now);
            bytes = rest;
        }
        Ok(())
    }

    fn discard(&self, offset: u64, length: u64) {
        for piece in pieces(offset, length) {
            let mut chunk = lock(&self.chunks[piece.chunk]);
            if piece.until - piece.from == CHUNK {
                if chunk.take().is_some() {
                    self.used.fetch_sub(CHUNK as u64, Ordering::Relaxed);
                }
            } else if let Some(chunk) = &mut *chunk {
                chunk[piece.from..piece.until].fill(0);
            }
        }
    }

    /// Accounts for one more chunk, within the cap.
    fn take(&self) -> io::Result<()> {
        let more = |used| Some(used + CHUNK as u64).filter(|&used| used <= self.cap);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::NOSPC.into()),
        }
    }
}

/// The part of a range that lies in one chunk.
struct Piece {
    chunk: usize,
    from: usize,
    until: usize,
}

fn pieces(offset: u64, length: u64) -> impl Iterator<Item = Piece> {
    let (mut at, end) = (offset, offset + length);
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let (chunk, from) = ((at / CHUNK as u64) as usize, (at % CHUNK as u64) as usize);
            let until = CHUNK.min(from + (end - at).min(CHUNK as u64) as usize);
            at += (until - from) as u64;
            Piece { chunk, from, until }
        })
    })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No update is left half done by a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: u64 = 10 * CHUNK as u64;

    fn memory(cap_chunks: u64) -> Content {
        let data = Data::Memory { cap_bytes: cap_chunks * CHUNK as u64 };
        Content::open(&data, CAPACITY).unwrap()
    }

    fn read(store: &Content, offset: u64, length: usize) -> Vec<u8> {
        store.read(offset, length).unwrap().bytes().to_vec()
    }

    #[test]
    fn reads_return_written_bytes_across_chunks() {
        let directory = tempfile::tempdir().unwrap();
        let file = Data::File { path: directory.path().join("drive"), flush: Flush::Fast };
        for store in [memory(10), Content::open(&file, CAPACITY).unwrap()] {
            let bytes: Vec<u8> = (0..3 * CHUNK + 512).map(|i| (i % 251) as u8).collect();
            let offset = CHUNK as u64 - 1024;
            store.write(offset, &bytes).unwrap();
            assert_eq!(read(&store, offset, bytes.len()), bytes);
            assert_eq!(read(&store, offset - 512, 1024)[..512], [0; 512]);
            store.discard(offset + 512, 2 * CHUNK as u64).unwrap();
            let mut expected = bytes.clone();
            expected[512..512 + 2 * CHUNK].fill(0);
            assert_eq!(read(&store, offset, bytes.len()), expected);
        }
        let nothing = Content::open(&Data::None, CAPACITY).unwrap();
        nothing.write(0, &[1; 512]).unwrap();
        assert_eq!(read(&nothing, 0, 2 << 20), vec![0; 2 << 20]);
    }

    #[test]
    fn memory_is_capped_and_freed_by_discards() {
        let store = memory(2);
        store.write(0, &[1; 2 * CHUNK]).unwrap();
        let error = store.write(5 * CHUNK as u64, &[1]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        store.write(CHUNK as u64, &[2; 512]).unwrap();
        assert_eq!(store.used(), (2 * CHUNK as u64, Some(2 * CHUNK as u64)));
        store.discard(0, CAPACITY).unwrap();
        assert_eq!(store.used().0, 0);
        store.write(5 * CHUNK as u64, &[1]).unwrap();
    }

    #[test]
    fn file_outlives_its_drive_and_is_exclusive() {
        let directory = tempfile::tempdir().unwrap();
        let data = Data::File { path: directory.path().join("drive"), flush: Flush::Fast };
        let store = Content::open(&data, CAPACITY).unwrap();
        store.write(4096, b"here").unwrap();
        let refused = |capacity| Content::open(&data, capacity).err().unwrap().to_string();
        assert!(refused(CAPACITY).contains("another drive uses it"));
        drop(store);
        assert!(refused(2 * CAPACITY).contains("holds a drive of 655360 bytes"));
        let store = Content::open(&data, CAPACITY).unwrap();
        assert_eq!(read(&store, 4096, 4), b"here");
    }
}
