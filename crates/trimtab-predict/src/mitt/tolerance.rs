//! How much longer accepted reads may wait: those that can no more are cancelled.

use trimtab_io::Nanos;

use crate::predictor::Ticket;

/// The grain of the table (MittOS, §4.2.2).
const GROUP: u64 = 1_000_000;

/// Groups of the table. Reads that tolerate more wait in the group of their time modulo this.
const GROUPS: u64 = 64;

/// No read.
const NONE: u32 = u32::MAX;

/// Accepted reads of one process by their tolerable time, in groups of 1 ms.
///
/// The tolerable time of all of them shrinks together, when requests of higher priority arrive.
/// So the table keeps `key` = tolerable time + all that it had shrunk by when the read came, which
/// does not change, and a read is late when the sum of what it has shrunk by exceeds its key. Keys
/// are in a hashed wheel: a step visits the groups that it passes, and nothing else.
#[derive(Clone, Debug)]
pub(super) struct ToleranceTable {
    /// The first read of each group.
    groups: [u32; GROUPS as usize],
    /// By ticket.
    links: Vec<Link>,
    /// What tolerable times have shrunk by.
    shrunk: u64,
    /// Reads in it.
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    key: u64,
    before: u32,
    after: u32,
    held: bool,
}

impl ToleranceTable {
    pub(super) const fn new() -> Self {
        Self { groups: [NONE; GROUPS as usize], links: Vec::new(), shrunk: 0, len: 0 }
    }

    const fn group(key: u64) -> usize {
        (key / GROUP % GROUPS) as usize
    }

    /// A read was accepted that may wait so much longer than is expected.
    pub(super) fn insert(&mut self, ticket: Ticket, tolerable: Nanos) {
        let slot = ticket.0 as usize;
        if slot >= self.links.len() {
            let none = Link { key: 0, before: NONE, after: NONE, held: false };
            self.links.resize(slot + 1, none);
        }
        let key = self.shrunk.saturating_add(tolerable.0);
        let group = Self::group(key);
        let after = self.groups[group];
        self.links[slot] = Link { key, before: NONE, after, held: true };
        if after != NONE {
            self.links[after as usize].before = ticket.0;
        }
        self.groups[group] = ticket.0;
        self.len += 1;
    }

    /// Removes a read, if it is here.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        let Some(&link) = self.links.get(ticket.0 as usize) else { return };
        if !link.held {
            return;
        }
        match link.before {
            NONE => self.groups[Self::group(link.key)] = link.after,
            before => self.links[before as usize].after = link.after,
        }
        if link.after != NONE {
            self.links[link.after as usize].before = link.before;
        }
        self.links[ticket.0 as usize].held = false;
        self.len -= 1;
    }

    /// The tolerable time of a read that is here.
    #[cfg(test)]
    pub(super) fn tolerable(&self, ticket: Ticket) -> Option<Nanos> {
        let link = self.links.get(ticket.0 as usize).filter(|link| link.held)?;
        Some(Nanos(link.key - self.shrunk))
    }

    /// All tolerable times shrink by this; reads for which nothing is left are removed and told.
    pub(super) fn shrink(&mut self, by: Nanos, mut cancel: impl FnMut(Ticket)) {
        let from = self.shrunk / GROUP;
        self.shrunk = self.shrunk.saturating_add(by.0);
        if self.len == 0 {
            return;
        }
        let steps = (self.shrunk / GROUP - from).min(GROUPS - 1);
        for group in from..=from + steps {
            let mut slot = self.groups[(group % GROUPS) as usize];
            while slot != NONE {
                let link = self.links[slot as usize];
                if link.key < self.shrunk {
                    self.remove(Ticket(slot));
                    cancel(Ticket(slot));
                }
                slot = link.after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The example of the paper, §4.2.2.
    #[test]
    fn tolerable_time_shrinks_to_cancellation() {
        let mut table = ToleranceTable::new();
        table.insert(Ticket(0), Nanos::from_millis(9));
        let mut cancelled = Vec::new();
        table.shrink(Nanos::from_millis(6), |ticket| cancelled.push(ticket));
        assert_eq!((table.tolerable(Ticket(0)), cancelled.len()), (Some(Nanos(3_000_000)), 0));
        table.shrink(Nanos::from_millis(6), |ticket| cancelled.push(ticket));
        assert_eq!((table.tolerable(Ticket(0)), cancelled), (None, vec![Ticket(0)]));
    }

    proptest! {
        /// A read is cancelled by the step that makes its tolerable time negative, and by no other.
        #[test]
        fn cancels_exactly_what_has_no_time_left(
            steps in prop::collection::vec((0_u8..3, 0_u64..200_000_000, 0_u32..12), 1..200),
        ) {
            let mut table = ToleranceTable::new();
            let mut model: BTreeMap<u32, i128> = BTreeMap::new();
            for (what, time, ticket) in steps {
                match what {
                    0 if !model.contains_key(&ticket) => {
                        table.insert(Ticket(ticket), Nanos(time));
                        model.insert(ticket, time.into());
                    }
                    1 => {
                        table.remove(Ticket(ticket));
                        model.remove(&ticket);
                    }
                    _ => {
                        let mut cancelled = Vec::new();
                        table.shrink(Nanos(time / 4), |ticket| cancelled.push(ticket.0));
                        model.values_mut().for_each(|left| *left -= i128::from(time / 4));
                        let late: Vec<u32> =
                            model.iter().filter(|(_, left)| **left < 0).map(|(t, _)| *t).collect();
                        model.retain(|_, left| *left >= 0);
                        cancelled.sort_unstable();
                        prop_assert_eq!(cancelled, late);
                    }
                }
                prop_assert_eq!(table.len, model.len());
            }
        }
    }
}
