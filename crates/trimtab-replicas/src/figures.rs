//! The figures of a set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use trimtab_io::Nanos;
use trimtab_steer::{MOST_REPLICAS, Replica};

/// The figures of a set since it was opened: a snapshot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetFigures {
    /// Reads of the application, with those that returned no data. A read of more than 1 MiB
    /// counts once for each MiB.
    pub reads: u64,
    /// Reads that no replica could serve.
    pub errors: u64,
    /// Reads that no replica served within their deadline.
    pub timed_out: u64,
    /// Reads that were served without a ring, by one replica at a time: nothing could be
    /// hedged.
    pub plain: u64,
    /// Reads sent first to another replica than their primary one.
    pub moved: u64,
    /// Requests sent to replicas, beyond one for each read.
    pub extra: u64,
    /// Of these: sent because the read took longer than expected.
    pub hedges: u64,
    /// Of these: sent to keep a deadline, or because a read without one took very long. They
    /// are not limited by [`most_extra`](crate::SetOptions::most_extra).
    pub rescues: u64,
    /// Of these: sent at once, as probes of replicas that are avoided or down, and to the
    /// control group.
    pub probes: u64,
    /// Reads of which not all replicas were forecast by a model.
    pub without_model: u64,
    /// Bytes copied from the library's buffers to the application's.
    pub copied_bytes: u64,
    /// The control group.
    pub gain: Gain,
    /// By replica, in the order in which they were given.
    pub replicas: Vec<ReplicaFigures>,
}

/// What moving reads away from their primary replica gains, measured on the control group: reads
/// that were sent to both at once. The application gets the first answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// Reads with both latencies known.
    pub pairs: u64,
    /// The mean by which the moved read was faster than the one at the primary replica, ns;
    /// negative if it was slower.
    pub mean_ns: f64,
    /// The standard error of the mean, ns.
    pub error_ns: f64,
}

/// The figures of one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaFigures {
    /// Reads of the application that it served.
    pub served: u64,
    /// Requests that it was sent.
    pub sent: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Its typical (median) latency as seen by the set.
    pub typical: Nanos,
    /// Whether it is down: it failed or did not answer, and is only probed.
    pub is_down: bool,
}

/// The counters of all threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) plain: AtomicU64,
    pub(crate) moved: AtomicU64,
    pub(crate) hedges: AtomicU64,
    pub(crate) rescues: AtomicU64,
    pub(crate) probes: AtomicU64,
    pub(crate) without_model: AtomicU64,
    pub(crate) copied: AtomicU64,
    pub(crate) replicas: [ReplicaCounters; MOST_REPLICAS],
    gains: Mutex<Gains>,
}

#[derive(Debug, Default)]
pub(crate) struct ReplicaCounters {
    pub(crate) served: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// Count, mean and sum of squared deviations (Welford, 1962).
#[derive(Clone, Copy, Debug, Default)]
struct Gains {
    pairs: u64,
    mean: f64,
    squares: f64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(crate) const fn of(&self, replica: Replica) -> &ReplicaCounters {
        &self.replicas[replica.index()]
    }

    /// The latencies of a control pair.
    pub(crate) fn pair(&self, at_primary: Nanos, moved: Nanos) {
        let gain = at_primary.0 as f64 - moved.0 as f64;
        let mut gains = self.gains.lock().unwrap_or_else(PoisonError::into_inner);
        gains.pairs += 1;
        let before = gain - gains.mean;
        gains.mean += before / gains.pairs as f64;
        gains.squares += before * (gain - gains.mean);
    }

    /// A snapshot, without what other parts know of the replicas.
    pub(crate) fn figures(&self, replicas: usize) -> SetFigures {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        let gains = *self.gains.lock().unwrap_or_else(PoisonError::into_inner);
        let variance = gains.squares / gains.pairs.saturating_sub(1).max(1) as f64;
        let replica = |counters: &ReplicaCounters| ReplicaFigures {
            served: of(&counters.served),
            sent: of(&counters.sent),
            errors: of(&counters.errors),
            typical: Nanos::ZERO,
            is_down: false,
        };
        let all: Vec<_> = self.replicas[..replicas].iter().map(replica).collect();
        let sent: u64 = all.iter().map(|replica| replica.sent).sum();
        SetFigures {
            reads: of(&self.reads),
            errors: of(&self.errors),
            timed_out: of(&self.timed_out),
            plain: of(&self.plain),
            moved: of(&self.moved),
            extra: sent.saturating_sub(of(&self.reads)),
            hedges: of(&self.hedges),
            rescues: of(&self.rescues),
            probes: of(&self.probes),
            without_model: of(&self.without_model),
            copied_bytes: of(&self.copied),
            gain: Gain {
                pairs: gains.pairs,
                mean_ns: gains.mean,
                error_ns: (variance / gains.pairs.max(1) as f64).sqrt(),
            },
            replicas: all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gain_has_mean_and_error() {
        let counters = Counters::default();
        for (at_primary, moved) in [(100, 90), (100, 110), (150, 100), (100, 150)] {
            counters.pair(Nanos(at_primary), Nanos(moved));
        }
        let gain = counters.figures(2).gain;
        assert_eq!((gain.pairs, gain.mean_ns), (4, 0.0));
        // The sample's deviation is sqrt(5200 / 3).
        assert!((gain.error_ns - (5200.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-9, "{gain:?}");
    }
}
