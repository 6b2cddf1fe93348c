//! Writing a model's two files: each appears whole, and replaces the one before.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, Uid};
use trimtab_predict::{Model, card_path};
use trimtab_trace::AtomicFile;

use crate::error::Error;

/// A model's two files while they are written: without names.
#[derive(Debug)]
pub struct ModelFiles {
    tensors: (AtomicFile, PathBuf),
    card: (AtomicFile, PathBuf),
}

impl ModelFiles {
    /// Begins the files of a model; the card will lie beside it. It fails before minutes of
    /// training, not after them.
    ///
    /// # Errors
    /// A file cannot be created there.
    pub fn create(out: &Path) -> Result<Self, Error> {
        let beside = card_path(out);
        let create = |path: &Path| AtomicFile::create(path).map_err(|e| write_error(path, e));
        Ok(Self { tensors: (create(out)?, out.to_owned()), card: (create(&beside)?, beside) })
    }

    /// Writes the files and gives them their names. Returns the card's text.
    ///
    /// # Errors
    /// A file cannot be written. Nothing is replaced then.
    pub fn commit(self, model: &Model) -> Result<String, Error> {
        self.write(model)?.commit()
    }

    /// Writes the files to the disk without giving them their names. They get the owner and the
    /// mode of the files that they replace.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(mut self, model: &Model) -> Result<WrittenModel, Error> {
        let (tensors, text) = model.to_files()?;
        for ((file, path), bytes) in
            [(&mut self.tensors, tensors.as_slice()), (&mut self.card, text.as_bytes())]
        {
            keep_access(file.file(), path)
                .and_then(|()| file.write_all(bytes))
                .and_then(|()| synced(file.file()))
                .map_err(|e| write_error(path, e))?;
        }
        Ok(WrittenModel { files: self, text })
    }
}

/// A model's files on the disk, complete but for their names.
#[derive(Debug)]
pub struct WrittenModel {
    files: ModelFiles,
    text: String,
}

impl WrittenModel {
    /// Gives the files their names, one after the other. Returns the card's text. A reader that
    /// loads one old and one new file detects that by the checksum.
    ///
    /// # Errors
    /// A file cannot get its name.
    pub fn commit(self) -> Result<String, Error> {
        let ModelFiles { tensors, card } = self.files;
        for (file, path) in [tensors, card] {
            file.commit().map_err(|e| write_error(&path, e))?;
        }
        Ok(self.text)
    }
}

/// Gives a file the mode and, as far as permitted, the owner of the file that it replaces:
/// programs that could load the model before must be able to load the new one.
fn keep_access(file: &File, replaced: &Path) -> io::Result<()> {
    let Ok(before) = fs::metadata(replaced) else { return Ok(()) };
    if !before.is_file() {
        return Ok(());
    }
    // Separately: a process that may not change the owner may still change the group.
    _ = rustix::fs::fchown(file, Some(Uid::from_raw(before.uid())), None);
    _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(before.gid())));
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(before.mode() & 0o777))?)
}

/// Flushes a file to the disk. A device or a pipe has nothing to flush.
fn synced(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.sync_data() } else { Ok(()) }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    trimtab_trace::Error::Write { path: path.to_owned(), source }.into()
}
