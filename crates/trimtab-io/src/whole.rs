//! Files that are read into memory as a whole, none of them without a limit.
//!
//! What a user names as a scenario or a model may be a device or a pipe without an end, or
//! a trace. Everything that takes a whole file into memory reads it here, so that it costs
//! at most the limit of its kind. (Files of the kernel in /proc and /sys are apart: they
//! are ours to name, and small.)

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A kind of file that is read as a whole, and how large one may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeFile {
    what: &'static str,
    limit: u64,
}

const MIB: u64 = 1 << 20;

impl WholeFile {
    /// A description in TOML. The longest of the examples has 6 KB; 4 MiB are a schedule of
    /// some 40,000 faults, and parsing takes some ten times the size.
    #[must_use]
    pub const fn toml(what: &'static str) -> Self {
        Self { what, limit: 4 * MIB }
    }

    /// A small JSON document that trimtab has written: a model's card has 2 KB, of which a
    /// few hundred bytes more for each way to tell units apart.
    #[must_use]
    pub const fn json(what: &'static str) -> Self {
        Self { what, limit: MIB }
    }

    /// A model's numbers. A forest of the largest trees that training grows has under
    /// 10 MB; most models have less than 1 MB.
    pub const MODEL: Self = Self { what: "a model", limit: 64 * MIB };

    /// Reads a file, a pipe or a device.
    ///
    /// # Errors
    /// It cannot be read, or is larger than its kind may be.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = File::open(path)?;
        // A device or a pipe says nothing here, and is found out by reading.
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

    /// The same for text.
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
    fn what_is_no_text_is_told_with_its_place() {
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
