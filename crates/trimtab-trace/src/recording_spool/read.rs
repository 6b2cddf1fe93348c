//! Reads a leftover spool. The file is not trusted.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::frame::{FrameKind, HEADER, MAX_LENGTH, checksum, unpack_records};
use super::{ENDING, MAGIC};
use crate::error::{Error, Malformed, Position};
use crate::fields::show;
use crate::format::Format;
use crate::names::Names;
use crate::reader::{Clock, Meta};
use crate::record::Record;
use crate::write::parquet::fault;

/// A recorder writes one per device, and some ten more.
const MAX_NOTES: usize = 1000;

/// Reads a spool: records in completion order, up to the first damaged frame.
pub struct Reader<R> {
    input: R,
    path: PathBuf,
    /// End of the last complete frame, bytes.
    at: u64,
    names: Names,
    meta: Meta,
    ended: bool,
}

/// A spool file, locked while this lives, so that no other process recovers it.
pub type Leftover = Reader<BufReader<File>>;

impl Leftover {
    /// Opens a spool.
    ///
    /// # Errors
    /// It cannot be read, is not a spool, or its recorder is alive.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let open_error = |source| Error::Open { path: path.to_owned(), source };
        let file = File::open(path).map_err(open_error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let path = path.display();
                let why = "is in use: still being recorded, or being recovered";
                return Err(Error::Usage(format!("{path}: {why}")));
            }
            Err(fs::TryLockError::Error(source)) => return Err(open_error(source)),
        }
        Self::new(BufReader::new(file), path)
    }

    /// Bytes behind the last complete frame.
    ///
    /// # Errors
    /// The file's size cannot be determined.
    pub fn torn_off(&self) -> Result<u64, Error> {
        let metadata = self.input.get_ref().metadata();
        let metadata = metadata.map_err(|source| self.read_error(source))?;
        Ok(metadata.len().saturating_sub(self.at))
    }
}

impl<R: Read> Reader<R> {
    /// Starts to read; `path` is for messages.
    ///
    /// # Errors
    /// It cannot be read, or is not a spool.
    pub fn new(mut input: R, path: &Path) -> Result<Self, Error> {
        let mut magic = [0; MAGIC.len()];
        let read = input.read_exact(&mut magic);
        if magic != *MAGIC || read.is_err() {
            let why = match read {
                Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => {
                    return Err(Error::Read { path: path.to_owned(), byte: 0, source: e });
                }
                _ => {
                    let begins = show(MAGIC.trim_ascii_end());
                    format!("is not a spool of a recording, which begins with {begins}")
                }
            };
            return Err(Error::Unrecognised { path: path.to_owned(), why });
        }
        let meta =
            Meta { format: Format::Parquet, clock: Clock::Own, has_offsets: true, notes: vec![] };
        let (path, at) = (path.to_owned(), MAGIC.len() as u64);
        Ok(Self { input, path, at, names: Names::default(), meta, ended: false })
    }

    /// The device and command names so far.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// The recording's properties so far.
    #[must_use]
    pub const fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Appends the next records to `out`; false at the end, which is the first incomplete frame.
    ///
    /// # Errors
    /// The file cannot be read, or a complete frame holds invalid content.
    pub fn read(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        while !self.ended {
            let Some((kind, payload)) = self.frame()? else {
                self.ended = true;
                break;
            };
            self.take(kind, &payload, out).map_err(|Malformed(what)| Error::Malformed {
                path: self.path.clone(),
                at: Position::Byte(self.at),
                what,
            })?;
            self.at += (HEADER + payload.len()) as u64;
            if kind == FrameKind::Records {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next frame, if it is complete.
    fn frame(&mut self) -> Result<Option<(FrameKind, Vec<u8>)>, Error> {
        let mut header = [0; HEADER];
        if !self.fill(&mut header)? {
            return Ok(None);
        }
        let [kind, a, b, c, d, crc @ ..] = header;
        let length = [a, b, c, d];
        let size = u32::from_le_bytes(length) as usize;
        let Some(known) = FrameKind::from_byte(kind).filter(|_| size <= MAX_LENGTH) else {
            return Ok(None);
        };
        let mut payload = vec![0; size];
        let whole =
            self.fill(&mut payload)? && checksum(kind, length, &payload) == u32::from_le_bytes(crc);
        Ok(whole.then_some((known, payload)))
    }

    /// Fills `bytes`; false if there are fewer.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        match self.input.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(source) => Err(self.read_error(source)),
        }
    }

    fn take(
        &mut self,
        kind: FrameKind,
        payload: &[u8],
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed> {
        match kind {
            FrameKind::Device => self.names.intern_device(payload).map(drop),
            FrameKind::Command => self.names.intern_command(payload).map(drop),
            FrameKind::Note => self.note(payload),
            FrameKind::Records => {
                let first = out.len();
                unpack_records(payload, out)?;
                let wrong = out[first..].iter().find_map(|record| {
                    let unnamed = "its device or command has no name";
                    fault(record)
                        .or_else(|| (!self.names.cover(record)).then(|| unnamed.to_owned()))
                });
                if wrong.is_some() {
                    out.truncate(first);
                }
                wrong.map_or(Ok(()), |what| Err(Malformed(format!("a record: {what}"))))
            }
        }
    }

    fn note(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let text = String::from_utf8_lossy(payload);
        let (key, value) =
            text.split_once('=').ok_or_else(|| Malformed::new("a note without a key"))?;
        let known = self.meta.notes.len();
        match self.meta.notes.iter_mut().find(|(other, _)| other == key) {
            Some((_, before)) => value.clone_into(before),
            None if known == MAX_NOTES => {
                return Err(Malformed(format!("more than {MAX_NOTES} notes")));
            }
            None => self.meta.notes.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    fn read_error(&self, source: io::Error) -> Error {
        Error::Read { path: self.path.clone(), byte: self.at, source }
    }
}

/// Spools in a directory whose recordings ended without removing them, by name. Unreadable files
/// are skipped.
#[must_use]
pub fn leftovers(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == ENDING) && is_left_over(path))
        .collect();
    found.sort();
    found
}

/// Whether it is a spool without a recorder.
fn is_left_over(path: &Path) -> bool {
    // Opening a pipe of that name would block.
    if !fs::metadata(path).is_ok_and(|m| m.is_file()) {
        return false;
    }
    let Ok(mut file) = File::open(path) else { return false };
    let mut magic = [0; MAGIC.len()];
    file.try_lock_shared().is_ok() && file.read_exact(&mut magic).is_ok() && magic == *MAGIC
}
