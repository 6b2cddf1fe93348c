//! Drives that clean in turns.

use trimtab_io::Nanos;

use super::{Asks, ReadPolicy, StripeRead};
use crate::members::{Member, Members};

/// Whose turn it is: member i is busy in the windows i, i + n, i + 2n of one length (IODA, §4.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// When the window of the first member began.
    pub start: Nanos,
    /// The length of a window.
    pub length: Nanos,
    /// The number of members.
    pub members: u8,
}

impl Turns {
    /// The member whose window it is.
    #[must_use]
    pub fn busy(&self, now: Nanos) -> Member {
        let window = now.since(self.start).0 / self.length.0.max(1);
        Member((window % u64::from(self.members.max(1))) as u8)
    }

    /// When the next window begins.
    #[must_use]
    pub fn next(&self, now: Nanos) -> Nanos {
        let length = self.length.0.max(1);
        let ended = now.since(self.start).0 / length;
        self.start + Nanos(length.saturating_mul(ended + 1))
    }
}

/// The member whose window it is is not read: its strips are computed, whether it would have been
/// late or not (IODA, §4.4, "PL_Win only").
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    turns: Turns,
    /// What replaces them when their start has come.
    next: Option<Turns>,
}

impl Windows {
    /// The policy.
    #[must_use]
    pub const fn new(turns: Turns) -> Self {
        Self { turns, next: None }
    }

    /// Changes to other turns when these begin.
    #[must_use]
    pub const fn then(self, next: Turns) -> Self {
        Self { next: Some(next), ..self }
    }

    fn turns_at(&self, now: Nanos) -> Turns {
        self.next.filter(|next| next.start <= now).unwrap_or(self.turns)
    }
}

impl ReadPolicy for Windows {
    fn begin(&mut self, now: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        let busy = Members::one(self.turns_at(now).busy(now)).both(read.wanted());
        if busy.is_empty() || read.spare() == 0 {
            asks.directly(read.wanted());
            return;
        }
        asks.directly(read.wanted().without(busy));
        asks.around(busy, Members::NONE, Members::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_take_turns() {
        let turns = Turns { start: Nanos(50), length: Nanos(100), members: 3 };
        let busy = |at| turns.busy(Nanos(at)).0;
        assert_eq!([50, 149, 150, 250, 349, 350].map(busy), [0, 0, 1, 2, 2, 0]);
        let next = |at| turns.next(Nanos(at)).0;
        assert_eq!([50, 149, 150, 349].map(next), [150, 150, 250, 350]);
    }

    #[test]
    fn other_turns_replace_them_when_they_begin() {
        let turns =
            |start, length| Turns { start: Nanos(start), length: Nanos(length), members: 2 };
        let policy = Windows::new(turns(0, 100)).then(turns(400, 300));
        let busy = |at| policy.turns_at(Nanos(at)).busy(Nanos(at)).0;
        assert_eq!([0, 100, 399, 400, 699, 700].map(busy), [0, 1, 1, 0, 0, 1]);
    }
}
