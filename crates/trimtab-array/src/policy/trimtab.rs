//! Ordinary drives that take turns without knowing it.

mod bursts;

use trimtab_io::{Nanos, Op, Outcome, Request};

use super::{Asks, MemberEnded, ReadPolicy, StripeRead};
use crate::members::{Member, Members};
use bursts::Bursts;

/// The parameters of [`Trimtab`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrimtabOptions {
    /// Extra reads, as a share of the stripes' reads, at most.
    pub most_extra: f64,
    /// Writes for turns, as a share of a member's writes, at most. 0: drives are left as they are.
    pub most_refresh: f64,
}

impl Default for TrimtabOptions {
    fn default() -> Self {
        Self { most_extra: 0.1, most_refresh: 0.25 }
    }
}

/// A read that takes this many times the usual time is late, if the budget is full.
const LATE: f64 = 6.0;
/// No read below this is late, ns.
const LEAST_LATE: f64 = 300_000.0;
/// The budget holds so many extra reads at most: bursts last longer than it takes to earn them.
const MOST_SAVED: f64 = 500.0;
/// While a member is busy, one of so many reads still asks it: to see when it is over.
const PROBES: u64 = 8;

/// Goes around members that are busy, learns when they are, and makes them take turns.
///
/// A drive that fills its blocks in turn has to clean all of them at about the same time: in a burst,
/// each time when so many bytes have been written to it. The drives of an array are written to
/// alike, so their bursts fall together, and what one of them holds cannot be computed from the
/// others then (IODA, §4.2.2). Neither the drives' firmware nor a window is needed to change that.
/// The host sees the bursts and counts the bytes between them; if the bursts of two
/// members fall together, it writes some of what one of them holds again, so that the member's next
/// burst comes earlier. A few dozen MiB once make the drives take turns from then on: their distance
/// changes only by chance.
///
/// Then reads go around a member while it is busy, within a budget: at once where recent reads of it
/// were late, otherwise when a read has been late itself.
#[derive(Clone, Debug)]
pub struct Trimtab {
    options: TrimtabOptions,
    members: Vec<Bursts>,
    /// Bytes that each member is to be written for its turn.
    debts: Vec<f64>,
    /// What may be paid of them now.
    allowed: Vec<f64>,
    /// Usual latency of a member's read, ns.
    usual: f64,
    /// Extra reads that may be sent.
    budget: f64,
    reads: u64,
}

impl Trimtab {
    /// The policy for an array of so many members.
    #[must_use]
    pub fn new(members: usize, options: TrimtabOptions) -> Self {
        Self {
            options,
            members: vec![Bursts::default(); members],
            debts: vec![0.0; members],
            allowed: vec![0.0; members],
            usual: 0.0,
            budget: 0.0,
            reads: 0,
        }
    }

    /// From when on a read is late: the sooner the more the budget has. With nearly nothing left
    /// only what cleaning delays is, not what waits for a large write.
    fn late_after(&self) -> Nanos {
        let soonest = (self.usual * LATE).max(LEAST_LATE);
        let longest = self.members.iter().map(Bursts::long).fold(soonest, f64::max);
        let share = (2.0 * self.budget / MOST_SAVED).clamp(0.0, 1.0);
        // Geometric between the two.
        Nanos((longest * libm::pow(soonest / longest, share)) as u64)
    }

    fn busy(&self, now: Nanos, of: Members) -> Members {
        of.iter().filter(|member| self.members[member.index()].is_busy(now)).collect()
    }

    /// Goes around members, if the budget has what it takes.
    fn around(
        &mut self,
        now: Nanos,
        read: &StripeRead<'_>,
        late: Members,
        asks: &mut Asks,
    ) -> bool {
        let others = read.members.without(read.failed).without(late);
        let present = read.wanted().without(late).count();
        let cost = f64::from(read.needed.saturating_sub(present));
        if late.is_empty() || late.count() > read.spare() || cost > self.budget {
            return false;
        }
        self.budget -= cost;
        asks.around(late, self.busy(now, others), Members::NONE);
        true
    }

    /// Distributes the members' turns evenly, if they have come too close to each other.
    fn take_turns(&mut self) {
        let count = self.members.len() as f64;
        if self.debts.iter().any(|&debt| debt > 0.0) {
            return;
        }
        let phases: Option<Vec<f64>> = self.members.iter().map(Bursts::phase).collect();
        let Some(phases) = phases else { return };
        let mut order: Vec<usize> = (0..phases.len()).collect();
        order.sort_by(|&a, &b| phases[a].total_cmp(&phases[b]));
        let gap = |i: usize| {
            let (this, next) = (order[i], order[(i + 1) % order.len()]);
            let turn = if i + 1 == order.len() { 1.0 } else { 0.0 };
            phases[next] + turn - phases[this]
        };
        let least = (0..order.len()).map(gap).fold(f64::INFINITY, f64::min);
        if least >= 0.5 / count {
            return;
        }
        // Phases only grow by writing: the least that leaves none behind.
        let places = || order.iter().enumerate().map(|(i, &member)| (i as f64 / count, member));
        let first = places().map(|(place, member)| phases[member] - place);
        let first = first.fold(f64::NEG_INFINITY, f64::max);
        for (place, member) in places() {
            let ahead = first + place - phases[member];
            self.debts[member] = ahead * self.members[member].period();
        }
    }
}

impl ReadPolicy for Trimtab {
    fn begin(&mut self, now: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        let wanted = read.wanted();
        self.reads += 1;
        self.budget = (self.budget + self.options.most_extra).min(MOST_SAVED);
        let busy = self.busy(now, wanted);
        if !self.reads.is_multiple_of(PROBES) && self.around(now, read, busy, asks) {
            asks.directly(wanted.without(busy));
        } else {
            asks.directly(wanted);
        }
        if self.usual > 0.0 {
            asks.timer(now + self.late_after(), 0);
        }
    }

    fn timer(&mut self, now: Nanos, read: &StripeRead<'_>, _: u8, asks: &mut Asks) {
        let missing = read.missing().both(read.asked());
        for member in missing.iter() {
            self.members[member.index()].late(now);
        }
        self.around(now, read, missing, asks);
    }

    fn member_sent(&mut self, _: Nanos, member: Member, request: &Request) -> u32 {
        if request.op == Op::Write {
            let length = request.length as f64;
            self.members[member.index()].written(length);
            let allowed = &mut self.allowed[member.index()];
            *allowed = (*allowed + length * self.options.most_refresh).min(1e6);
        }
        0
    }

    fn member_ended(&mut self, now: Nanos, ended: &MemberEnded) {
        if !ended.is_read || ended.outcome != Some(Outcome::Done) {
            return;
        }
        let took = now.since(ended.sent);
        let member = ended.member.index();
        if self.usual > 0.0 && took >= self.late_after() {
            self.members[member].late(now);
            if self.members[member].took_long(ended.sent, took, now) {
                self.take_turns();
            }
            return;
        }
        self.members[member].in_time(ended.sent);
        let weight = if self.usual == 0.0 { 1.0 } else { 1.0 / 256.0 };
        self.usual += (took.0 as f64 - self.usual) * weight;
    }

    fn refresh(&mut self, _: Nanos, bytes: u64) -> Option<Member> {
        let bytes = bytes as f64;
        let pays = |&member: &usize| self.debts[member] > 0.0 && self.allowed[member] >= bytes;
        let member = (0..self.debts.len()).find(pays)?;
        self.debts[member] -= bytes;
        self.allowed[member] -= bytes;
        Some(Member(member as u8))
    }
}
