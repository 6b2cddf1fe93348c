//! Input files: decompression, and a sample of the beginning.
//!
//! A stream (standard input, a pipe, a device) may be endless. Its format is detected from its
//! first bytes, and reading continues from there: text and blktrace need nothing more. Parquet is
//! read from its end, so it is spooled: copied into a temporary file, up to a limit.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::encoding::decoded;
use crate::error::Error;
use crate::spool::{SpoolLimit, spool};

/// Bytes of uncompressed content used for detection.
const SAMPLE: usize = 64 << 10;
/// Bytes of a stream taken for that, compressed or not: several times the sample, because
/// compression may enlarge content, and blocks decompress as a whole.
const HEAD: usize = 256 << 10;
/// Read buffer in bytes; larger ones were no faster.
const BUFFER: usize = 256 << 10;

/// An input file of a trace.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// The first bytes of the uncompressed content.
    pub(crate) sample: Vec<u8>,
    /// Whether `sample` is the whole content.
    pub(crate) whole: bool,
    compression: Compression,
    raw: Raw,
}

/// The stored content.
enum Raw {
    File(File),
    Stream {
        head: Vec<u8>,
        /// The stream behind the head; `None` once taken.
        rest: Mutex<Option<Box<dyn Read + Send>>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    None,
    Gzip,
    Zstd,
}

/// The path that stands for standard input.
pub(crate) const STDIN: &str = "-";

impl Input {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let open_error = |source| Error::Open { path: path.to_owned(), source };
        if path.as_os_str() == STDIN {
            return Self::of(path, Raw::stream(io::stdin()).map_err(open_error)?);
        }
        let file = File::open(path).map_err(open_error)?;
        let kind = file.metadata().map_err(open_error)?;
        if kind.is_dir() {
            return Err(open_error(io::Error::new(
                io::ErrorKind::IsADirectory,
                "is a directory, expected a trace file",
            )));
        }
        if kind.is_file() {
            return Self::of(path, Raw::File(file));
        }
        Self::of(path, Raw::stream(file).map_err(open_error)?)
    }

    /// Content in memory.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let rest: Box<dyn Read + Send> = Box::new(io::empty());
        let raw = Raw::Stream { head: bytes.to_owned(), rest: Mutex::new(Some(rest)) };
        Self::of(Path::new("(memory)"), raw)
    }

    fn of(path: &Path, mut raw: Raw) -> Result<Self, Error> {
        let open_error = |source| Error::Open { path: path.to_owned(), source };
        let compression = Compression::of(&raw.magic().map_err(open_error)?);
        let mut input =
            Self { path: path.to_owned(), sample: Vec::new(), whole: false, compression, raw };
        let mut sample = Vec::with_capacity(SAMPLE + 1);
        let read = input.beginning()?.take(SAMPLE as u64 + 1).read_to_end(&mut sample);
        match read {
            // The head ends there, not the content.
            Err(_) if input.is_longer_than_its_head() && !sample.is_empty() => {}
            result => {
                let byte = sample.len() as u64;
                result.map_err(|source| Error::Read { path: path.to_owned(), byte, source })?;
                input.whole = sample.len() <= SAMPLE && !input.is_longer_than_its_head();
            }
        }
        if sample.is_empty() {
            let why = "is empty, expected a trace".to_owned();
            return Err(Error::Unrecognised { path: path.to_owned(), why });
        }
        sample.truncate(SAMPLE + 1);
        input.sample = sample;
        Ok(input)
    }

    /// Whether it can be read only once, and may be endless.
    pub(crate) const fn is_stream(&self) -> bool {
        matches!(self.raw, Raw::Stream { .. })
    }

    fn is_longer_than_its_head(&self) -> bool {
        matches!(&self.raw, Raw::Stream { head, .. } if head.len() == HEAD)
    }

    /// The beginning of the uncompressed content, for the sample; of a stream, only its head.
    fn beginning(&self) -> Result<Box<dyn BufRead + Send>, Error> {
        match &self.raw {
            Raw::File(_) => self.content(),
            Raw::Stream { head, .. } => self.uncompressed(Cursor::new(head.clone())),
        }
    }

    /// The whole content: uncompressed, and text as UTF-8. A stream can be read once.
    pub(crate) fn content(&self) -> Result<Box<dyn BufRead + Send>, Error> {
        match &self.raw {
            Raw::File(file) => {
                let error = |source| Error::Read { path: self.path.clone(), byte: 0, source };
                let mut file = file.try_clone().map_err(error)?;
                file.seek(SeekFrom::Start(0)).map_err(error)?;
                self.uncompressed(file)
            }
            Raw::Stream { head, rest } => {
                let rest = rest.lock().ok().and_then(|mut rest| rest.take());
                let rest = rest.expect("a stream is read once");
                self.uncompressed(Cursor::new(head.clone()).chain(rest))
            }
        }
    }

    fn uncompressed<R: Read + Send + 'static>(
        &self,
        raw: R,
    ) -> Result<Box<dyn BufRead + Send>, Error> {
        let error = |source| Error::Read { path: self.path.clone(), byte: 0, source };
        let content = match self.compression {
            Compression::None => decoded(BufReader::with_capacity(BUFFER, raw)),
            // Several concatenated members are one content, as for gzip itself.
            Compression::Gzip => decoded(BufReader::with_capacity(
                BUFFER,
                flate2::read::MultiGzDecoder::new(BufReader::with_capacity(BUFFER, raw)),
            )),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(raw).map_err(error)?;
                decoded(BufReader::with_capacity(BUFFER, decoder))
            }
        };
        content.map_err(error)
    }

    /// A file with the uncompressed content, for formats that seek. Spools up to the limit.
    pub(crate) fn seekable(&self, limit: SpoolLimit) -> Result<File, Error> {
        match (&self.raw, self.compression) {
            (Raw::File(file), Compression::None) => {
                let error = |source| Error::Read { path: self.path.clone(), byte: 0, source };
                file.try_clone().map_err(error)
            }
            _ => spool(&mut self.content()?, &self.path, limit),
        }
    }
}

impl Raw {
    fn stream(mut stream: impl Read + Send + 'static) -> io::Result<Self> {
        let mut head = Vec::with_capacity(HEAD);
        (&mut stream).take(HEAD as u64).read_to_end(&mut head)?;
        Ok(Self::Stream { head, rest: Mutex::new(Some(Box::new(stream))) })
    }

    /// The first bytes, which identify the compression.
    fn magic(&mut self) -> io::Result<Vec<u8>> {
        let mut magic = Vec::new();
        match self {
            Self::File(file) => {
                file.take(4).read_to_end(&mut magic)?;
            }
            Self::Stream { head, .. } => magic.extend(head.iter().take(4)),
        }
        Ok(magic)
    }
}

impl Compression {
    fn of(magic: &[u8]) -> Self {
        match magic {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// Whether the file gives the same content when opened again. True for a missing file, so that
/// opening it reports the error; false for standard input and pipes.
#[must_use]
pub fn can_be_read_twice(path: &Path) -> bool {
    path.as_os_str() != STDIN && std::fs::metadata(path).map_or(true, |m| m.is_file())
}

/// The complete lines of a sample, as a reader.
pub(crate) fn complete_lines(sample: &[u8], whole: bool) -> Cursor<&[u8]> {
    let end = match memchr::memrchr(b'\n', sample) {
        Some(newline) if !whole => newline + 1,
        _ => sample.len(),
    };
    Cursor::new(&sample[..end])
}
