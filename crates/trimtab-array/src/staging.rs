//! A write buffer in the host's NVRAM, between the planner and the members.
//!
//! ```text
//!   planner ── writes ──> NVRAM: acknowledged ── destaged, at once or in turns ──┐
//!      └────── reads ───> what is staged from NVRAM, the rest from the drive <────┴──> drive
//! ```
//!
//! A write to a member is complete as soon as NVRAM has its data. They are written to the drive
//! (*destaged*) later, at once or when the member has its turn, and reads of what is staged are
//! served from NVRAM. Flash on Rails stages all writes so while a drive is only read (IODA, Li et
//! al., §5 and §6.2.3); IODA is compared with it with the same buffer.
//!
//! # Why it is right
//!
//! The buffer holds requests of *members*, data and parity alike, below the planner. To the planner
//! each member with its stage is a member that holds what was written last, so that all that holds
//! for the planner holds with it, whatever was destaged when: in a stripe of which one member has
//! its new strip on the drive and another in NVRAM both are new. For one member:
//!
//! - A write is acknowledged when it is in the map of staged extents. From then on until a drive
//!   has acknowledged the same bytes, reads find it there.
//! - A read takes the staged pieces of its range when it begins, and holds their records until it
//!   ends. Only what is staged nowhere comes from the drive. So it returns what was acknowledged
//!   before it began, and nothing is torn by a destage that ends meanwhile.
//! - No two destages of a member that overlap are in flight together: an older one never overwrites
//!   a newer one. After a destage only what has not been overwritten since leaves the map.
//! - Destages are written through the drive's volatile cache
//!   ([`FUA`](trimtab_io::Flags::FUA)), because NVRAM forgets them afterwards. So a flush of the
//!   user needs not wait for what is staged.
//!
//! The price is capacity: NVRAM holds parity too, and a write of less than a stripe still reads what
//! its parity is computed from before it is acknowledged. A buffer of the user's writes above the
//! planner would do with less, and would have to solve what this one need not: a strip that is
//! computed from old and new members is wrong.
//!
//! # Room
//!
//! Destaging is gentle while half of the buffer is free: a few small writes at a time, so that reads
//! do not wait behind a burst of the user's, which is what a buffer is for. With less room it is as
//! fast as the drives. Writes that find no room wait, first come, first served, and are counted.
//! What is read, destaged or overwritten keeps its whole record until no byte of it is needed.
//!
//! # Failures
//!
//! A member that does not take a destage has lost acknowledged data. All its requests fail from then
//! on, so that the planner goes around it, and what is staged of it is dropped.

mod content;
mod extents;
mod records;
mod tickets;

pub use content::StagedContent;
pub use records::Piece;

use std::collections::VecDeque;

use trimtab_io::{DeviceId, Flags, Nanos, Op, Outcome, Request, RequestId};

use crate::members::{Member, Members};
use crate::policy::Turns;
use extents::Extents;
use records::Records;
use tickets::{Purpose, Ticket, Tickets};

/// How a write buffer works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingOptions {
    /// Bytes of NVRAM. A write that is longer is taken when nothing else is staged.
    pub capacity: u64,
    /// How long NVRAM takes for a write, or for a read of what is staged.
    pub latency: Nanos,
    /// When members are written to.
    pub destaging: Destaging,
}

/// When staged data are written to their members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destaging {
    /// At any time.
    AtOnce,
    /// In the member's turn.
    InTurns(Turns),
}

/// Something for the driver to do, in the order in which [`Staging::next_action`] gives it.
#[derive(Clone, Copy, Debug)]
pub enum StagingAction {
    /// Send a request to a member's drive, and call [`Staging::ended`] with this ticket. What is
    /// written with a destage is in [`Staging::pieces`].
    Send(Member, u32, Request),
    /// Keep the data of this request to the member, under the number of a record.
    Store {
        /// The record.
        record: u32,
        /// The number of the request, which has not been answered.
        slot: u32,
    },
    /// A request is complete. A read's data are those that the drive has returned, if it was asked,
    /// and over them [`Staging::pieces`] of the ticket.
    Answer {
        /// The member to which it went.
        member: Member,
        /// Its number.
        slot: u32,
        /// Its ticket.
        ticket: u32,
        /// How it ended.
        outcome: Outcome,
    },
    /// The record is not needed any more. Its number is used again.
    Free(u32),
}

/// What a write buffer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagingCounts {
    /// The most bytes that it held at a time: what a strategy relies on.
    pub high_water: u64,
    /// Bytes of the writes that it took.
    pub staged: u64,
    /// Of these, bytes that were overwritten in NVRAM and written to no drive.
    pub coalesced: u64,
    /// Writes to drives.
    pub destages: u64,
    /// Writes that waited for room.
    pub stalled: u64,
    /// How long they waited, all together.
    pub stalled_time: Nanos,
    /// Reads served from NVRAM alone.
    pub read_hits: u64,
}

/// How hard a member is destaged: writes in flight, and the most bytes of adjacent extents that are
/// written at a time.
type Effort = (usize, u64);

/// As long as half of the buffer is free, so little that reads hardly wait behind it, and a turn is
/// over soon after its end.
const GENTLE: Effort = (4, 16 << 10);
/// With less room: as much as keeps all dies of a drive busy.
const HARD: Effort = (16, 64 << 10);

/// A write buffer: a state machine without clock, bytes or I/O, as the planner is.
///
/// The driver tells it each request to a member ([`submit`](Self::submit)), each answer of a drive
/// ([`ended`](Self::ended)) and the time ([`advance`](Self::advance)), and offers it free places of
/// a drive ([`destage`](Self::destage)). After each of these calls it carries out the
/// [actions](Self::next_action).
#[derive(Debug)]
pub struct Staging {
    options: StagingOptions,
    members: Vec<Stage>,
    failed: Members,
    records: Records,
    tickets: Tickets,
    /// Writes for which there is no room.
    waiting: VecDeque<u32>,
    /// What NVRAM has taken or given, and when it is done.
    due: VecDeque<(Nanos, u32)>,
    counts: StagingCounts,
    now: Nanos,
    actions: VecDeque<StagingAction>,
}

/// What is staged of a member.
#[derive(Debug, Default)]
struct Stage {
    extents: Extents,
    /// Where the next destage is looked for: in one direction, and then from the beginning.
    next: u64,
    /// Ranges in flight that no destage may overtake.
    in_flight: Vec<(u64, u64)>,
}

impl Staging {
    /// An empty buffer for this many members.
    #[must_use]
    pub fn new(members: usize, options: StagingOptions) -> Self {
        Self {
            options,
            members: (0..members).map(|_| Stage::default()).collect(),
            failed: Members::NONE,
            records: Records::default(),
            tickets: Tickets::default(),
            waiting: VecDeque::new(),
            due: VecDeque::new(),
            counts: StagingCounts::default(),
            now: Nanos::ZERO,
            actions: VecDeque::new(),
        }
    }

    /// What it has done so far.
    #[must_use]
    pub const fn counts(&self) -> StagingCounts {
        self.counts
    }

    /// Bytes of NVRAM in use.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.records.used()
    }

    /// Whether all that was written is on the drives, as far as they have not failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.members.iter().all(|stage| stage.extents.is_empty())
    }

    /// Members that have not taken a destage.
    #[must_use]
    pub const fn failed(&self) -> Members {
        self.failed
    }

    /// Changes when members are written to. [`Destaging::AtOnce`] before a shutdown: nothing has to
    /// wait for its turn.
    pub const fn set_destaging(&mut self, destaging: Destaging) {
        self.options.destaging = destaging;
    }

    /// The next action that the events so far have caused: to be carried out before the next event.
    pub fn next_action(&mut self) -> Option<StagingAction> {
        self.actions.pop_front()
    }

    /// The pieces of NVRAM that belong to a ticket: what a read finds there, what a destage writes.
    /// Valid until the next event, and their bytes until the next action.
    #[must_use]
    pub fn pieces(&self, ticket: u32) -> &[Piece] {
        &self.tickets[ticket].pieces
    }

    /// When [`advance`](Self::advance) is to be called next; [`Nanos::MAX`]: never.
    #[must_use]
    pub fn next_event(&self) -> Nanos {
        let due = self.due.front().map_or(Nanos::MAX, |&(at, _)| at);
        let is_staged = || self.members.iter().any(|stage| !stage.extents.is_empty());
        match self.options.destaging {
            Destaging::InTurns(turns) if is_staged() => due.min(turns.next(self.now)),
            _ => due,
        }
    }

    /// A request to a member, under a number that comes back with its answer. The drive must have
    /// room for it.
    pub fn submit(&mut self, now: Nanos, member: Member, slot: u32, request: &Request) {
        self.begin_event(now);
        let ticket = self.tickets.insert(member, Purpose::Request(slot), request);
        if self.failed.has(member) {
            self.answer(ticket, Outcome::Error);
            return;
        }
        match request.op {
            Op::Write if self.waiting.is_empty() && self.has_room(request.length) => {
                self.admit(ticket);
            }
            Op::Write => {
                self.waiting.push_back(ticket);
                self.counts.stalled += 1;
            }
            Op::Read => self.read(ticket, request),
            Op::Discard => self.discard(ticket, request),
            Op::Flush => self.actions.push_back(StagingAction::Send(member, ticket, *request)),
        }
    }

    /// A member's drive has room for a request: destages something if there is something, and it may
    /// be. Returns whether it does.
    pub fn destage(&mut self, now: Nanos, member: Member) -> bool {
        self.begin_event(now);
        let may = match self.options.destaging {
            Destaging::AtOnce => true,
            Destaging::InTurns(turns) => turns.busy(now) == member,
        };
        let (depth, most_bytes) = self.effort();
        let stage = &mut self.members[member.index()];
        if !may || stage.extents.is_empty() || stage.in_flight.len() >= depth {
            return false;
        }
        let Some(first) = stage.next_free() else { return false };
        let mut request = Request::new(
            RequestId(u64::MAX),
            DeviceId(member.0.into()),
            now,
            Op::Write,
            first.offset,
            first.length,
        );
        request.flags = Flags::FUA | Flags::BACKGROUND;
        let mut pieces = self.tickets.pieces();
        pieces.push(first);
        while let Some(more) = stage.extents.at_or_behind(request.end())
            && more.offset == request.end()
            && request.length + more.length <= most_bytes
            && !stage.is_in_flight(&more)
        {
            request.length += more.length;
            pieces.push(more);
        }
        stage.next = request.end();
        stage.in_flight.push((request.offset, request.end()));
        pieces.iter().for_each(|piece| self.records.pin(piece.record));
        let ticket = self.tickets.insert(member, Purpose::Destage, &request);
        self.tickets[ticket].pieces = pieces;
        self.counts.destages += 1;
        self.actions.push_back(StagingAction::Send(member, ticket, request));
        true
    }

    /// A drive has answered a request.
    pub fn ended(&mut self, now: Nanos, ticket: u32, outcome: Outcome) {
        self.begin_event(now);
        let Ticket { member, purpose, op, offset, end, .. } = self.tickets[ticket];
        if op != Op::Read {
            self.members[member.index()].no_longer_in_flight(offset, end);
        }
        match purpose {
            Purpose::Request(_) => self.answer(ticket, outcome),
            Purpose::Destage => self.destaged(ticket, outcome),
        }
        self.admit_waiting();
    }

    /// Time has passed.
    pub fn advance(&mut self, now: Nanos) {
        self.begin_event(now);
        while let Some(&(at, ticket)) = self.due.front()
            && at <= now
        {
            self.due.pop_front();
            let is_lost = self.failed.has(self.tickets[ticket].member);
            self.answer(ticket, if is_lost { Outcome::Error } else { Outcome::Done });
        }
        self.admit_waiting();
    }

    fn begin_event(&mut self, now: Nanos) {
        self.now = now;
        self.tickets.free_over();
    }

    /// NVRAM has done its work at once: the answer comes when it takes that long.
    fn after_latency(&mut self, ticket: u32) {
        self.due.push_back((self.now + self.options.latency, ticket));
    }

    const fn effort(&self) -> Effort {
        if self.records.used() <= self.options.capacity / 2 { GENTLE } else { HARD }
    }

    fn has_room(&self, bytes: u64) -> bool {
        let used = self.records.used();
        used == 0 || used + bytes <= self.options.capacity
    }

    /// A write's data come into NVRAM, over what was staged of its range.
    fn admit(&mut self, ticket: u32) {
        let Ticket { member, purpose, offset, end, .. } = self.tickets[ticket];
        let Purpose::Request(slot) = purpose else { return };
        let length = end - offset;
        let record = self.records.insert(length);
        let extents = &mut self.members[member.index()].extents;
        extents.cut(offset, end, |piece| {
            self.counts.coalesced += piece.length;
            self.records.remove(&piece, &mut self.actions);
        });
        extents.insert(Piece { record, from: 0, offset, length });
        self.counts.staged += length;
        self.counts.high_water = self.counts.high_water.max(self.records.used());
        self.actions.push_back(StagingAction::Store { record, slot });
        self.after_latency(ticket);
    }

    /// Admits writes that wait, as far as there is room.
    fn admit_waiting(&mut self) {
        while let Some(&ticket) = self.waiting.front() {
            let Ticket { member, arrival, offset, end, .. } = self.tickets[ticket];
            let is_lost = self.failed.has(member);
            if !is_lost && !self.has_room(end - offset) {
                return;
            }
            self.waiting.pop_front();
            self.counts.stalled_time += self.now.since(arrival);
            match is_lost {
                true => self.answer(ticket, Outcome::Error),
                false => self.admit(ticket),
            }
        }
    }

    fn read(&mut self, ticket: u32, request: &Request) {
        let member = self.tickets[ticket].member;
        let mut pieces = self.tickets.pieces();
        let extents = &self.members[member.index()].extents;
        pieces.extend(extents.pieces(request.offset, request.end()));
        pieces.iter().for_each(|piece| self.records.pin(piece.record));
        let staged: u64 = pieces.iter().map(|piece| piece.length).sum();
        self.tickets[ticket].pieces = pieces;
        if staged == request.length {
            self.counts.read_hits += 1;
            self.after_latency(ticket);
        } else {
            self.actions.push_back(StagingAction::Send(member, ticket, *request));
        }
    }

    /// A discard is a hint: where something is staged it does nothing.
    fn discard(&mut self, ticket: u32, request: &Request) {
        let member = self.tickets[ticket].member;
        let stage = &mut self.members[member.index()];
        let (offset, end) = (request.offset, request.end());
        if stage.extents.pieces(offset, end).next().is_some() {
            self.after_latency(ticket);
        } else {
            stage.in_flight.push((offset, end));
            self.actions.push_back(StagingAction::Send(member, ticket, *request));
        }
    }

    /// A drive has written, or not.
    fn destaged(&mut self, ticket: u32, outcome: Outcome) {
        let member = self.tickets[ticket].member;
        let stage = &mut self.members[member.index()];
        let mut gone = |piece: Piece| self.records.remove(&piece, &mut self.actions);
        if outcome == Outcome::Done {
            for piece in &self.tickets[ticket].pieces {
                stage.extents.remove(piece, &mut gone);
            }
        } else {
            self.failed = self.failed.and(Members::one(member));
            stage.extents.cut(0, u64::MAX, &mut gone);
        }
        self.over(ticket);
    }

    fn answer(&mut self, ticket: u32, outcome: Outcome) {
        let Ticket { member, purpose, .. } = self.tickets[ticket];
        if let Purpose::Request(slot) = purpose {
            self.actions.push_back(StagingAction::Answer { member, slot, ticket, outcome });
        }
        self.over(ticket);
    }

    /// The ticket is used again from the next event on.
    fn over(&mut self, ticket: u32) {
        for piece in &self.tickets[ticket].pieces {
            self.records.unpin(piece.record, &mut self.actions);
        }
        self.tickets.over(ticket);
    }
}

impl Stage {
    fn is_in_flight(&self, piece: &Piece) -> bool {
        self.in_flight.iter().any(|&(offset, end)| piece.offset < end && offset < piece.end())
    }

    fn no_longer_in_flight(&mut self, offset: u64, end: u64) {
        if let Some(place) = self.in_flight.iter().position(|&range| range == (offset, end)) {
            self.in_flight.swap_remove(place);
        }
    }

    /// The next extent that may be written, from where the last one ended, around the end.
    fn next_free(&self) -> Option<Piece> {
        let from = |start: u64, end: u64| {
            let mut at = start;
            while let Some(piece) = self.extents.at_or_behind(at).filter(|piece| piece.offset < end)
            {
                if !self.is_in_flight(&piece) {
                    return Some(piece);
                }
                at = piece.end();
            }
            None
        };
        from(self.next, u64::MAX).or_else(|| from(0, self.next))
    }
}
