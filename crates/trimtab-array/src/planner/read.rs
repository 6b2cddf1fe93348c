//! Reading the strips of a part.

use trimtab_io::{Flags, Nanos, Op, Outcome};

use super::locks::Lock;
use super::row::MOST_ROWS;
use super::{Action, MemberIo, PartTimer, Planner, Row, Stage};
use crate::MOST_MEMBERS;
use crate::layout::Level;
use crate::members::{Member, Members};
use crate::policy::{Around, Asks, ReadPolicy, StripeRead};

impl Planner {
    /// Begins to read what the rows want, or begins again.
    pub(super) fn begin_reading(&mut self, part: u32) {
        let stripe = self.parts[part].piece.start.stripe;
        let of = &mut self.parts[part];
        of.stage = Stage::Reading;
        of.writes = self.locks.writes(stripe);
        if of.op == Op::Read {
            self.counts.stripe_reads += 1;
            let wanted = of.rows().iter().fold(Members::NONE, |all, row| all.and(row.wanted));
            self.counts.wanted_reads += u64::from(wanted.count());
        }
        let now = self.now;
        let asks = self.consult(part, |policy, read, asks| policy.begin(now, read, asks));
        self.carry_out(part, asks);
    }

    /// A member has answered.
    pub(super) fn read_ended(&mut self, io: MemberIo, outcome: Option<Outcome>) {
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
                of.refusers = of.refusers.and(member);
                self.counts.refused += 1;
                let place = io.part as usize;
                if place >= self.busy.len() {
                    self.busy.resize(place + 1, [Nanos::ZERO; MOST_MEMBERS]);
                }
                self.busy[place][io.member.index()] = self.now + expected_wait;
            }
            Some(Outcome::Error) => of.failed = of.failed.and(member),
            Some(Outcome::Done) | None => {}
        }
        if self.is_ready(io.part) {
            self.strips_are_there(io.part);
            return;
        }
        let now = self.now;
        let asks = self.consult(io.part, |policy, read, asks| match outcome {
            Some(Outcome::Done) => policy.arrived(now, read, io.member, asks),
            Some(Outcome::Refused { expected_wait }) => {
                policy.refused(now, read, io.member, expected_wait, asks);
            }
            Some(Outcome::Error) | None => {}
        });
        self.carry_out(io.part, asks);
    }

    /// Whether a part still waits for this read. The data of others must not reach
    /// [`Content`](crate::Content): the part may have begun again, and have newer ones.
    #[must_use]
    pub fn awaits(&self, io: MemberIo) -> bool {
        let of = &self.parts[io.part];
        of.stage == Stage::Reading && of.round == io.round
    }

    /// A timer expires.
    pub fn timer(&mut self, now: Nanos, timer: PartTimer) {
        self.now = now;
        if self.is_over(timer) {
            return;
        }
        let of = |policy: &mut dyn ReadPolicy, read: &StripeRead<'_>, asks: &mut Asks| {
            policy.timer(now, read, timer.mark, asks);
        };
        let asks = self.consult(timer.part, of);
        self.carry_out(timer.part, asks);
        self.free_over();
    }

    fn is_ready(&self, part: u32) -> bool {
        self.parts[part].rows().iter().all(|row| row.is_ready(self.needed))
    }

    /// Sends what the policy asks for, and what is needed besides.
    fn carry_out(&mut self, part: u32, asks: Asks) {
        if let Some((at, mark)) = asks.timer {
            let number = self.parts[part].number;
            self.actions.push_back(Action::Timer(at, PartTimer { part, number, mark }));
        }
        self.ask_directly(part, asks.direct_flagged, Flags::LATENCY_CRITICAL);
        self.ask_directly(part, asks.direct, Flags::empty());
        if asks.around.is_some() || asks.strips > 0 {
            self.combine(part, asks.around, asks.strips);
        }
        self.ask_what_is_needed(part);
    }

    /// Members that a part cannot read from.
    fn unusable(&self, part: u32) -> Members {
        let of = &self.parts[part];
        of.failed.and(self.lost_in(of.piece.start.stripe))
    }

    /// Asks members for their own wanted strips.
    fn ask_directly(&mut self, part: u32, members: Members, flags: Flags) {
        if members.is_empty() {
            return;
        }
        let mut asked = [Members::NONE; MOST_ROWS];
        let of = &self.parts[part];
        let usable = members.without(self.unusable(part));
        for (row, asked) in of.rows().iter().zip(&mut asked) {
            *asked = row.wanted.both(usable).without(row.have).without(row.asked);
        }
        self.ask(part, asked, flags);
    }

    /// Asks members for rows.
    fn ask(&mut self, part: u32, asked: [Members; MOST_ROWS], flags: Flags) {
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
            self.send_rows(part, member, Op::Read, flags, picked);
        }
    }

    /// Combines strips: asks for others in place of some. That needs the stripe.
    fn combine(&mut self, part: u32, around: Option<Around>, strips: u32) {
        let of = &mut self.parts[part];
        of.around = around.or(of.around);
        of.strips = of.strips.max(strips);
        // With RAID 0 nothing can be combined; copies need not be of the same time.
        let stripe = of.piece.start.stripe;
        match of.lock {
            Lock::Shared | Lock::Exclusive => self.ask_others(part),
            Lock::Waiting => {}
            Lock::None if self.layout.level() == Level::Raid1 => {
                self.ask_others(part);
            }
            Lock::None if self.layout.level() == Level::Raid0 => of.around = None,
            Lock::None => {
                if self.locks.take(stripe, part, false) {
                    self.may_combine(part);
                } else {
                    self.parts[part].lock = Lock::Waiting;
                    // Whoever writes may take long.
                    let wanted = self.read(part).wanted();
                    self.ask_directly(part, wanted, Flags::empty());
                }
            }
        }
    }

    /// The part has its stripe.
    pub(super) fn may_combine(&mut self, part: u32) {
        let of = &mut self.parts[part];
        of.lock = Lock::Shared;
        if of.writes == self.locks.writes(of.piece.start.stripe) {
            self.ask_others(part);
            self.ask_what_is_needed(part);
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
        self.begin_reading(part);
    }

    /// Asks for the strips that are combined.
    fn ask_others(&mut self, part: u32) {
        let of = &mut self.parts[part];
        let strips = std::mem::take(&mut of.strips);
        let of = &self.parts[part];
        let usable = self.members.without(self.unusable(part));
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
            self.ask(part, asked, flags);
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
    fn ask_what_is_needed(&mut self, part: u32) {
        let of = &self.parts[part];
        if of.stage != Stage::Reading || of.lock == Lock::Waiting {
            return self.ask_while_waiting(part);
        }
        let will_be = |row: &Row| row.will_be_ready(self.needed);
        if of.rows().iter().all(will_be) {
            return;
        }
        let failed = self.unusable(part);
        let late = of.rows().iter().filter(|row| !will_be(row));
        let lacking = late.fold(Members::NONE, |all, row| all.and(row.wanted.without(row.have)));
        let gone = lacking.both(failed);
        if gone.is_empty() {
            self.ask_directly(part, lacking, Flags::empty());
            return;
        }
        if self.members.without(failed).count() < self.needed {
            self.finish(part, Outcome::Error);
            return;
        }
        // The others directly, so that those that are there already count.
        self.ask_directly(part, lacking.without(gone), Flags::empty());
        let around = Around { members: gone, avoid: Members::NONE, flagged: Members::NONE };
        let of = &mut self.parts[part];
        of.around = None;
        self.combine(part, Some(around), 0);
    }

    /// The part waits for its stripe: what can be read directly meanwhile is.
    fn ask_while_waiting(&mut self, part: u32) {
        let of = &self.parts[part];
        if of.stage == Stage::Reading {
            let usable = self.read(part).missing().without(self.unusable(part));
            self.ask_directly(part, usable, Flags::empty());
        }
    }

    /// All strips are there, or can be computed.
    fn strips_are_there(&mut self, part: u32) {
        let computes = !self.read(part).missing().is_empty() && self.needed > 1;
        let now = self.now;
        self.consult(part, |policy, read, _| policy.ended(now, read));
        let of = &mut self.parts[part];
        if of.unanswered > 0 {
            self.actions.push_back(Action::Cancel(part));
        }
        // What is still in flight comes too late.
        of.next_round();
        if of.op != Op::Read {
            self.compute(part);
        } else if computes {
            self.counts.computed += 1;
            self.compute(part);
        } else {
            self.finish(part, Outcome::Done);
        }
    }

    pub(super) fn compute(&mut self, part: u32) {
        let needed = u64::from(self.needed);
        let of = &mut self.parts[part];
        of.stage = Stage::Computing;
        let bytes = of.rows().iter().map(|row| u64::from(row.length) * needed).sum();
        self.actions.push_back(Action::Compute(part, bytes));
    }
}
