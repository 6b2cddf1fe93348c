//! The options that every command writing traces shares, and how reports are
//! written.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use trimtab_report::Page;
use trimtab_trace::{AtomicFile, Error, LeftOut, Meta, OutputFormat, Writer};

use crate::exit::{BadInput, Incomplete};
use crate::log;

/// Where to write a trace, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct WriteArgs {
    /// The trace to write. It appears once complete, and replaces a file of that name. The
    /// ending determines the format: .parquet, .iolog or .log (fio-iolog), .csv (msr).
    #[arg(short = 'o', long = "out", value_name = "PATH")]
    out: PathBuf,
    /// Format of the output, where the ending does not tell: parquet,
    /// fio-iolog, msr.
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
}

impl WriteArgs {
    /// Begins the output. `meta` is that of the trace that the records come from.
    ///
    /// It returns the library's error, for use within the work that
    /// [`ReadArgs::with_trace`](crate::input::ReadArgs::with_trace) runs.
    pub(crate) fn create(&self, meta: &Meta) -> Result<Writer, Error> {
        Writer::create(&self.out, self.format()?, meta)
    }

    /// Makes sure that the output can be written.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.format()?;
        AtomicFile::create(&self.out).map(drop).map_err(|source| write_error(&self.out, source))
    }

    /// The format that was asked for.
    pub(crate) fn format(&self) -> Result<OutputFormat, Error> {
        must_be_a_file(&self.out)?;
        let known = match (self.to.as_deref(), self.out.extension().and_then(|e| e.to_str())) {
            (Some("parquet"), _) | (None, Some("parquet")) => OutputFormat::Parquet,
            (Some("fio-iolog"), _) | (None, Some("iolog" | "log")) => OutputFormat::FioIolog,
            (Some("msr"), _) | (None, Some("csv")) => OutputFormat::Msr,
            (Some(other), _) => {
                return Err(Error::Usage(format!(
                    "cannot write the format `{other}`; --to takes parquet, fio-iolog or msr"
                )));
            }
            (None, _) => {
                return Err(Error::Usage(format!(
                    "{}: its ending names no format, expected .parquet, .iolog, .log or .csv",
                    self.out.display()
                )));
            }
        };
        Ok(known)
    }

    /// Where the output goes.
    pub(crate) fn path(&self) -> &Path {
        &self.out
    }
}

/// Refuses `-`, which elsewhere means standard output.
pub(crate) fn must_be_a_file(out: &Path) -> Result<(), Error> {
    if out.as_os_str() != "-" {
        return Ok(());
    }
    let why = "output appears only once complete, so it needs a file's name (./- for this one)";
    Err(Error::Usage(format!("-: {why}")))
}

/// Refuses to overwrite an input.
pub(crate) fn must_not_replace(out: &Path, inputs: &[&Path]) -> Result<(), BadInput> {
    let target = out.canonicalize().ok();
    let is_input = |input: &&Path| target.is_some() && input.canonicalize().ok() == target;
    if inputs.iter().any(is_input) {
        let text = format!("{}: is an input and would be replaced; choose another", out.display());
        return Err(BadInput(text));
    }
    Ok(())
}

/// A page that appears once complete.
pub(crate) struct Report {
    file: AtomicFile,
    path: PathBuf,
}

impl Report {
    /// Checks that the page can be written, before hours of work; none of the `inputs` is
    /// replaced.
    pub(crate) fn create(path: &Path, inputs: &[&Path]) -> anyhow::Result<Self> {
        must_be_a_file(path)?;
        must_not_replace(path, inputs)?;
        let file = AtomicFile::create(path).map_err(|source| write_error(path, source))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes the page, and reports it on standard error.
    pub(crate) fn write(self, page: &Page) -> anyhow::Result<()> {
        let write = || {
            let mut out = BufWriter::new(self.file);
            write!(out, "{page}")?;
            out.into_inner().map_err(io::IntoInnerError::into_error)?.commit()
        };
        write().map_err(|source| write_error(&self.path, source))?;
        log::line(&format!("report written to {}", self.path.display()));
        Ok(())
    }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}

/// The result of a command that has written all that the format can hold: incomplete if
/// something was left out.
pub(crate) fn all_written(left_out: &LeftOut) -> anyhow::Result<()> {
    match left_out.total() {
        0 => Ok(()),
        total => {
            let what = format!("left out {total} records that the format has no place for");
            Err(Incomplete(format!("{what}: {left_out}")).into())
        }
    }
}
