//! Probes of replicas that are avoided.

use trimtab_io::Nanos;

use crate::action::Reason;
use crate::replica::{MOST_DRIVES, Replica, Replicas};
use crate::turn::Turn;

/// Ends the avoidance of replicas that have recovered.
///
/// The state of a drive is known from its completions. A drive without reads completes none,
/// and would count as slow long after it has recovered. So if a replica has been avoided and
/// was sent no read for a while, the next read, of any primary replica, is also sent there: a
/// duplicate that the read does not wait for.
#[derive(Clone, Debug)]
pub struct Probing {
    every: Nanos,
    /// Avoided since the replica was last sent a read.
    avoided: Replicas,
    /// The start of that avoidance.
    since: [Nanos; MOST_DRIVES],
    /// Replicas whose last completion was much faster than expected.
    recovering: Replicas,
}

impl Probing {
    /// A predictor that looks at the last four completions (LinnOS, §4.3) has seen
    /// only new ones after 100 ms, even if the drive's own reads are some milliseconds
    /// apart.
    pub const EVERY: Nanos = Nanos::from_millis(15);

    /// For strategies that rank replicas instead of refusing them: they avoid a replica
    /// as soon as another is a little better, and come back by themselves when that
    /// changes.
    pub const SELDOM: Nanos = Nanos::from_millis(100);

    /// After a completion much faster than expected: predictors need more than one.
    const SOON: Nanos = Nanos::from_millis(5);

    /// Probing after `every` without a read.
    #[must_use]
    pub const fn new(every: Nanos) -> Self {
        let since = [Nanos::ZERO; MOST_DRIVES];
        Self { every, avoided: Replicas::NONE, since, recovering: Replicas::NONE }
    }

    /// A read was not sent to this replica, though it might have been.
    pub const fn avoided(&mut self, now: Nanos, replica: Replica) {
        if !self.avoided.has(replica) {
            self.avoided.add(replica);
            self.since[replica.index()] = now;
        }
        if self.recovering.has(replica) {
            self.recovering.remove(replica);
            self.since[replica.index()] = now.since(self.every.since(Self::SOON));
        }
    }

    /// A replica has completed a read much sooner than expected: if it is still avoided,
    /// it is probed again soon.
    pub const fn faster_than_expected(&mut self, replica: Replica) {
        self.recovering.add(replica);
    }

    /// A read is sent to this replica.
    pub const fn read_sent(&mut self, replica: Replica) {
        self.avoided.remove(replica);
    }

    /// Duplicates the read to a replica that is due for a probe, if there is one, and
    /// returns that replica.
    pub fn probe(&self, turn: &mut Turn<'_>) -> Option<Replica> {
        self.probe_after(turn, |_| self.every)
    }

    /// The same, where a probe is due after another time than usual, by replica.
    pub fn probe_after(
        &self,
        turn: &mut Turn<'_>,
        every: impl Fn(Replica) -> Nanos,
    ) -> Option<Replica> {
        if self.avoided.is_empty() {
            return None;
        }
        let now = turn.now();
        let due = |&replica: &Replica| {
            self.avoided.has(replica) && now.since(self.since[replica.index()]) >= every(replica)
        };
        let replica = turn.order().iter().copied().find(due)?;
        turn.send(replica, now, Reason::Probe);
        Some(replica)
    }
}

impl Default for Probing {
    fn default() -> Self {
        Self::new(Self::EVERY)
    }
}
