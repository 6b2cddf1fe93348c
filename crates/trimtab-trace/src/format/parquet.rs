//! Not read yet.

use crate::error::Error;
use crate::input::Input;
use crate::reader::Meta;
use crate::source::Source;

/// Whether a file begins as Parquet does.
pub(crate) fn looks_like(sample: &[u8]) -> bool {
    sample.starts_with(b"PAR1")
}

/// Opens a native trace and reads its footer.
pub(crate) fn open(input: &Input, _meta: &mut Meta) -> Result<Box<dyn Source + Send>, Error> {
    let why = "not read yet".to_owned();
    Err(Error::Unrecognised { path: input.path.clone(), why })
}
