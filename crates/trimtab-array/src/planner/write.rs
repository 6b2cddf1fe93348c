//! Writing a part.

use trimtab_io::{Flags, Op, Outcome};

use super::locks::Lock;
use super::row::Row;
use super::{Action, MemberIo, Planner, Stage};
use crate::layout::Level;
use crate::members::{Member, Members};

impl Planner {
    /// Begins a write: it waits until it has its stripe alone.
    pub(super) fn begin_write(&mut self, part: u32) {
        if self.layout.level() == Level::Raid0 {
            self.write_members(part);
            return;
        }
        let stripe = self.parts[part].piece.start.stripe;
        match self.locks.take(stripe, part, true) {
            true => self.may_write(part),
            false => self.parts[part].lock = Lock::Waiting,
        }
    }

    /// The part has its stripe: reads what parity is computed from.
    pub(super) fn may_write(&mut self, part: u32) {
        let stripe = self.parts[part].piece.start.stripe;
        let lost = self.lost_in(stripe);
        let parities = self.parities(stripe).without(lost);
        let data = self.members.without(self.parities(stripe));
        let of = &mut self.parts[part];
        of.lock = Lock::Exclusive;
        if !of.refreshed.is_empty() {
            self.begin_reading(part);
            return;
        }
        if of.op == Op::Discard && self.layout.level().parities() > 0 {
            let is_whole =
                |row: &Row| u64::from(row.length) == self.layout.chunk() && row.user == data;
            assert!(of.rows().iter().all(is_whole), "a discard of whole stripes");
            self.write_members(part);
            return;
        }
        if parities.is_empty() {
            self.write_members(part);
            return;
        }
        for row in of.rows_mut() {
            choose(row, data, parities, lost);
        }
        if of.rows().iter().all(|row| row.wanted.is_empty()) {
            self.compute(part);
        } else {
            self.begin_reading(part);
        }
    }

    fn parities(&self, stripe: u64) -> Members {
        let both = [self.layout.p_member(stripe), self.layout.q_member(stripe)];
        both.into_iter().flatten().map(|member| Member(member as u8)).collect()
    }

    /// The members that a write goes to.
    pub(super) fn written_by(&self, part: u32) -> Members {
        let of = &self.parts[part];
        let data = of.rows().iter().fold(Members::NONE, |all: Members, row| all.and(row.user));
        let copies = self.layout.level() == Level::Raid1;
        let parities = if copies { self.members } else { self.parities(of.piece.start.stripe) };
        data.and(parities).without(self.lost_in(of.piece.start.stripe))
    }

    /// Writes data and parity.
    pub(super) fn write_members(&mut self, part: u32) {
        let stripe = self.parts[part].piece.start.stripe;
        let lost = self.lost_in(stripe);
        let of = &mut self.parts[part];
        of.stage = Stage::Writing;
        let (op, rows, count) = (of.op, of.rows, usize::from(of.row_count));
        let refreshed = of.refreshed;
        self.locks.written(stripe);
        let copies = self.layout.level() == Level::Raid1;
        let parities = if copies { self.members } else { self.parities(stripe) };
        let targets = |row: &Row| match refreshed.is_empty() {
            true => row.user.and(parities).without(lost),
            false => refreshed.without(lost),
        };
        let targets =
            std::array::from_fn(|i| if i < count { targets(&rows[i]) } else { Members::NONE });
        // A data chunk that is written nowhere is in the parity alone.
        if !self.holds_all(stripe, &rows[..count]) {
            self.finish_write(part, Outcome::Error);
            return;
        }
        let all = targets.iter().fold(Members::NONE, |all: Members, &row| all.and(row));
        for member in all.iter() {
            let picked = targets.map(|row: Members| row.has(member));
            self.send_rows(part, member, op, Flags::empty(), picked);
        }
        // The member that was to be written again is lost meanwhile.
        if all.is_empty() {
            self.finish_write(part, Outcome::Done);
        }
    }

    /// Whether what is written can be read again.
    fn holds_all(&self, stripe: u64, rows: &[Row]) -> bool {
        let lost = self.lost_in(stripe);
        match self.layout.level() {
            Level::Raid0 => rows.iter().all(|row| row.user.both(lost).is_empty()),
            _ => self.members.without(lost).count() >= self.needed,
        }
    }

    /// A member has written, or not.
    pub(super) fn write_ended(&mut self, io: MemberIo, outcome: Option<Outcome>) {
        if outcome != Some(Outcome::Done) && !self.gone().has(io.member) {
            self.lose(io.member);
            self.actions.push_back(Action::Lost(io.member));
        }
        let of = &self.parts[io.part];
        if of.of_round > 0 {
            return;
        }
        let holds = match of.op {
            Op::Flush => self.members.without(self.lost).count() >= self.needed,
            _ => self.holds_all(of.piece.start.stripe, of.rows()),
        };
        let outcome = if holds { Outcome::Done } else { Outcome::Error };
        self.finish_write(io.part, outcome);
    }

    fn finish_write(&mut self, part: u32, outcome: Outcome) {
        let stripe = self.parts[part].piece.start.stripe;
        if self.parts[part].op != Op::Flush {
            self.locks.written(stripe);
        }
        self.finish(part, outcome);
    }
}

/// Chooses what a row reads for its parity: whichever is less, as md does. What the written members
/// hold and the parity, which then changes by what the data change; or all other data.
fn choose(row: &mut Row, data: Members, parities: Members, lost: Members) {
    let others = data.without(row.user);
    let modify = row.user.and(parities);
    let can_compute = others.both(lost).is_empty();
    let can_modify = row.user.both(lost).is_empty();
    let computes = can_compute && (!can_modify || others.count() <= modify.count());
    (row.wanted, row.modify) = match (computes, can_modify) {
        (true, _) => (others, false),
        (false, true) => (modify, true),
        // Of those that are written and of those that are not one is lost: all other data are
        // needed, and the lost ones are computed.
        (false, false) => (others, false),
    };
}
