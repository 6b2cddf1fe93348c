//! The timer queue of a drive: one timer per resource that can be busy.
//!
//! A drive has a fixed number of dies, channels and other parts, and each of them waits for at most
//! one point in time. A tournament tree over these timers yields the earliest in constant time;
//! setting one costs a comparison per level, mostly fewer. Ties go to the timer with the lowest
//! number, on every machine.

use trimtab_io::Nanos;

/// A time that never comes.
pub(crate) const NEVER: Nanos = Nanos(u64::MAX);

/// Timers, by number.
#[derive(Clone, Debug)]
pub(crate) struct TimerQueue {
    /// The earliest time: the root of the tree.
    earliest: Nanos,
    /// The other nodes, level by level, with four children each: those of the root are group 0,
    /// those of node p are group p + 1. Leaves hold the timers, every other node the minimum of its
    /// children.
    groups: Box<[Group]>,
    /// Index of the first leaf.
    leaves: usize,
}

/// Four children of one node: half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Group([Nanos; 4]);

impl TimerQueue {
    /// `timers` timers, none of them set.
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
        // Up to the root, even if nothing changes any more: an early exit is unpredictable, and a
        // mispredicted branch costs more than a level.
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
            // Selects the child without an unpredictable branch.
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
        fn next_timer_is_the_earliest(
            timers in 1_usize..40,
            settings in prop::collection::vec((0_usize..40, prop::option::of(0_u64..8)), 1..200),
        ) {
            let mut timer_queue = TimerQueue::new(timers);
            let mut plain = vec![NEVER; timers];
            for (timer, at) in settings {
                let (timer, at) = (timer % timers, at.map_or(NEVER, Nanos));
                timer_queue.set(timer, at);
                plain[timer] = at;
                let earliest = *plain.iter().min().unwrap();
                prop_assert_eq!(timer_queue.next_time(), earliest);
                prop_assert_eq!(timer_queue.at(timer), at);
                if earliest != NEVER {
                    let first = plain.iter().position(|&t| t == earliest).unwrap();
                    prop_assert_eq!(timer_queue.next_timer(), first);
                }
            }
        }
    }
}
