//! Writes that make members' bursts come one after the other.

use trimtab_io::Nanos;

use super::bursts::Bursts;
use crate::members::Member;

/// Turns are made when two bursts begin closer to each other than this share of an even distance.
const TOO_CLOSE: f64 = 0.5;
/// After this many bursts turns may be made again at first: the members' own periods differ, and
/// chance moves them.
const FIRST_WAIT: u32 = 8;
/// After this many at last, where making them has not helped: what looked like cleaning was something
/// else.
const LAST_WAIT: u32 = 1_024;
/// Turns are made when all members have had so many periods: what turns would change is known then.
const PERIODS: u32 = 3;
/// Bytes that a member may be ahead with its writes.
const MOST_ALLOWED: f64 = 1e6;

/// Bursts of all members, and what is owed for turns.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    members: Vec<Turn>,
    /// Bursts until turns may be made again, and how many after that.
    wait: u32,
    next_wait: u32,
}

/// The burst that begins with a late read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Burst {
    /// No member has had one before.
    FirstOfAll,
    Another,
}

#[derive(Clone, Debug, Default)]
struct Turn {
    bursts: Bursts,
    /// Bytes that are to be written for its turn.
    debt: f64,
    /// What may be paid of them now.
    allowed: f64,
}

impl Turns {
    pub(super) fn new(members: usize) -> Self {
        Self { members: vec![Turn::default(); members], wait: 0, next_wait: FIRST_WAIT }
    }

    /// The longest reads lately, of any member, ns.
    pub(super) fn longest(&self) -> f64 {
        self.members.iter().map(|turn| turn.bursts.longest()).fold(0.0, f64::max)
    }

    /// Bytes are written to a member; a share of as many may be written for its turn.
    pub(super) fn written(&mut self, member: Member, bytes: f64, share: f64) {
        let turn = &mut self.members[member.index()];
        turn.bursts.written(bytes);
        turn.allowed = (turn.allowed + bytes * share).min(MOST_ALLOWED);
    }

    /// A late read of a member has ended. Returns whether a burst begins with it.
    pub(super) fn took_long(&mut self, member: Member, sent: Nanos, now: Nanos) -> Option<Burst> {
        let burst = if self.members.iter().all(|turn| turn.bursts.count() == 0) {
            Burst::FirstOfAll
        } else {
            Burst::Another
        };
        let begins = self.members[member.index()].bursts.took_long(sent, now.since(sent), now);
        if begins {
            self.wait = self.wait.saturating_sub(1);
        }
        begins.then_some(burst)
    }

    /// The next member of which so many bytes are to be written again.
    pub(super) fn pay(&mut self, bytes: f64) -> Option<Member> {
        let pays = |turn: &Turn| turn.debt > 0.0 && turn.allowed >= bytes;
        let member = self.members.iter().position(pays)?;
        let turn = &mut self.members[member];
        turn.debt -= bytes;
        turn.allowed -= bytes;
        Some(Member(member as u8))
    }

    /// How much of their period the members have been written, 0 to 1; none before all periods are
    /// known.
    fn phases(&self) -> Option<Vec<f64>> {
        let known = |turn: &Turn| {
            let alike = self.members.iter().filter(|other| turn.bursts.is_like(&other.bursts));
            // Itself among them.
            turn.bursts.is_regular() || alike.count() > self.members.len() / 2
        };
        let all = self.members.iter().all(known);
        all.then(|| self.members.iter().map(|turn| turn.bursts.phase()).collect())
    }

    /// Whether all members have had enough bursts, with a period.
    pub(super) fn are_known(&self) -> bool {
        self.members.iter().all(|turn| turn.bursts.count() > PERIODS) && self.phases().is_some()
    }

    /// Whether they were made more than once, and members are too close to each other all the same.
    pub(super) fn were_in_vain(&self) -> bool {
        let is_made = self.members.iter().all(|turn| turn.debt <= 0.0);
        is_made && self.wait > FIRST_WAIT && self.next_wait > FIRST_WAIT
    }

    /// Distributes the members' turns evenly, if they have come too close to each other, and all
    /// members have had some bursts.
    pub(super) fn take_turns(&mut self) {
        let is_known = |turn: &Turn| turn.bursts.count() > PERIODS && turn.debt <= 0.0;
        if !self.members.iter().all(is_known) {
            return;
        }
        let Some(phases) = self.phases() else { return };
        let count = phases.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|&a, &b| phases[a].total_cmp(&phases[b]));
        let gap = |i: usize| {
            let turn = if i + 1 == count { 1.0 } else { 0.0 };
            phases[order[(i + 1) % count]] + turn - phases[order[i]]
        };
        let least = (0..count).map(gap).fold(f64::INFINITY, f64::min);
        if least >= TOO_CLOSE / count as f64 {
            self.next_wait = FIRST_WAIT;
            return;
        }
        if self.wait > 0 {
            return;
        }
        self.wait = self.next_wait;
        self.next_wait = (self.next_wait * 4).min(LAST_WAIT);
        // Phases only grow by writing: the least that leaves none behind.
        let places =
            || order.iter().enumerate().map(|(i, &member)| (i as f64 / count as f64, member));
        let first = places().map(|(place, member)| phases[member] - place);
        let first = first.fold(f64::NEG_INFINITY, f64::max);
        for (place, member) in places() {
            let turn = &mut self.members[member];
            turn.debt = (first + place - phases[member]) * turn.bursts.period();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read is late for 50 ms.
    fn late(turns: &mut Turns, member: Member, sent: Nanos) {
        if turns.took_long(member, sent, sent + Nanos::from_millis(50)).is_some() {
            turns.take_turns();
        }
    }

    /// Members that are written alike, and clean each 1,000 bytes of theirs. Returns how far apart
    /// their bursts begin in the end, in bytes.
    fn least_gap(turns: &mut Turns, clean: impl Fn(u64, usize) -> bool) -> u64 {
        let mut written = [0_u64; 4];
        let mut last = [0_u64; 4];
        for step in 0..40_000_u64 {
            let now = Nanos::from_millis(20 * step);
            let paid = turns.pay(1.0);
            for (number, written) in written.iter_mut().enumerate() {
                let member = Member(number as u8);
                let bytes = 1 + u64::from(paid == Some(member));
                *written += bytes;
                turns.written(member, bytes as f64, 0.25);
                if clean(*written, number) {
                    last[number] = step;
                    late(turns, member, now);
                }
            }
        }
        last.sort_unstable();
        last.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or_default()
    }

    #[test]
    fn members_that_clean_together_take_turns() {
        let mut turns = Turns::new(4);
        let gap = least_gap(&mut turns, |written, _| written % 1_000 < 2);
        assert!((150..=250).contains(&gap), "{gap}");
        assert!(turns.are_known() && !turns.were_in_vain());
    }

    #[test]
    fn what_writes_do_not_move_is_left_alone_after_a_while() {
        // All are late together in time, whatever has been written.
        let mut turns = Turns::new(4);
        let (mut paid, mut halfway) = (0, 0);
        for step in 0..400_000_u64 {
            paid += u64::from(turns.pay(1.0).is_some());
            for number in 0..4 {
                turns.written(Member(number), 1.0, 0.25);
                if step % 1_000 == 0 {
                    let now = Nanos::from_millis(20 * step);
                    late(&mut turns, Member(number), now);
                }
            }
            if step == 200_000 {
                halfway = paid;
            }
        }
        assert!(halfway > 0, "it was tried");
        assert!(turns.were_in_vain());
        assert!(paid < 4 * 400_000 / 50, "{paid}");
        assert!(paid - halfway <= halfway / 2, "{halfway} {paid}");
    }
}
