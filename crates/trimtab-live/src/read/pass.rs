//! A read that was let through, until it is back.

use trimtab_io::Nanos;
use trimtab_predict::Label;

use super::figures::Counters;
use super::guard::Guard;

/// Why a read was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It is not judged when it is back: nothing was expected of it.
    Plain,
    /// It was expected to be in time.
    Fast,
    /// It was expected to be late, and is a probe.
    Probe,
    /// It was expected to be late.
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

/// Leave to send a read. [`finish`](Self::finish) it when the data are there, and drop
/// it if they do not come: the time between is how a reader knows whether it was right.
#[must_use = "a read that was let through is to be sent, and then `finish`ed"]
#[derive(Debug)]
pub struct Pass<'a> {
    counters: &'a Counters,
    guard: &'a Guard,
    why: Why,
    judged: Option<Judged<'a>>,
}

impl<'a> Pass<'a> {
    pub(super) const fn new(
        counters: &'a Counters,
        guard: &'a Guard,
        why: Why,
        judged: Option<Judged<'a>>,
    ) -> Self {
        Self { counters, guard, why, judged }
    }

    /// The data have come.
    pub fn finish(self) {
        if let Some(judged) = &self.judged {
            let took = crate::state::now().since(judged.sent);
            let was_late = judged.label.is_slow(took, judged.pages, judged.load);
            match self.why {
                Why::Plain => {}
                Why::Fast if was_late => self.counters.was_late(),
                Why::Fast => {}
                Why::Probe | Why::Trial => self.counters.tried(was_late),
            }
        }
    }

    /// Whether the model had expected the read to be late: it is sent as a probe, a
    /// sample, or because too many were refused.
    #[must_use]
    pub const fn is_trial(&self) -> bool {
        matches!(self.why, Why::Probe | Why::Trial)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.why == Why::Probe {
            self.guard.probed();
        }
    }
}
