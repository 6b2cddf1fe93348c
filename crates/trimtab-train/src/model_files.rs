//! A model's two files: each appears whole, and replaces what was there before.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{Gid, Mode, Uid};
use trimtab_predict::{Model, card_path};
use trimtab_trace::{AtomicFile, Error};

use crate::log;

/// Reads a model, and passes on what its user should hear of it.
pub(crate) fn load(path: &Path) -> Result<Model, trimtab_predict::Error> {
    let model = Model::load(path)?;
    if let Some(caution) = model.caution() {
        log::line(&format!("warning: {}: {caution}", path.display()));
    }
    Ok(model)
}

/// The files in the making.
pub(crate) struct ModelFiles {
    tensors: (AtomicFile, PathBuf),
    card: (AtomicFile, PathBuf),
}

impl ModelFiles {
    /// Makes sure that they can be written, before minutes of work.
    pub(crate) fn create(out: &Path) -> Result<Self> {
        let beside = card_path(out);
        let create = |path: &Path| AtomicFile::create(path).map_err(|e| write_error(path, e));
        Ok(Self { tensors: (create(out)?, out.to_owned()), card: (create(&beside)?, beside) })
    }

    /// Writes them, and gives the card's text.
    pub(crate) fn commit(self, model: &Model) -> Result<String> {
        self.write(model)?.commit()
    }

    /// Writes them to the disk, but gives them no names yet. Who may read what they are
    /// to replace may read them too.
    pub(crate) fn write(mut self, model: &Model) -> Result<WrittenModel> {
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

/// The files, which lack nothing but their names.
pub(crate) struct WrittenModel {
    files: ModelFiles,
    text: String,
}

impl WrittenModel {
    /// Puts them in their places, and gives the card's text. Who reads between one and
    /// the other finds by the card's checksum that they do not belong together.
    pub(crate) fn commit(self) -> Result<String> {
        let ModelFiles { tensors, card } = self.files;
        for (file, path) in [tensors, card] {
            file.commit().map_err(|e| write_error(&path, e))?;
        }
        Ok(self.text)
    }
}

/// Gives a file the mode and, as far as we may, the owner of what it is to replace: whoever
/// used the model before must be able to use the new one.
fn keep_access(file: &File, replaced: &Path) -> io::Result<()> {
    let Ok(before) = fs::metadata(replaced) else { return Ok(()) };
    if !before.is_file() {
        return Ok(());
    }
    // One by one: who may not give a file away may still give it to a group of its own.
    _ = rustix::fs::fchown(file, Some(Uid::from_raw(before.uid())), None);
    _ = rustix::fs::fchown(file, None, Some(Gid::from_raw(before.gid())));
    Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(before.mode() & 0o777))?)
}

/// Has it on the disk. A device or a pipe, which some write models to, knows no such thing.
fn synced(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.sync_data() } else { Ok(()) }
}

fn write_error(path: &Path, source: io::Error) -> Error {
    Error::Write { path: path.to_owned(), source }
}
