//! Writing traces.
//!
//! A trace is written to a file that has no name until it is whole, so that
//! neither an error nor a crash leaves anything half-written behind.

mod atomic;

use std::path::{Path, PathBuf};

pub use atomic::AtomicFile;

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

/// Writes one trace.
pub struct Writer {
    path: PathBuf,
}

impl Writer {
    /// Begins a trace at `path`. `meta` describes the trace that the records
    /// come from, or will be.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, _format: OutputFormat, _meta: &Meta) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned() })
    }

    /// Appends records, which must come in arrival order.
    ///
    /// # Errors
    /// The file cannot be written, or a record does not fit the format.
    pub fn write(&mut self, _records: &[Record], _names: &Names) -> Result<(), Error> {
        Ok(())
    }

    /// Completes the file and gives it its name, replacing what had it. Without
    /// this nothing is left behind.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        Err(Error::Usage(format!("{}: not written yet", self.path.display())))
    }
}
