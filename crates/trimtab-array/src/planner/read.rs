//! Reading the strips of a part.

use trimtab_io::{Flags, Nanos, Op, Outcome};

use super::locks::Lock;
use super::row::MOST_ROWS;
use super::{Action, Actions, MemberIo, PartTimer, Planner, Row, Stage};
use crate::MOST_MEMBERS;
use crate::layout::Level;
use crate::members::{Member, Members};
use crate::policy::{Around, Asks, ReadPolicy, StripeRead};

impl Planner {
    /// Begins to read what the rows want, or begins again.
    pub(super) fn begin_reading(&mut self, now: Nanos, part: u32, actions: &mut Actions) {
        let stripe = self.parts[part].piece.start.stripe;
        let of = &mut self.parts[part];
        of.stage = Stage::Reading;
        of.writes = self.locks.writes(stripe);
        self.counts.stripe_reads += u64::from(of.op == Op::Read);
        let asks = self.consult(part, |policy, read, asks| policy.begin(now, read, asks));
        self.carry_out(now, part, asks, actions);
    }

    /// A member has answered.
    pub(super) fn read_ended(
        &mut self,
        now: Nanos,
        io: MemberIo,
        outcome: Option<Outcome>,
        actions: &mut Actions,
    ) {
        let member = Members::one(io.member);
        let of = &mut self.parts[io.part];
        let (first, count) = (usize::from(io.rows.0), usize::from(io.rows.1));
        for row in &mut of.rows[first..first + count] {
            row.asked = row.asked.without(member);
            if outcome == Some(Outcome::Done) {
                row.have = row.have.and(member);
            }
        }
        match outcome {
            Some(Outcome::Refused { expected_wait }) => {
                of.refused = of.refused.and(member);
                self.counts.refused += 1;
                let place = io.part as usize;
                if place >= self.busy.len() {
                    self.busy.resize(place + 1, [Nanos::ZERO; MOST_MEMBERS]);
                }
                self.busy[place][io.member.index()] = now + expected_wait;
            }
            Some(Outcome::Error) => of.failed = of.failed.and(member),
            Some(Outcome::Done) | None => {}
        }
        if self.is_ready(io.part) {
            self.strips_are_there(now, io.part, actions);
            return;
        }
        let asks = self.consult(io.part, |policy, read, asks| match outcome {
            Some(Outcome::Done) => policy.arrived(now, read, io.member, asks),
            Some(Outcome::Refused { expected_wait }) => {
                policy.refused(now, read, io.member, expected_wait, asks);
            }
            Some(Outcome::Error) | None => {}
        });
        self.carry_out(now, io.part, asks, actions);
    }

    /// A timer expires.
    pub fn timer(&mut self, now: Nanos, timer: PartTimer, actions: &mut Actions) {
        if self.is_over(timer) {
            return;
        }
        let of = |policy: &mut dyn ReadPolicy, read: &StripeRead<'_>, asks: &mut Asks| {
            policy.timer(now, read, timer.mark, asks);
        };
        let asks = self.consult(timer.part, of);
        self.carry_out(now, timer.part, asks, actions);
    }

    fn is_ready(&self, part: u32) -> bool {
        self.parts[part].rows().iter().all(|row| row.is_ready(self.needed))
    }

    /// Sends what the policy asks for, and what is needed besides.
    fn carry_out(&mut self, now: Nanos, part: u32, asks: Asks, actions: &mut Actions) {
        if let Some((at, mark)) = asks.timer {
            let number = self.parts[part].number;
            actions.push(Action::Timer(at, PartTimer { part, number, mark }));
        }
        self.ask_directly(now, part, asks.direct_flagged, Flags::LATENCY_CRITICAL, actions);
        self.ask_directly(now, part, asks.direct, Flags::empty(), actions);
        if asks.around.is_some() || asks.strips > 0 {
            self.combine(now, part, asks.around, asks.strips, actions);
        }
        self.ask_what_is_needed(now, part, actions);
    }

    /// Asks members for their own wanted strips.
    fn ask_directly(
        &mut self,
        now: Nanos,
        part: u32,
        members: Members,
        flags: Flags,
        actions: &mut Actions,
    ) {
        if members.is_empty() {
            return;
        }
        let mut asked = [Members::NONE; MOST_ROWS];
        let of = &self.parts[part];
        let usable = members.without(of.failed).without(self.lost);
        for (row, asked) in of.rows().iter().zip(&mut asked) {
            *asked = row.wanted.both(usable).without(row.have).without(row.asked);
        }
        self.ask(now, part, asked, flags, actions);
    }

    /// Asks members for rows.
    fn ask(
        &mut self,
        now: Nanos,
        part: u32,
        asked: [Members; MOST_ROWS],
        flags: Flags,
        actions: &mut Actions,
    ) {
        let all = asked.iter().fold(Members::NONE, |all, &row| all.and(row));
        let of = &mut self.parts[part];
        of.refused = of.refused.without(all);
        let mut extra = Members::NONE;
        for (row, &asked) in of.rows.iter_mut().zip(&asked) {
            row.asked = row.asked.and(asked);
            extra = extra.and(asked.without(row.wanted));
        }
        let of_user = of.op == Op::Read;
        for member in all.iter() {
            self.counts.extra_reads += u64::from(of_user && extra.has(member));
            let picked = asked.map(|row| row.has(member));
            self.send_rows(now, part, member, Op::Read, flags, picked, actions);
        }
    }

    /// Combines strips: asks for others in place of some. That needs the stripe.
    fn combine(
        &mut self,
        now: Nanos,
        part: u32,
        around: Option<Around>,
        strips: u32,
        actions: &mut Actions,
    ) {
        let of = &mut self.parts[part];
        of.around = around.or(of.around);
        of.strips = of.strips.max(strips);
        // With RAID 0 nothing can be combined; copies need not be of the same time.
        let stripe = of.piece.start.stripe;
        match of.lock {
            Lock::Shared | Lock::Exclusive => self.ask_others(now, part, actions),
            Lock::Waiting => {}
            Lock::None if self.layout.level() == Level::Raid1 => {
                self.ask_others(now, part, actions);
            }
            Lock::None if self.layout.level() == Level::Raid0 => of.around = None,
            Lock::None => {
                if self.locks.take(stripe, part, false) {
                    self.may_combine(now, part, actions);
                } else {
                    self.parts[part].lock = Lock::Waiting;
                    // Whoever writes may take long.
                    let wanted = self.read(part).wanted();
                    self.ask_directly(now, part, wanted, Flags::empty(), actions);
                }
            }
        }
    }

    /// The part has its stripe.
    pub(super) fn may_combine(&mut self, now: Nanos, part: u32, actions: &mut Actions) {
        let of = &mut self.parts[part];
        of.lock = Lock::Shared;
        if of.writes == self.locks.writes(of.piece.start.stripe) {
            self.ask_others(now, part, actions);
            self.ask_what_is_needed(now, part, actions);
            return;
        }
        // What has been read so far does not fit what will be.
        self.counts.restarted += 1;
        self.counts.stripe_reads -= u64::from(of.op == Op::Read);
        of.next_round();
        (of.around, of.strips, of.refused) = (None, 0, Members::NONE);
        for row in of.rows_mut() {
            (row.have, row.asked) = (Members::NONE, Members::NONE);
        }
        self.begin_reading(now, part, actions);
    }

    /// Asks for the strips that are combined.
    fn ask_others(&mut self, now: Nanos, part: u32, actions: &mut Actions) {
        let of = &mut self.parts[part];
        let strips = std::mem::take(&mut of.strips);
        let of = &self.parts[part];
        let usable = self.members.without(of.failed).without(self.lost);
        let mut asked = [Members::NONE; MOST_ROWS];
        let mut flagged = Members::NONE;
        if let Some(around) = of.around {
            flagged = around.flagged;
            for (row, asked) in of.rows().iter().zip(&mut asked) {
                let late = around.members.without(row.have);
                if row.wanted.both(late).is_empty() {
                    continue;
                }
                let present = row.have.and(row.asked.without(late));
                let free = usable.without(present).without(late);
                let needed = self.needed.saturating_sub(present.count());
                *asked = self.pick(of.piece.start.stripe, free, around.avoid, needed);
                *asked = asked.without(row.asked);
            }
        }
        if strips > 0 {
            for (row, asked) in of.rows().iter().zip(&mut asked) {
                let present = row.have.and(row.asked).and(*asked);
                let more = strips.saturating_sub(present.count());
                let free = usable.without(present);
                *asked = asked.and(self.pick(of.piece.start.stripe, free, Members::NONE, more));
            }
        }
        for (which, flags) in [(true, Flags::LATENCY_CRITICAL), (false, Flags::empty())] {
            let asked = asked.map(|row| match which {
                true => row.both(flagged),
                false => row.without(flagged),
            });
            self.ask(now, part, asked, flags, actions);
        }
    }

    /// So many of the `free` members, those to be avoided last: data first, then P, then Q.
    fn pick(&self, stripe: u64, free: Members, avoid: Members, count: u32) -> Members {
        if free.count() <= count {
            return free;
        }
        let mut picked = Members::NONE;
        for from in [free.without(avoid), free.both(avoid)] {
            for member in self.in_order(stripe) {
                if picked.count() < count && from.has(member) {
                    picked = picked.and(Members::one(member));
                }
            }
        }
        picked
    }

    /// The members of a stripe: data, P, Q; copies in turn.
    fn in_order(&self, stripe: u64) -> impl Iterator<Item = Member> {
        let members = self.layout.members();
        let first = match self.layout.level() {
            Level::Raid1 => (stripe % members as u64) as usize,
            _ => self.layout.data_member(stripe, 0),
        };
        // Parity is in front of the data, and so behind them, around the end.
        (first..first + members).map(move |member| Member((member % members) as u8))
    }

    /// If the strips will not be there with what has been asked so far: asks those that can be
    /// asked, if need be around those that cannot.
    fn ask_what_is_needed(&mut self, now: Nanos, part: u32, actions: &mut Actions) {
        let of = &self.parts[part];
        if of.stage != Stage::Reading || of.lock == Lock::Waiting {
            return self.ask_while_waiting(now, part, actions);
        }
        let will_be = |row: &Row| row.will_be_ready(self.needed);
        if of.rows().iter().all(will_be) {
            return;
        }
        let failed = of.failed.and(self.lost);
        let late = of.rows().iter().filter(|row| !will_be(row));
        let lacking = late.fold(Members::NONE, |all, row| all.and(row.wanted.without(row.have)));
        let gone = lacking.both(failed);
        if gone.is_empty() {
            self.ask_directly(now, part, lacking, Flags::empty(), actions);
            return;
        }
        if self.members.without(failed).count() < self.needed {
            self.finish(now, part, Outcome::Error, actions);
            return;
        }
        // The others directly, so that those that are there already count.
        self.ask_directly(now, part, lacking.without(gone), Flags::empty(), actions);
        let around = Around { members: gone, avoid: Members::NONE, flagged: Members::NONE };
        let of = &mut self.parts[part];
        of.around = None;
        self.combine(now, part, Some(around), 0, actions);
    }

    /// The part waits for its stripe: what can be read directly meanwhile is.
    fn ask_while_waiting(&mut self, now: Nanos, part: u32, actions: &mut Actions) {
        let of = &self.parts[part];
        if of.stage == Stage::Reading {
            let usable = self.read(part).missing().without(of.failed).without(self.lost);
            self.ask_directly(now, part, usable, Flags::empty(), actions);
        }
    }

    /// All strips are there, or can be computed.
    fn strips_are_there(&mut self, now: Nanos, part: u32, actions: &mut Actions) {
        let computes = !self.read(part).missing().is_empty() && self.needed > 1;
        self.consult(part, |policy, read, _| policy.ended(now, read));
        let of = &mut self.parts[part];
        if of.unanswered > 0 {
            actions.push(Action::Cancel(part));
        }
        // What is still in flight comes too late.
        of.next_round();
        if of.op != Op::Read {
            self.compute(part, actions);
        } else if computes {
            self.counts.computed += 1;
            self.compute(part, actions);
        } else {
            self.finish(now, part, Outcome::Done, actions);
        }
    }

    pub(super) fn compute(&mut self, part: u32, actions: &mut Actions) {
        let needed = u64::from(self.needed);
        let of = &mut self.parts[part];
        of.stage = Stage::Computing;
        let bytes = of.rows().iter().map(|row| u64::from(row.length) * needed).sum();
        actions.push(Action::Compute(part, bytes));
    }
}
