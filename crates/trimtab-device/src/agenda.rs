//! What happens next: one timer for each thing that can be busy.
//!
//! A drive has a fixed number of dies, channels and other parts, and each of
//! them waits for at most one moment. So there is no queue of events: a
//! tournament tree over the timers gives the earliest in constant time, and
//! setting one costs a comparison per level, most of the time fewer. At one
//! instant the timer with the lowest number goes first, on every machine.

use trimtab_io::Nanos;

/// A time that never comes.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// Timers, by number.
#[derive(Clone, Debug)]
pub(crate) struct Agenda {
    /// A complete binary tree, its root at 1. Leaves hold the timers, every
    /// other node the earlier of its two children.
    earliest: Box<[Nanos]>,
    leaves: usize,
}

impl Agenda {
    /// So many timers, none of them set.
    pub(crate) fn new(timers: usize) -> Self {
        let leaves = timers.next_power_of_two().max(2);
        Self { earliest: vec![NEVER; 2 * leaves].into(), leaves }
    }

    /// Sets a timer; [`NEVER`] stops it.
    pub(crate) fn set(&mut self, timer: usize, at: Nanos) {
        let mut node = self.leaves + timer;
        self.earliest[node] = at;
        while node > 1 {
            let earlier = self.earliest[node & !1].min(self.earliest[node | 1]);
            node /= 2;
            if self.earliest[node] == earlier {
                break;
            }
            self.earliest[node] = earlier;
        }
    }

    /// When a timer is set to.
    pub(crate) fn at(&self, timer: usize) -> Nanos {
        self.earliest[self.leaves + timer]
    }

    /// The earliest time; [`NEVER`] if no timer is set.
    pub(crate) fn next_time(&self) -> Nanos {
        self.earliest[1]
    }

    /// The timer that comes first. Only meaningful if one is set.
    pub(crate) fn next_timer(&self) -> usize {
        let at = self.earliest[1];
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.earliest[2 * node] != at);
        }
        node - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn agrees_with_a_search(
            timers in 1_usize..40,
            settings in prop::collection::vec((0_usize..40, prop::option::of(0_u64..8)), 1..200),
        ) {
            let mut agenda = Agenda::new(timers);
            let mut plain = vec![NEVER; timers];
            for (timer, at) in settings {
                let (timer, at) = (timer % timers, at.map_or(NEVER, Nanos));
                agenda.set(timer, at);
                plain[timer] = at;
                let earliest = *plain.iter().min().unwrap();
                prop_assert_eq!(agenda.next_time(), earliest);
                prop_assert_eq!(agenda.at(timer), at);
                if earliest != NEVER {
                    let first = plain.iter().position(|&t| t == earliest).unwrap();
                    prop_assert_eq!(agenda.next_timer(), first);
                }
            }
        }
    }
}
