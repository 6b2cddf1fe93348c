//! Replicas that fail or do not answer: left out, probed, and used again.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;

/// Errors in a row after which a replica is down.
const ERRORS: u32 = 2;
/// How often a replica that is down is probed.
const PROBED_EVERY: Nanos = Nanos::from_millis(250);

/// Whether a replica is down. While it is, reads are sent to it only as probes, or if all
/// others have failed; the first completion with data ends that.
#[derive(Debug, Default)]
pub(crate) struct Health {
    errors: AtomicU32,
    /// When it is to be probed next, ns; 0: it is up.
    probe_at: AtomicU64,
}

impl Health {
    pub(crate) fn is_down(&self) -> bool {
        self.probe_at.load(Relaxed) != 0
    }

    /// A read has returned its data.
    pub(crate) fn has_answered(&self) {
        // Loads are cheaper than stores that other threads see.
        if self.errors.load(Relaxed) != 0 {
            self.errors.store(0, Relaxed);
        }
        if self.is_down() {
            self.probe_at.store(0, Relaxed);
        }
    }

    /// A read has failed.
    pub(crate) fn has_failed(&self, now: Nanos) {
        if self.errors.fetch_add(1, Relaxed).saturating_add(1) >= ERRORS {
            self.is_unresponsive(now);
        }
    }

    /// It does not answer.
    pub(crate) fn is_unresponsive(&self, now: Nanos) {
        let next = (now + PROBED_EVERY).0;
        // One that is down already keeps its time.
        _ = self.probe_at.compare_exchange(0, next, Relaxed, Relaxed);
    }

    /// Whether it is down and to be probed now.
    pub(crate) fn will_be_due(&self, now: Nanos) -> bool {
        let at = self.probe_at.load(Relaxed);
        at != 0 && at <= now.0
    }

    /// The same; true for one caller.
    pub(crate) fn is_due(&self, now: Nanos) -> bool {
        let at = self.probe_at.load(Relaxed);
        let next = (now + PROBED_EVERY).0;
        at != 0 && at <= now.0 && self.probe_at.compare_exchange(at, next, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_is_down_after_errors_in_a_row_and_up_after_data() {
        let (health, now) = (Health::default(), Nanos::from_secs(1));
        health.has_failed(now);
        health.has_answered();
        health.has_failed(now);
        assert!(!health.is_down() && !health.is_due(now));
        health.has_failed(now);
        assert!(health.is_down() && !health.is_due(now));
        let due = now + PROBED_EVERY;
        assert!(health.is_due(due) && !health.is_due(due), "one probe at a time");
        health.has_failed(due);
        assert!(health.is_due(due + PROBED_EVERY));
        health.has_answered();
        assert!(!health.is_down());
    }
}
