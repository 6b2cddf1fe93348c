//! Getting at a file's content: decompressed, seekable, with its beginning at
//! hand.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// How much of a file is looked at to recognise it.
const SAMPLE: usize = 64 << 10;
/// Read buffer in bytes; larger ones were no faster.
const BUFFER: usize = 256 << 10;

/// One file to read a trace from.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// The first bytes of the uncompressed content.
    pub(crate) sample: Vec<u8>,
    /// Whether `sample` is all there is.
    pub(crate) whole: bool,
    compression: Compression,
    file: File,
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
        let file = if path.as_os_str() == STDIN {
            // Kept in a file, because the content is read more than once.
            spool(&mut io::stdin().lock()).map_err(open_error)?
        } else {
            let file = File::open(path).map_err(open_error)?;
            let kind = file.metadata().map_err(open_error)?;
            if kind.is_dir() {
                return Err(open_error(io::Error::new(
                    io::ErrorKind::IsADirectory,
                    "is a directory, expected a trace file",
                )));
            }
            // A pipe cannot be read twice either.
            if kind.is_file() { file } else { spool(&mut &file).map_err(open_error)? }
        };
        Self::of(path, file)
    }

    /// Content that is in memory already.
    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Result<Self, Error> {
        let path = Path::new("(memory)");
        let file =
            spool(&mut bytes).map_err(|source| Error::Open { path: path.to_owned(), source })?;
        Self::of(path, file)
    }

    fn of(path: &Path, mut file: File) -> Result<Self, Error> {
        let open_error = |source| Error::Open { path: path.to_owned(), source };
        let compression = Compression::of(&mut file).map_err(open_error)?;
        let mut input =
            Self { path: path.to_owned(), sample: Vec::new(), whole: false, compression, file };
        let mut sample = Vec::with_capacity(SAMPLE + 1);
        input.content()?.take(SAMPLE as u64 + 1).read_to_end(&mut sample).map_err(|source| {
            Error::Read { path: path.to_owned(), byte: sample.len() as u64, source }
        })?;
        if sample.is_empty() {
            let why = "is empty, expected a trace".to_owned();
            return Err(Error::Unrecognised { path: path.to_owned(), why });
        }
        input.whole = sample.len() <= SAMPLE;
        input.sample = sample;
        Ok(input)
    }

    /// The uncompressed content from its beginning.
    pub(crate) fn content(&self) -> Result<Box<dyn BufRead + Send>, Error> {
        let error = |source| Error::Read { path: self.path.clone(), byte: 0, source };
        let mut file = self.file.try_clone().map_err(error)?;
        file.seek(SeekFrom::Start(0)).map_err(error)?;
        Ok(match self.compression {
            Compression::None => Box::new(BufReader::with_capacity(BUFFER, file)),
            // Several members in a row are one content, as gzip itself has it.
            Compression::Gzip => Box::new(BufReader::with_capacity(
                BUFFER,
                flate2::read::MultiGzDecoder::new(BufReader::with_capacity(BUFFER, file)),
            )),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::new(file).map_err(error)?;
                Box::new(BufReader::with_capacity(BUFFER, decoder))
            }
        })
    }

    /// A file with the uncompressed content, for formats that need to seek.
    pub(crate) fn seekable(&self) -> Result<File, Error> {
        let error = |source| Error::Read { path: self.path.clone(), byte: 0, source };
        match self.compression {
            Compression::None => self.file.try_clone().map_err(error),
            _ => spool(&mut self.content()?).map_err(error),
        }
    }
}

impl Compression {
    fn of(file: &mut File) -> io::Result<Self> {
        let mut magic = Vec::new();
        file.take(4).read_to_end(&mut magic)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(match magic[..] {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            _ => Self::None,
        })
    }
}

/// Whether this is a file that gives the same content when opened again. One
/// that does not exist counts as such: opening it says what is wrong. Standard
/// input and pipes do not.
#[must_use]
pub fn can_be_read_twice(path: &Path) -> bool {
    path.as_os_str() != STDIN && std::fs::metadata(path).map_or(true, |m| m.is_file())
}

/// Copies a stream into a temporary file that has no name.
fn spool(from: &mut dyn Read) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(from, &mut file)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file)
}

/// The complete lines of a sample, as a reader.
pub(crate) fn complete_lines(sample: &[u8], whole: bool) -> Cursor<&[u8]> {
    let end = match memchr::memrchr(b'\n', sample) {
        Some(newline) if !whole => newline + 1,
        _ => sample.len(),
    };
    Cursor::new(&sample[..end])
}
