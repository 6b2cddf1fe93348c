//! Bounded reading of whole files.
//!
//! A file that a user names as a scenario or a model may be an endless device or pipe, or a trace.
//! All code that reads a whole file into memory uses this, and so needs at most the limit of the
//! file's kind. (Exempt are the kernel's files in /proc and /sys, which trimtab names itself, and
//! which are small.)

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A kind of file that is read as a whole, with its size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeFile {
    what: &'static str,
    limit: u64,
}

const MIB: u64 = 1 << 20;

impl WholeFile {
    /// A description in TOML. The longest example has 6 KB; 4 MiB are a schedule of some 40,000
    /// faults, and parsing takes about ten times the size.
    #[must_use]
    pub const fn toml(what: &'static str) -> Self {
        Self { what, limit: 4 * MIB }
    }

    /// A small JSON document written by trimtab: a model's card has 2 KB, plus a few hundred bytes
    /// per candidate of parallel units.
    #[must_use]
    pub const fn json(what: &'static str) -> Self {
        Self { what, limit: MIB }
    }

    /// A model's numbers. A forest of the largest trees that training grows has under 10 MB; most
    /// models have less than 1 MB.
    pub const MODEL: Self = Self { what: "a model", limit: 64 * MIB };

    /// Reads a file, a pipe or a device.
    ///
    /// # Errors
    /// It cannot be read, or exceeds the limit.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        // The size of a device or a pipe is unknown; the limit is enforced while reading.
        let length = file.metadata()?.len();
        if length > self.limit {
            return Err(self.too_large());
        }
        let mut bytes = Vec::with_capacity(length as usize);
        file.take(self.limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > self.limit {
            return Err(self.too_large());
        }
        Ok(bytes)
    }

    /// Reads a text file.
    ///
    /// # Errors
    /// As [`read`](Self::read), and if it is not UTF-8.
    pub fn read_text(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(self.read(path)?).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            let text = format!("byte {at} is not UTF-8 text: is this {}?", self.what);
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    fn too_large(&self) -> io::Error {
        let text = format!("larger than {} MiB: is this {}?", self.limit / MIB, self.what);
        io::Error::new(io::ErrorKind::FileTooLarge, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: WholeFile = WholeFile { what: "a card", limit: 2 * MIB };

    #[test]
    fn endless_devices_and_large_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let large = folder.path().join("large");
        File::create(&large).unwrap().set_len(2 * MIB + 1).unwrap();
        for path in ["/dev/zero".as_ref(), large.as_path()] {
            let error = SMALL.read(path).unwrap_err();
            assert_eq!(error.to_string(), "larger than 2 MiB: is this a card?");
        }
        File::options().write(true).open(&large).unwrap().set_len(2 * MIB).unwrap();
        assert_eq!(SMALL.read(&large).unwrap().len() as u64, 2 * MIB);
    }

    #[test]
    fn invalid_utf8_error_names_its_position() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card");
        std::fs::write(&path, b"{}\n\xff").unwrap();
        let error = SMALL.read_text(&path).unwrap_err().to_string();
        assert_eq!(error, "byte 3 is not UTF-8 text: is this a card?");
        std::fs::write(&path, "{}\n").unwrap();
        assert_eq!(SMALL.read_text(&path).unwrap(), "{}\n");
        assert_eq!(SMALL.read_text(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let missing = folder.path().join("none");
        assert_eq!(SMALL.read(&missing).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
