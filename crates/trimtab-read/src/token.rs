//! The token of an admitted read, from admission to completion.

use std::sync::Arc;
use std::time::Duration;

use trimtab_io::{Nanos, monotonic};
use trimtab_predict::Label;

use crate::auto_reads::AutoRead;
use crate::detachable::Left;
use crate::figures::Counters;
use crate::outstanding::Outstanding;

/// Why a read was admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionReason {
    /// There was no forecast, so its completion is not scored.
    NoForecast,
    /// It was forecast to be in time.
    InTime,
    /// It was forecast to be late and is sent nevertheless: a probe, a sample, or over the
    /// refusal cap. It counts among the drive's outstanding ones.
    Forced,
}

/// The forecast that a completion is scored against.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scored<'a> {
    pub(super) label: &'a Label,
    pub(super) sent: Nanos,
    pub(super) pages: u32,
    pub(super) load: u32,
}

/// An admitted read. [`finish`](Self::finish) it when the data have arrived, and drop it if
/// the read fails: the time between scores the forecast.
#[must_use = "an admitted read is to be sent, and then `finish`ed"]
#[derive(Debug)]
pub struct ReadToken<'a> {
    counters: &'a Counters,
    drive: &'a Outstanding,
    reason: AdmissionReason,
    scored: Option<Scored<'a>>,
    auto: Option<AutoRead<'a>>,
}

impl<'a> ReadToken<'a> {
    pub(super) const fn new(
        counters: &'a Counters,
        drive: &'a Outstanding,
        reason: AdmissionReason,
        scored: Option<Scored<'a>>,
    ) -> Self {
        Self { counters, drive, reason, scored, auto: None }
    }

    /// The same for a read with an automatic deadline.
    pub(super) fn with_auto(mut self, read: AutoRead<'a>) -> Self {
        self.auto = Some(read);
        self
    }

    /// How long the read may take, if its deadline is automatic.
    #[must_use]
    pub fn auto_deadline(&self) -> Option<Duration> {
        self.auto.as_ref().map(|read| Duration::from_nanos(read.within().0))
    }

    /// The outstanding reads of the drive.
    pub(super) const fn drive(&self) -> &'a Outstanding {
        self.drive
    }

    /// The data have arrived.
    pub fn finish(mut self) {
        if let Some(read) = self.auto.take() {
            read.answered();
        }
        if let Some(was_late) = self.is_late_by_now() {
            match self.reason {
                AdmissionReason::NoForecast => {}
                AdmissionReason::InTime if was_late => self.counters.was_late(),
                AdmissionReason::InTime => {}
                AdmissionReason::Forced => self.counters.tried(was_late),
            }
        }
    }

    /// Its caller has abandoned it at the deadline. If the drive still has the read, it counts
    /// as outstanding until it completes.
    pub(super) fn abandon(mut self, read: Option<Arc<dyn Left>>) {
        if let Some(read) = self.auto.take() {
            read.refused();
        }
        self.counters.timed_out();
        if self.is_late_by_now() == Some(true) {
            match self.reason {
                AdmissionReason::NoForecast => {}
                AdmissionReason::InTime => self.counters.was_late(),
                AdmissionReason::Forced => self.counters.tried(true),
            }
        }
        if let Some(read) = read {
            self.drive.abandon(read, self.is_forced());
            // It has not completed.
            std::mem::forget(self);
        }
    }

    /// Whether the label's threshold has passed; `None` without a forecast.
    fn is_late_by_now(&self) -> Option<bool> {
        let scored = self.scored.as_ref()?;
        let took = monotonic().since(scored.sent);
        Some(scored.label.is_slow(took, scored.pages, scored.load))
    }

    /// Whether the read was forecast to be late: it is sent as a probe, a sample, or because
    /// too many were refused.
    #[must_use]
    pub const fn is_forced(&self) -> bool {
        matches!(self.reason, AdmissionReason::Forced)
    }
}

impl Drop for ReadToken<'_> {
    fn drop(&mut self) {
        if let Some(read) = &self.auto {
            read.failed();
        }
        if self.reason == AdmissionReason::Forced {
            self.drive.forced.end();
        }
    }
}
