//! A training in the background, and what becomes of it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trimtab_predict::{Model, card_path};
use trimtab_record::monitor::Background;
use trimtab_train::{ModelFiles, WrittenModel};

use crate::error::Error;

/// A training that has begun. Its files get their names only when its outcome is asked
/// for, by who also loads models: so it can never take the place of one that was put
/// there, or loaded, meanwhile.
pub(crate) struct Training {
    work: Background<Result<(Model, WrittenModel), Error>>,
    path: PathBuf,
    /// The files as they were when it began.
    before: [Option<Identity>; 2],
    void: bool,
}

/// What came of a training.
pub(crate) enum Outcome {
    /// A model, which its files hold.
    Trained(Arc<Model>),
    /// Nothing: its files, or the model in use, were replaced while it ran.
    Void,
    Failed(Error),
}

impl Training {
    /// Begins one for the model in this file; `learn` makes the new one.
    pub(crate) fn start(
        path: &Path,
        learn: impl FnOnce() -> Result<Model, Error> + Send + 'static,
    ) -> Self {
        let (path, before) = (path.to_owned(), identities(path));
        let out = path.clone();
        let work = Background::start(move || {
            // First, because places that cannot be written should show before the work.
            let files = ModelFiles::create(&out)?;
            let model = learn()?;
            let written = files.write(&model)?;
            Ok((model, written))
        });
        Self { work, path, before, void: false }
    }

    /// Its outcome will not be used. It goes on all the same: nothing can stop it.
    pub(crate) const fn make_void(&mut self) {
        self.void = true;
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.work.is_finished()
    }

    /// Waits for its end. A model that counts is in its files then.
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

/// Tells a file, as it is, from what replaces it or is written into it.
#[derive(PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// Of a model's two files.
fn identities(path: &Path) -> [Option<Identity>; 2] {
    [path, &card_path(path)].map(|path| {
        let file = fs::metadata(path).ok()?;
        let (device, inode, bytes) = (file.dev(), file.ino(), file.len());
        Some(Identity { device, inode, bytes, modified: (file.mtime(), file.mtime_nsec()) })
    })
}

#[cfg(test)]
mod tests;
