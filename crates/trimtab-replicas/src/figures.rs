//! The figures of a set.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trimtab_io::Nanos;
use trimtab_steer::{ControlFigures, MOST_REPLICAS, Replica};

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
    /// What moving reads away from their primary replica gains, measured on the control group:
    /// moved reads that were sent to both at once. The application gets the first answer.
    pub gain: ControlFigures,
    /// By replica, in the order in which they were given.
    pub replicas: Vec<ReplicaFigures>,
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
}

#[derive(Debug, Default)]
pub(crate) struct ReplicaCounters {
    pub(crate) served: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

impl Counters {
    pub(crate) const fn of(&self, replica: Replica) -> &ReplicaCounters {
        &self.replicas[replica.index()]
    }

    /// A snapshot, without what other parts know of the replicas.
    pub(crate) fn figures(&self, replicas: usize) -> SetFigures {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
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
            gain: ControlFigures::default(),
            replicas: all,
        }
    }
}
