//! What keeps a recording through a crash: the spool beside its output.

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
    /// Makes the spool's file, and tells of those that others have left behind in the
    /// directory.
    pub(super) fn begin(out: &Path, wanted: bool) -> Result<Self> {
        announce(out);
        let file = if wanted { SpoolFile::create(out)? } else { None };
        Ok(Self { file, spool: None, lost: 0 })
    }

    /// From now on the spool gets what the recording does. It is written in a thread: this
    /// comes after what is to hold for all threads, such as giving up privileges.
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

    /// Notes what has been lost so far, and says when the spool cannot be written any more.
    pub(super) fn watch(&mut self, lost: u64) {
        if lost != self.lost {
            self.lost = lost;
            self.set_note("lost", &lost.to_string());
        }
        if let Some(failure) = self.spool.as_ref().and_then(Spool::failure) {
            let what = "recording goes on, but a crash would lose what comes from now on";
            // Recording must not fail because this cannot be said.
            log::line(&format!("{failure}: {what}"));
        }
    }

    /// The trace has its name: the spool goes.
    pub(super) fn discard(&mut self) {
        self.spool.take().into_iter().for_each(Spool::discard);
    }

    /// An error of the recording's, with what can still be done about it.
    pub(super) fn explain<T>(&self, result: Result<T>) -> Result<T> {
        match self.kept() {
            Some(path) => result.with_context(|| {
                let path = path.display();
                format!("the trace is not whole: `trimtab trace recover {path}` makes one of what was recorded")
            }),
            None => result,
        }
    }

    fn kept(&self) -> Option<PathBuf> {
        let spool = self.spool.as_ref().filter(|spool| spool.has_records())?;
        Some(spool.path().to_owned())
    }
}

/// Tells of spools beside the output whose recordings were cut short.
fn announce(out: &Path) {
    let directory = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    for path in leftovers(directory.unwrap_or(Path::new("."))) {
        let path = path.strip_prefix(".").unwrap_or(&path).display();
        let line = format!(
            "a recording was cut short and left {path}: `trimtab trace recover {path}` makes a \
             trace of it, with --remove it goes"
        );
        // Recording must not fail because this cannot be said.
        log::line(&line);
    }
}
