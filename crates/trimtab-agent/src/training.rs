//! A training in the background, and its outcome.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trimtab_predict::{Model, card_path};
use trimtab_record::monitor::Background;
use trimtab_train::{ModelFiles, WrittenModel};

use crate::error::Error;

/// A training in progress. Its files are renamed into place only when its outcome is taken, by
/// the thread that also loads models. So it never replaces a model that was installed or
/// loaded meanwhile.
pub(crate) struct Training {
    work: Background<Result<(Model, WrittenModel), Error>>,
    path: PathBuf,
    /// The files when the training began.
    before: [Option<Identity>; 2],
    void: bool,
}

/// The outcome of a training.
pub(crate) enum Outcome {
    /// A model, which is in its files.
    Trained(Arc<Model>),
    /// Dropped: its files, or the model in use, were replaced meanwhile.
    Void,
    Failed(Error),
}

impl Training {
    /// Starts a training for the model in this file; `learn` makes the new one.
    pub(crate) fn start(
        path: &Path,
        learn: impl FnOnce() -> Result<Model, Error> + Send + 'static,
    ) -> Self {
        let (path, before) = (path.to_owned(), identities(path));
        let out = path.clone();
        let work = Background::start(move || {
            // First, because unwritable paths should show before the work.
            let files = ModelFiles::create(&out)?;
            let model = learn()?;
            let written = files.write(&model)?;
            Ok((model, written))
        });
        Self { work, path, before, void: false }
    }

    /// Its outcome will be dropped. The thread cannot be stopped and runs on.
    pub(crate) const fn make_void(&mut self) {
        self.void = true;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.work.is_finished()
    }

    /// Waits for its end. If its model is valid, it is in its files then.
    pub(crate) fn finish(self) -> Outcome {
        let Self { work, path, before, void } = self;
        let done = work.finish().unwrap_or_else(|| Err(Error::TrainingPanicked));
        if void || identities(&path) != before {
            return Outcome::Void;
        }
        let committed = done.and_then(|(model, written)| {
            written.commit()?;
            Ok(model)
        });
        committed.map_or_else(Outcome::Failed, |model| Outcome::Trained(Arc::new(model)))
    }
}

/// Distinguishes a file from one that replaces it, and from later versions of itself.
#[derive(PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// The identities of a model's two files.
fn identities(path: &Path) -> [Option<Identity>; 2] {
    [path, &card_path(path)].map(|path| {
        let file = fs::metadata(path).ok()?;
        let (device, inode, bytes) = (file.dev(), file.ino(), file.len());
        Some(Identity { device, inode, bytes, modified: (file.mtime(), file.mtime_nsec()) })
    })
}

#[cfg(test)]
mod tests;
