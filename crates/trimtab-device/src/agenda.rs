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
    /// A complete tree of which each node has four children: node n at n + 3, so
    /// that its children, 4n + 1 to 4n + 4, lie together in half a cache line.
    /// Leaves hold the timers, every other node the earliest of its children.
    earliest: Box<[Nanos]>,
    /// The number of the first leaf.
    leaves: usize,
}

/// Where the root stands.
const ROOT: usize = 3;

impl Agenda {
    /// So many timers, none of them set.
    pub(crate) fn new(timers: usize) -> Self {
        let (mut leaves, mut width) = (1, 4);
        while width < timers {
            leaves += width;
            width *= 4;
        }
        Self { earliest: vec![NEVER; ROOT + leaves + width].into(), leaves }
    }

    /// Sets a timer; [`NEVER`] stops it.
    pub(crate) fn set(&mut self, timer: usize, at: Nanos) {
        let mut node = self.leaves + timer;
        self.earliest[ROOT + node] = at;
        while node > 0 {
            node = (node - 1) / 4;
            let [a, b, c, d] = *self.children(node);
            let earliest = a.min(b).min(c.min(d));
            if self.earliest[ROOT + node] == earliest {
                break;
            }
            self.earliest[ROOT + node] = earliest;
        }
    }

    fn children(&self, node: usize) -> &[Nanos; 4] {
        let first = ROOT + 4 * node + 1;
        self.earliest[first..first + 4].try_into().expect("four of them")
    }

    /// When a timer is set to.
    pub(crate) fn at(&self, timer: usize) -> Nanos {
        self.earliest[ROOT + self.leaves + timer]
    }

    /// The earliest time; [`NEVER`] if no timer is set.
    pub(crate) fn next_time(&self) -> Nanos {
        self.earliest[ROOT]
    }

    /// The timer that comes first. Only meaningful if one is set.
    pub(crate) fn next_timer(&self) -> usize {
        let at = self.earliest[ROOT];
        let mut node = 0;
        while node < self.leaves {
            let [a, b, c, _] = *self.children(node);
            // Which child it is, without a branch that nobody could predict.
            let not_a = a != at;
            let not_b = not_a & (b != at);
            let not_c = not_b & (c != at);
            node = 4 * node + 1 + usize::from(not_a) + usize::from(not_b) + usize::from(not_c);
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
