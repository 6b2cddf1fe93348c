//! Cycles of cleaning.

use super::FORGET;
use crate::MOST_MEMBERS;
use crate::members::Member;

/// A member that has had no burst for so many of its cycles has none any more.
const GONE: f64 = 2.0;
/// A cycle of all members has ended after this share of the longest one.
const WHOLE: f64 = 0.9;

/// The time in which each member has a burst, in requests of the user.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycle {
    pub(super) now: f64,
    /// When the last one ended.
    ended: f64,
    members: [OfMember; MOST_MEMBERS],
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OfMember {
    /// When its last burst began.
    began: Option<f64>,
    cycle: f64,
}

impl Cycle {
    /// A member's burst begins. Returns whether a cycle of all members has ended.
    pub(super) fn burst_begins(&mut self, member: Member) -> bool {
        let now = self.now;
        let own = &mut self.members[member.index()];
        let Some(before) = own.began.replace(now) else { return false };
        own.cycle = (own.cycle * FORGET).max(now - before);
        let lasts = |own: &&OfMember| own.began.is_some_and(|at| now - at <= GONE * own.cycle);
        let cycles = self.members.iter().filter(lasts).map(|own| own.cycle);
        let ends = now - self.ended >= WHOLE * cycles.fold(0.0, f64::max);
        if ends {
            self.ended = now;
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_with_more_bursts_than_others_make_no_cycle() {
        // As the drive of parity has of RAID 4.
        let mut cycle = Cycle::default();
        let mut ends = 0;
        for quarter in 0..40 {
            cycle.now = f64::from(quarter) * 1_000.0;
            ends += u32::from(cycle.burst_begins(Member(3)));
            if quarter % 4 == 0 {
                ends += u32::from(cycle.burst_begins(Member(0)));
            }
        }
        // The first four quarters show nothing else than the fast member's bursts.
        assert!((9..=13).contains(&ends), "{ends}");
    }
}
