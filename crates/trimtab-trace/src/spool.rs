//! Temporary files for inputs, and their size limit.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::error::Error;

/// Limit of spooled bytes per input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpoolLimit(pub(crate) u64);

/// Default limit; larger traces are better kept in files.
const MAX: u64 = 16 << 30;
/// Share of the free space for temporary files, as a divisor.
const SHARE: u64 = 4;

impl SpoolLimit {
    /// The given limit; by default 16 GiB, or a quarter of the free space for temporary files if
    /// that is less.
    pub(crate) fn new(asked_for: Option<u64>) -> Self {
        Self(asked_for.unwrap_or_else(|| {
            let free = rustix::fs::statvfs(std::env::temp_dir())
                .map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize));
            MAX.min(free / SHARE)
        }))
    }

    /// Fails if the limit is exceeded.
    pub(crate) fn check(self, path: &Path, kept: u64) -> Result<(), Error> {
        if kept <= self.0 {
            return Ok(());
        }
        Err(Error::TooLong { path: path.to_owned(), kept, limit: self.0 })
    }
}

/// Copies content into a temporary file that has no name.
pub(crate) fn spool(from: &mut dyn Read, path: &Path, limit: SpoolLimit) -> Result<File, Error> {
    let mut kept = 0;
    let read_error = |byte, source| Error::Read { path: path.to_owned(), byte, source };
    let mut file = tempfile::tempfile().map_err(|e| write_error(&e))?;
    let mut buffer = vec![0; 256 << 10];
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => length,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(read_error(kept, e)),
        };
        limit.check(path, kept + length as u64)?;
        file.write_all(&buffer[..length]).map_err(|e| write_error(&e))?;
        kept += length as u64;
    }
    file.seek(SeekFrom::Start(0)).map_err(|e| write_error(&e))?;
    Ok(file)
}

/// A temporary file cannot be written or read back.
pub(crate) fn write_error(source: &io::Error) -> Error {
    let path = std::env::temp_dir();
    let source = io::Error::new(source.kind(), format!("temporary file: {source}"));
    Error::Write { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spool_stops_at_the_limit() {
        let path = Path::new("-");
        let copy =
            |bytes: u64, limit| spool(&mut io::repeat(7).take(bytes), path, SpoolLimit(limit));
        assert_eq!(copy(1 << 20, 1 << 20).unwrap().metadata().unwrap().len(), 1 << 20);
        let error = copy(u64::MAX, 1 << 20).unwrap_err();
        assert!(matches!(error, Error::TooLong { limit: 1_048_576, .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("limit of 1 MiB") && message.contains("--max-spool"), "{message}");
    }

    #[test]
    fn default_limit_leaves_free_space() {
        assert_eq!(SpoolLimit::new(Some(5)), SpoolLimit(5));
        assert!((1..=MAX).contains(&SpoolLimit::new(None).0));
    }
}
