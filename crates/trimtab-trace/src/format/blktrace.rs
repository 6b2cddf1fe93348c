//! Not read yet.

use std::path::PathBuf;

use crate::error::Error;
use crate::input::Input;
use crate::source::Source;

/// Whether a file begins as blktrace's output does.
pub(crate) fn looks_like(_sample: &[u8]) -> bool {
    false
}

/// Completes a base name (`sda.blktrace`) to its per-CPU files.
pub(crate) fn with_siblings(paths: &[PathBuf]) -> Vec<PathBuf> {
    paths.to_vec()
}

/// Reads the files of one recording together.
pub(crate) fn open(inputs: &[Input]) -> Result<Box<dyn Source + Send>, Error> {
    let why = "not read yet".to_owned();
    Err(Error::Unrecognised { path: inputs[0].path.clone(), why })
}
