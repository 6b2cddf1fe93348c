//! Writing traces.
//!
//! A trace is written to a file that has no name until it is whole, so that
//! neither an error nor a crash leaves anything half-written behind.

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

/// Records that a trace's new format has no place for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Flushes, where the format knows none.
    pub flushes: u64,
    /// Discards, where the format knows none.
    pub discards: u64,
    /// Requests without a completion time, where the format demands one.
    pub unanswered: u64,
    /// Requests with a length, time or response time beyond the format's
    /// range.
    pub out_of_range: u64,
}

impl LeftOut {
    /// How many in all.
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
/// use trimtab_trace::{Options, OutputFormat, Trace, Writer};
///
/// # fn main() -> Result<(), trimtab_trace::Error> {
/// let mut trace = Trace::open(&["usr_0.csv.gz".into()], &Options::default())?;
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
    kind: Kind,
    records: u64,
    left_out: LeftOut,
}

enum Kind {
    Parquet(Box<ParquetWriter>),
    FioIolog(FioIolog),
    Msr(Msr),
}

impl Writer {
    /// Begins a trace at `path`. `meta` describes the trace that the records
    /// come from, or will be.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, format: OutputFormat, meta: &Meta) -> Result<Self, Error> {
        let begin = || -> io::Result<Kind> {
            let file = AtomicFile::create(path)?;
            Ok(match format {
                OutputFormat::Parquet => Kind::Parquet(Box::new(ParquetWriter::new(file, meta)?)),
                OutputFormat::FioIolog => Kind::FioIolog(FioIolog::new(file)?),
                OutputFormat::Msr => Kind::Msr(Msr::new(file)),
            })
        };
        let kind = begin().map_err(|e| Error::write(path, e))?;
        Ok(Self { path: path.to_owned(), kind, records: 0, left_out: LeftOut::default() })
    }

    /// Notes something that became known after the trace was begun, as
    /// [`Meta::notes`] does before. Only the native format keeps notes; for
    /// others this does nothing.
    pub fn set_note(&mut self, key: &str, value: &str) {
        if let Kind::Parquet(writer) = &mut self.kind {
            writer.set_note(key, value);
        }
    }

    /// Appends records, which must come in arrival order. What the format has
    /// no place for is counted in [`left_out`](Self::left_out).
    ///
    /// # Errors
    /// The file cannot be written, or a record contradicts itself (its
    /// completion lies before its arrival, say).
    pub fn write(&mut self, records: &[Record], names: &Names) -> Result<(), Error> {
        for (number, record) in (self.records + 1..).zip(records) {
            if let Some(fault) = parquet::fault(record) {
                let path = self.path.display();
                return Err(Error::Usage(format!("{path}: cannot hold record {number}: {fault}")));
            }
        }
        self.records += records.len() as u64;
        let written = match &mut self.kind {
            Kind::Parquet(writer) => writer.write(records, names),
            Kind::FioIolog(writer) => writer.write(records, names, &mut self.left_out),
            Kind::Msr(writer) => writer.write(records, names, &mut self.left_out),
        };
        written.map_err(|e| Error::write(&self.path, e))
    }

    /// How many records were given to [`write`](Self::write), with those left
    /// out.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// What the format had no place for, so far.
    #[must_use]
    pub const fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Completes the file and gives it its name, replacing what had it. Without
    /// this nothing is left behind.
    ///
    /// # Errors
    /// The file cannot be written; or there were records, and the format had a
    /// place for none of them.
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
            Kind::Parquet(writer) => writer.finish(),
            Kind::FioIolog(writer) => writer.finish(),
            Kind::Msr(writer) => writer.finish(),
        };
        finished.map_err(|e| Error::write(&self.path, e))
    }
}
