//! News of drives that nobody asks.

use trimtab_io::Nanos;

use crate::action::Why;
use crate::replica::{MOST_REPLICAS, Replica, Replicas};
use crate::turn::Turn;

/// Keeps a drive that is avoided from being avoided for ever.
///
/// What is known of a drive comes from its answers. One that gets no reads gives
/// none, and would be taken for slow long after it has recovered. So if a drive
/// has been passed over, and was sent no read for a while since, the next read,
/// whose ever it is, goes there as well: a duplicate that is not waited for.
#[derive(Clone, Debug)]
pub struct Probing {
    every: Nanos,
    /// Passed over since it was sent a read last.
    avoided: Replicas,
    /// Since when.
    since: [Nanos; MOST_REPLICAS],
    /// Whose last answer was good news.
    better: Replicas,
}

impl Probing {
    /// A predictor that looks at the last four answers (LinnOS, §4.3) has seen
    /// nothing but new ones after 100 ms, even if the drive's own reads are some
    /// milliseconds apart.
    pub const EVERY: Nanos = Nanos::from_millis(15);

    /// For strategies that rank drives instead of refusing them: they pass a drive
    /// over as soon as another is a little better, and come back by themselves
    /// where that changes.
    pub const SELDOM: Nanos = Nanos::from_millis(100);

    /// After an answer that was good news: one is not enough for everybody.
    const SOON: Nanos = Nanos::from_millis(5);

    /// With so much time before a probe.
    #[must_use]
    pub const fn new(every: Nanos) -> Self {
        let since = [Nanos::ZERO; MOST_REPLICAS];
        Self { every, avoided: Replicas::NONE, since, better: Replicas::NONE }
    }

    /// A read was not sent to this drive, though it might have been.
    pub const fn avoided(&mut self, now: Nanos, replica: Replica) {
        if !self.avoided.has(replica) {
            self.avoided.add(replica);
            self.since[replica.index()] = now;
        }
        if self.better.has(replica) {
            self.better.remove(replica);
            self.since[replica.index()] = now.since(self.every.since(Self::SOON));
        }
    }

    /// A drive has answered much sooner than was thought: if it is passed over all
    /// the same, it is asked again soon.
    pub const fn good_news(&mut self, replica: Replica) {
        self.better.add(replica);
    }

    /// A read is sent to this drive.
    pub const fn read_sent(&mut self, replica: Replica) {
        self.avoided.remove(replica);
    }

    /// Sends the read to a drive that is due, besides; which that was.
    pub fn probe(&self, turn: &mut Turn<'_>) -> Option<Replica> {
        if self.avoided.is_empty() {
            return None;
        }
        let now = turn.now();
        let due = |&replica: &Replica| {
            self.avoided.has(replica) && now.since(self.since[replica.index()]) >= self.every
        };
        let replica = turn.order().iter().copied().find(due)?;
        turn.send(replica, now, Why::Probe);
        Some(replica)
    }
}

impl Default for Probing {
    fn default() -> Self {
        Self::new(Self::EVERY)
    }
}
