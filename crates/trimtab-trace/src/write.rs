//! Writing traces.
//!
//! A trace file has no name until it is complete, so neither an error nor a crash leaves a partial
//! file.

mod atomic;
mod fio_iolog;
mod msr;
pub(crate) mod parquet;
mod predictions;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub use atomic::AtomicFile;
pub use predictions::{Prediction, PredictionSource, PredictionWriter};

use self::fio_iolog::FioIolog;
use self::msr::Msr;
use self::parquet::ParquetWriter;
use crate::error::Error;
use crate::names::Names;
use crate::reader::Meta;
use crate::record::Record;

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// The native format: docs/trace-format.md.
    Parquet,
    /// fio's I/O log, version 3.
    FioIolog,
    /// MSR Cambridge CSV.
    Msr,
}

/// Records that the output format cannot represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Flushes, if the format has none.
    pub flushes: u64,
    /// Discards, if the format has none.
    pub discards: u64,
    /// Requests without a completion time, if the format requires one.
    pub unanswered: u64,
    /// Requests with a length, time or response time beyond the format's
    /// range.
    pub out_of_range: u64,
}

impl LeftOut {
    /// Total.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.flushes + self.discards + self.unanswered + self.out_of_range
    }
}

/// `2 flushes, 1 without a completion time`.
impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            (self.flushes, "flushes"),
            (self.discards, "discards"),
            (self.unanswered, "without a completion time"),
            (self.out_of_range, "beyond the format's range"),
        ];
        let mut separator = "";
        for (count, kind) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{separator}{count} {kind}")?;
            separator = ", ";
        }
        Ok(())
    }
}

/// Writes one trace.
///
/// ```no_run
/// use trimtab_trace::{TraceOptions, OutputFormat, Trace, Writer};
///
/// # fn main() -> Result<(), trimtab_trace::Error> {
/// let mut trace = Trace::open(&["usr_0.csv.gz".into()], &TraceOptions::default())?;
/// let mut writer = Writer::create("usr_0.parquet".as_ref(), OutputFormat::Parquet, trace.meta())?;
/// let mut batch = Vec::new();
/// while trace.read(&mut batch)? {
///     writer.write(&batch, trace.names())?;
/// }
/// writer.finish()
/// # }
/// ```
pub struct Writer {
    path: PathBuf,
    kind: FormatWriter,
    records: u64,
    left_out: LeftOut,
}

enum FormatWriter {
    Parquet(Box<ParquetWriter>),
    FioIolog(FioIolog),
    Msr(Msr),
}

impl Writer {
    /// Starts a trace at `path`. `meta` describes the trace of the records.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, format: OutputFormat, meta: &Meta) -> Result<Self, Error> {
        let begin = || -> io::Result<FormatWriter> {
            let file = AtomicFile::create(path)?;
            Ok(match format {
                OutputFormat::Parquet => {
                    FormatWriter::Parquet(Box::new(ParquetWriter::new(file, meta)?))
                }
                OutputFormat::FioIolog => FormatWriter::FioIolog(FioIolog::new(file)?),
                OutputFormat::Msr => FormatWriter::Msr(Msr::new(file)),
            })
        };
        let kind = begin().map_err(|e| Error::write(path, e))?;
        Ok(Self { path: path.to_owned(), kind, records: 0, left_out: LeftOut::default() })
    }

    /// Sets a note that became known after the start, like those in [`Meta::notes`]. Only the
    /// native format has notes; otherwise this does nothing.
    pub fn set_note(&mut self, key: &str, value: &str) {
        if let FormatWriter::Parquet(writer) = &mut self.kind {
            writer.set_note(key, value);
        }
    }

    /// Appends records, which must be in arrival order. Records that the format cannot represent
    /// are counted in [`left_out`](Self::left_out).
    ///
    /// # Errors
    /// The file cannot be written, or a record contradicts itself (its completion is before its
    /// arrival, say).
    pub fn write(&mut self, records: &[Record], names: &Names) -> Result<(), Error> {
        for (number, record) in (self.records + 1..).zip(records) {
            if let Some(fault) = parquet::fault(record) {
                let path = self.path.display();
                return Err(Error::Usage(format!("{path}: cannot hold record {number}: {fault}")));
            }
        }
        self.records += records.len() as u64;
        let written = match &mut self.kind {
            FormatWriter::Parquet(writer) => writer.write(records, names),
            FormatWriter::FioIolog(writer) => writer.write(records, names, &mut self.left_out),
            FormatWriter::Msr(writer) => writer.write(records, names, &mut self.left_out),
        };
        written.map_err(|e| Error::write(&self.path, e))
    }

    /// Records passed to [`write`](Self::write), including those left out.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Records left out so far.
    #[must_use]
    pub const fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Completes the file and gives it its name, replacing an existing file. Without this call no
    /// file is left.
    ///
    /// # Errors
    /// The file cannot be written; or the format could represent none of the records.
    pub fn finish(self) -> Result<(), Error> {
        if self.records > 0 && self.records == self.left_out.total() {
            return Err(Error::Usage(format!(
                "{}: the format has no place for any of the {} records ({}); parquet has",
                self.path.display(),
                self.records,
                self.left_out
            )));
        }
        let finished = match self.kind {
            FormatWriter::Parquet(writer) => writer.finish(),
            FormatWriter::FioIolog(writer) => writer.finish(),
            FormatWriter::Msr(writer) => writer.finish(),
        };
        finished.map_err(|e| Error::write(&self.path, e))
    }
}
