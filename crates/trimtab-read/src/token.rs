//! A read that was let through, until it is back.

use std::sync::Arc;

use trimtab_io::{Nanos, monotonic};
use trimtab_predict::Label;

use crate::detachable::Left;
use crate::figures::Counters;
use crate::outstanding::Outstanding;

/// AdmissionReason a read was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionReason {
    /// It is not judged when it is back: nothing was expected of it.
    Plain,
    /// It was expected to be in time.
    Fast,
    /// It was expected to be late: it counts among those that are out.
    Trial,
}

/// How a read is judged by that is back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged<'a> {
    pub(super) label: &'a Label,
    pub(super) sent: Nanos,
    pub(super) pages: u32,
    pub(super) load: u32,
}

/// Admission to send a read. [`finish`](Self::finish) it when the data are there, and drop
/// it if they do not come: the time between is how a reader knows whether it was right.
#[must_use = "a read that was let through is to be sent, and then `finish`ed"]
#[derive(Debug)]
pub struct ReadToken<'a> {
    counters: &'a Counters,
    drive: &'a Outstanding,
    why: AdmissionReason,
    judged: Option<Judged<'a>>,
}

impl<'a> ReadToken<'a> {
    pub(super) const fn new(
        counters: &'a Counters,
        drive: &'a Outstanding,
        why: AdmissionReason,
        judged: Option<Judged<'a>>,
    ) -> Self {
        Self { counters, drive, why, judged }
    }

    /// What is out on the drive that is read from.
    pub(super) const fn drive(&self) -> &'a Outstanding {
        self.drive
    }

    /// The data have come.
    pub fn finish(self) {
        if let Some(was_late) = self.is_late_by_now() {
            match self.why {
                AdmissionReason::Plain => {}
                AdmissionReason::Fast if was_late => self.counters.was_late(),
                AdmissionReason::Fast => {}
                AdmissionReason::Trial => self.counters.tried(was_late),
            }
        }
    }

    /// Nobody waits for it any more. The drive may have the read still: then it counts
    /// among those that are out until it has ended.
    pub(super) fn abandon(self, read: Option<Arc<dyn Left>>) {
        self.counters.timed_out();
        if self.is_late_by_now() == Some(true) {
            match self.why {
                AdmissionReason::Plain => {}
                AdmissionReason::Fast => self.counters.was_late(),
                AdmissionReason::Trial => self.counters.tried(true),
            }
        }
        if let Some(read) = read {
            self.drive.abandon(read, self.is_trial());
            // It has not ended.
            std::mem::forget(self);
        }
    }

    /// Whether what the model calls late has passed; none where nothing was expected.
    fn is_late_by_now(&self) -> Option<bool> {
        let judged = self.judged.as_ref()?;
        let took = monotonic().since(judged.sent);
        Some(judged.label.is_slow(took, judged.pages, judged.load))
    }

    /// Whether the model had expected the read to be late: it is sent as a probe, a
    /// sample, or because too many were refused.
    #[must_use]
    pub const fn is_trial(&self) -> bool {
        matches!(self.why, AdmissionReason::Trial)
    }
}

impl Drop for ReadToken<'_> {
    fn drop(&mut self) {
        if self.why == AdmissionReason::Trial {
            self.drive.trials.end();
        }
    }
}
