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
    /// The earliest time of all: the root of the tree.
    earliest: Nanos,
    /// The other nodes, level by level, of which each has four children: those
    /// of the root are group 0, those of the node at place p are group p + 1.
    /// Leaves hold the timers, every other node the earliest of its children.
    groups: Box<[Group]>,
    /// The place of the first leaf.
    leaves: usize,
}

/// Four children of one node: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Group([Nanos; 4]);

impl Agenda {
    /// So many timers, none of them set.
    pub(crate) fn new(timers: usize) -> Self {
        let (mut leaves, mut width) = (0, 4);
        while width < timers {
            leaves += width;
            width *= 4;
        }
        let groups = vec![Group([NEVER; 4]); (leaves + width) / 4].into();
        Self { earliest: NEVER, groups, leaves }
    }

    /// Sets a timer; [`NEVER`] stops it.
    #[inline]
    pub(crate) fn set(&mut self, timer: usize, at: Nanos) {
        let (mut place, mut earliest) = (self.leaves + timer, at);
        // Up to the root, even where nothing changes any more: how soon that is
        // nobody could predict, and a wrong guess costs more than a level.
        loop {
            let (group, child) = (place / 4, place % 4);
            let Group(times) = &mut self.groups[group];
            times[child] = earliest;
            let others = times[child ^ 1].min(times[child ^ 2]).min(times[child ^ 3]);
            earliest = earliest.min(others);
            if group == 0 {
                break;
            }
            place = group - 1;
        }
        self.earliest = earliest;
    }

    /// When a timer is set to.
    pub(crate) fn at(&self, timer: usize) -> Nanos {
        let place = self.leaves + timer;
        self.groups[place / 4].0[place % 4]
    }

    /// The earliest time; [`NEVER`] if no timer is set.
    #[inline]
    pub(crate) const fn next_time(&self) -> Nanos {
        self.earliest
    }

    /// The timer that comes first. Only meaningful if one is set.
    #[inline]
    pub(crate) fn next_timer(&self) -> usize {
        let at = self.earliest;
        let mut group = 0;
        loop {
            let Group([a, b, c, _]) = self.groups[group];
            // Which child it is, without a branch that nobody could predict.
            let not_a = a != at;
            let not_b = not_a & (b != at);
            let not_c = not_b & (c != at);
            let child = usize::from(not_a) + usize::from(not_b) + usize::from(not_c);
            let place = 4 * group + child;
            if place >= self.leaves {
                return place - self.leaves;
            }
            group = place + 1;
        }
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
