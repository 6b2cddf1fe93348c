//! The interface of format readers: bytes in, records out, a batch at a time.

use std::io::{self, BufRead};
use std::path::PathBuf;

use crate::error::{Error, Malformed, Position};
use crate::names::Names;
use crate::record::Record;

/// Records a source aims to add per call. Large enough to hide the dynamic
/// call, small enough to stay in the L2 cache.
pub(crate) const BATCH: usize = 4096;

/// A stream of records in the order in which the file holds them.
pub(crate) trait Source {
    /// Appends about [`BATCH`] records, and returns whether there may be more.
    ///
    /// On an error, `out` holds the valid records before it; calling again continues behind the bad
    /// record, if the format allows that.
    fn fill(&mut self, names: &mut Names, out: &mut Vec<Record>) -> Result<bool, Error>;
}

/// Parser of a text format, by line.
pub(crate) trait LineParser {
    /// Parses one line (without its end; never empty) and appends the records that it completes:
    /// usually one, none for a header.
    fn line(
        &mut self,
        line: &[u8],
        names: &mut Names,
        out: &mut Vec<Record>,
    ) -> Result<(), Malformed>;

    /// End of the input: appends records that were still open.
    fn end(&mut self, _names: &mut Names, _out: &mut Vec<Record>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// Runs a [`LineParser`] over a reader. Lines are borrowed from the reader's buffer; only a line
/// that straddles two buffers is copied.
pub(crate) struct Lines<R, P> {
    reader: R,
    parser: P,
    path: PathBuf,
    /// The line being read, from 1.
    line: u64,
    /// Bytes before the reader's buffer.
    byte: u64,
    /// The start of a line whose end is not in the buffer yet.
    carry: Vec<u8>,
    ended: bool,
}

/// A longer line means that the file is no trace; it must not be read into memory whole.
const MAX_LINE: usize = 64 << 10;

impl<R: BufRead, P: LineParser> Lines<R, P> {
    pub(crate) fn new(reader: R, parser: P, path: PathBuf) -> Self {
        Self { reader, parser, path, line: 0, byte: 0, carry: Vec::new(), ended: false }
    }

    fn malformed(&self, Malformed(what): Malformed) -> Error {
        Error::Malformed { path: self.path.clone(), at: Position::Line(self.line), what }
    }

    fn read_error(&self, source: io::Error) -> Error {
        Error::Read { path: self.path.clone(), byte: self.byte, source }
    }

    fn end(&mut self, names: &mut Names, out: &mut Vec<Record>) -> Result<bool, Error> {
        self.ended = true;
        if !self.carry.is_empty() {
            self.line += 1;
            let last = std::mem::take(&mut self.carry);
            feed(&mut self.parser, &last, names, out).map_err(|e| self.malformed(e))?;
        }
        self.parser.end(names, out).map_err(|e| self.malformed(e))?;
        Ok(false)
    }
}

/// Whether there is nothing on a line to be parsed.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Passes a line to the parser, without its carriage return, and skips blank lines.
fn feed<P: LineParser>(
    parser: &mut P,
    line: &[u8],
    names: &mut Names,
    out: &mut Vec<Record>,
) -> Result<(), Malformed> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if is_blank(line) {
        return Ok(());
    }
    parser.line(line, names, out)
}

impl<R: BufRead, P: LineParser> Source for Lines<R, P> {
    fn fill(&mut self, names: &mut Names, out: &mut Vec<Record>) -> Result<bool, Error> {
        let enough = out.len() + BATCH;
        while out.len() < enough {
            if self.ended {
                return Ok(false);
            }
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => {
                    self.ended = true;
                    return Err(self.read_error(e));
                }
            };
            if buffer.is_empty() {
                return self.end(names, out);
            }
            let mut used = 0;
            let mut bad = None;
            for newline in memchr::memchr_iter(b'\n', buffer) {
                let line = &buffer[used..newline];
                used = newline + 1;
                self.line += 1;
                let result = if self.carry.is_empty() {
                    feed(&mut self.parser, line, names, out)
                } else {
                    self.carry.extend_from_slice(line);
                    let result = feed(&mut self.parser, &self.carry, names, out);
                    self.carry.clear();
                    result
                };
                if let Err(e) = result {
                    bad = Some(e);
                    break;
                }
                if out.len() >= enough {
                    break;
                }
            }
            if bad.is_none() && out.len() < enough {
                self.carry.extend_from_slice(&buffer[used..]);
                used = buffer.len();
            }
            self.reader.consume(used);
            self.byte += used as u64;
            if let Some(e) = bad {
                return Err(self.malformed(e));
            }
            if self.carry.len() > MAX_LINE {
                self.line += 1;
                self.ended = true;
                let what = format!("expected text, found a line of over {MAX_LINE} bytes");
                return Err(self.malformed(Malformed(what)));
            }
        }
        Ok(true)
    }
}
