//! Protection of a recording against a crash: the spool beside its output.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use trimtab_record::Recording;
use trimtab_trace::Meta;
use trimtab_trace::recording_spool::{Spool, SpoolFile, leftovers};

use crate::log;

/// The spool of this recording, if it has one.
pub(super) struct Crash {
    file: Option<SpoolFile>,
    spool: Option<Spool>,
    lost: u64,
}

impl Crash {
    /// Creates the spool's file, and reports spools that other recordings left in the
    /// directory.
    pub(super) fn begin(out: &Path, wanted: bool) -> Result<Self> {
        announce(out);
        let file = if wanted { SpoolFile::create(out)? } else { None };
        Ok(Self { file, spool: None, lost: 0 })
    }

    /// From now on the spool gets every record. A thread writes it, so process-wide settings
    /// such as reduced privileges must be made before.
    pub(super) fn attach(&mut self, recording: &mut Recording, meta: &Meta) {
        if let Some(file) = self.file.take() {
            let (spool, mut feed) = file.start(meta);
            self.spool = Some(spool);
            recording.set_tap(move |records, names| feed.push(records, names));
        }
    }

    pub(super) fn set_note(&self, key: &str, value: &str) {
        if let Some(spool) = &self.spool {
            spool.set_note(key, value);
        }
    }

    /// Records the losses so far, and reports a spool that can no longer be written.
    pub(super) fn watch(&mut self, lost: u64) {
        if lost != self.lost {
            self.lost = lost;
            self.set_note("lost", &lost.to_string());
        }
        if let Some(failure) = self.spool.as_ref().and_then(Spool::failure) {
            let what = "recording continues, but a crash would lose the rest of it";
            // Recording continues even if this cannot be reported.
            log::line(&format!("{failure}: {what}"));
        }
    }

    /// The trace is complete: removes the spool.
    pub(super) fn discard(&mut self) {
        self.spool.take().into_iter().for_each(Spool::discard);
    }

    /// Adds to an error of the recording how to recover it.
    pub(super) fn explain<T>(&self, result: Result<T>) -> Result<T> {
        match self.kept() {
            Some(path) => result.with_context(|| {
                let path = path.display();
                format!("incomplete trace: `trimtab trace recover {path}` makes one from the spool")
            }),
            None => result,
        }
    }

    fn kept(&self) -> Option<PathBuf> {
        let spool = self.spool.as_ref().filter(|spool| spool.has_records())?;
        Some(spool.path().to_owned())
    }
}

/// Reports spools of interrupted recordings beside the output.
fn announce(out: &Path) {
    let directory = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    for path in leftovers(directory.unwrap_or(Path::new("."))) {
        let path = path.strip_prefix(".").unwrap_or(&path).display();
        let line = format!(
            "an interrupted recording left {path}: `trimtab trace recover {path}` makes a trace \
             of it, or deletes it with --remove"
        );
        // Recording continues even if this cannot be reported.
        log::line(&line);
    }
}
