//! The destination of a command's JSON.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use trimtab_trace::{AtomicFile, Error};

use crate::console;
use crate::output::must_not_replace;

/// Standard output, or a file that appears once complete.
pub(crate) enum Json {
    StandardOutput,
    File(AtomicFile, PathBuf),
}

impl Json {
    /// Checks that the output can be written, before minutes of work. `-` is standard output;
    /// none of the `inputs` is replaced.
    pub(crate) fn create(out: &Path, inputs: &[&Path]) -> Result<Self> {
        if out.as_os_str() == "-" {
            return Ok(Self::StandardOutput);
        }
        must_not_replace(out, inputs)?;
        let file = AtomicFile::create(out).map_err(|e| write_error(out, e))?;
        Ok(Self::File(file, out.to_owned()))
    }

    pub(crate) fn write(self, told: &impl Serialize) -> Result<()> {
        match self {
            Self::StandardOutput => Ok(write_to(console::out(true), told).map(drop)?),
            Self::File(file, path) => {
                let written = write_to(file, told).and_then(AtomicFile::commit);
                Ok(written.map_err(|e| write_error(&path, e))?)
            }
        }
    }
}

fn write_to<W: Write>(to: W, told: &impl Serialize) -> io::Result<W> {
    let mut out = BufWriter::new(to);
    // Converted to an io::Error, so that a broken pipe is recognised.
    serde_json::to_writer_pretty(&mut out, told).map_err(io::Error::from)?;
    writeln!(out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)
}

fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}
