//! The planner: requests of the user in, requests to members and computations out.
//!
//! ```text
//!   submit ──> pieces, one per stripe ──> stripe's read (policy) ──> compute ──> Complete
//!                      └── write: lock ── read for parity (policy) ── compute ── write ──┘
//! ```
//!
//! Each request is cut into pieces, one per stripe, which run side by side and are independent of
//! each other. A piece reads the strips that it wants, or enough others to compute them, under a
//! [`ReadPolicy`]; a write then computes parity and writes.
//!
//! It holds whatever the policy does, and however the members behave, as long as no more of them
//! fail than the level can lose:
//!
//! - Each request completes exactly once, and a read returns what was written last before it began,
//!   or something written at the same time.
//! - Each request to a member is answered once. What a piece no longer needs is taken back if it
//!   still waits; if not its answer is ignored.
//! - When nothing is in flight parity fits the data.
//!
//! The planner knows no bytes: [`Content`](crate::Content) has them, where there are any.

mod counts;
mod locks;
mod part;
mod read;
mod rebuild;
mod row;
mod write;

pub use counts::Counts;
pub use part::PartView;
pub use row::Row;
pub(crate) use row::member_of;

use std::collections::VecDeque;

use trimtab_io::{DeviceId, Flags, HostEvent, Issuer, Nanos, Op, Outcome, Request, RequestId};
use trimtab_steer::InFlightTable;

use crate::layout::{Layout, Level, Piece};
use crate::members::{Member, Members};
use crate::policy::{Asks, BusyUntil, MemberEnded, Plain, ReadPolicy, StripeRead};
use locks::{Lock, Locks};
use part::{Part, Stage};
use row::{MOST_ROWS, rows_of};

/// Something for the driver to do, in the order in which [`Planner::next_action`] gives it.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// Send a request to a member, and call [`Planner::ended`] when it is answered.
    Send(MemberIo, Request),
    /// Take back the requests of this part that still wait in the host queues, and call
    /// [`Planner::ended`] for each, without an outcome.
    Cancel(u32),
    /// Compute strips, and call [`Planner::computed`]. How many bytes go into it: for drivers
    /// without content.
    Compute(u32, u64),
    /// Call [`Planner::timer`] at this time.
    Timer(Nanos, PartTimer),
    /// The part has read or written all that it must: the driver may deliver its data. The number
    /// is used again afterwards.
    PartDone(u32),
    /// The request is complete. Each request gets exactly one of these.
    Complete(RequestId, Outcome),
    /// A write to this member has failed: it holds old data, and is not used any more.
    Lost(Member),
}

/// A request to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// The part of a request of the user.
    pub part: u32,
    /// The member.
    pub member: Member,
    /// The first row of the part that it covers, and how many.
    pub rows: (u8, u8),
    /// Answers to earlier rounds are ignored.
    round: u16,
    /// The policy's number.
    ticket: u32,
}

/// Identifies a timer when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartTimer {
    part: u32,
    number: u64,
    mark: u8,
}

/// In the place of a part's user: the planner itself.
const NOBODY: u32 = u32::MAX;
/// The most bytes of a chunk that are written again at a time.
const REFRESH: u64 = 64 << 10;

/// A request of the user.
#[derive(Clone, Copy, Debug)]
struct User {
    request: Request,
    parts: u32,
    outcome: Outcome,
}

/// The planner of an array.
#[derive(Debug)]
pub struct Planner {
    layout: Layout,
    policy: Box<dyn ReadPolicy>,
    members: Members,
    /// Strips from which the others of a row can be computed.
    needed: u32,
    lost: Members,
    /// The lost member that is being rebuilt, and the stripes from the first on that it has again.
    rebuilding: Option<(Member, u64)>,
    /// Parts that write something again.
    refreshing: u32,
    /// Members read zeroes where they have discarded: so does parity.
    discards_to_zeroes: bool,
    /// By part, for those that members have refused.
    busy: Vec<BusyUntil>,
    users: InFlightTable<User>,
    parts: InFlightTable<Part>,
    locks: Locks,
    counts: Counts,
    next_number: u64,
    /// Parts that are over, to be freed when the event has been handled.
    over: Vec<u32>,
    /// The stripe of which something is written again next.
    next_refreshed: u64,
    /// The time of the event that is being handled, and what it has caused.
    now: Nanos,
    actions: VecDeque<Action>,
}

impl Planner {
    /// The planner of an array, under a policy.
    #[must_use]
    pub fn new(layout: Layout, policy: Box<dyn ReadPolicy>) -> Self {
        let needed = match layout.level() {
            Level::Raid0 => layout.members(),
            _ => layout.data_chunks(),
        } as u32;
        Self {
            layout,
            policy,
            members: Members::first(layout.members()),
            needed,
            lost: Members::NONE,
            rebuilding: None,
            refreshing: 0,
            discards_to_zeroes: false,
            busy: Vec::new(),
            users: InFlightTable::default(),
            parts: InFlightTable::default(),
            locks: Locks::new(),
            counts: Counts::default(),
            next_number: 0,
            over: Vec::new(),
            next_refreshed: 0,
            now: Nanos::ZERO,
            actions: VecDeque::new(),
        }
    }

    /// The layout.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A request for this stripe is submitted soon. A hint, which makes that faster and changes nothing
    /// else; for several requests at once it is better than one by one.
    #[inline]
    pub fn expect(&self, stripe: u64) {
        self.locks.expect(stripe);
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &dyn ReadPolicy {
        self.policy.as_ref()
    }

    /// Tells the policy what the host has learnt of a member beside requests.
    pub fn observe(&mut self, member: Member, event: &HostEvent) {
        self.policy.observe(member, event);
    }

    /// Replaces the policy. Reads that have begun under the other one end under this one.
    pub fn set_policy(&mut self, policy: Box<dyn ReadPolicy>) {
        self.policy = policy;
    }

    /// Members read zeroes where they have discarded. Then parity fits after a discard of whole stripes;
    /// otherwise parity arrays ignore discards.
    pub const fn discards_to_zeroes(&mut self) {
        self.discards_to_zeroes = true;
    }

    /// What it has done so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.users.is_empty() && self.parts.is_empty()
    }

    /// The members that are lost.
    #[must_use]
    pub const fn lost(&self) -> Members {
        self.lost
    }

    /// The member is not used any more, and what it holds is out of date. Its requests are still
    /// answered.
    pub fn lose(&mut self, member: Member) {
        self.lost = self.lost.and(Members::one(member));
        self.rebuilding = self.rebuilding.filter(|rebuilding| rebuilding.0 != member);
    }

    /// The next action that the events so far have caused: to be carried out before the next event.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// A part, for a driver with content.
    #[must_use]
    pub fn part(&self, part: u32) -> PartView<'_> {
        let of = &self.parts[part];
        let request = self.request_of(of.user);
        let is_refresh = !of.refreshed.is_empty();
        PartView { request, op: of.op, piece: of.piece, is_refresh, rows: of.rows() }
    }

    /// A request of the user arrives. Its identifier must differ from those in flight.
    ///
    /// # Panics
    /// The range is not within the array's capacity; or it is a discard of a part of a stripe of a parity
    /// array that [discards to zeroes](Self::discards_to_zeroes).
    pub fn submit(&mut self, now: Nanos, request: &Request) {
        self.now = now;
        let user = User { request: *request, parts: 1, outcome: Outcome::Done };
        let user = self.users.insert(user);
        match request.op {
            Op::Flush => self.flush(user),
            // Parity would not fit what the members return afterwards.
            Op::Discard if self.layout.level().parities() > 0 && !self.discards_to_zeroes => {}
            Op::Read | Op::Write | Op::Discard => {
                for piece in self.layout.pieces(request.offset, request.length) {
                    self.begin(user, request.op, piece);
                }
            }
        }
        self.part_of_user_done(user);
        self.free_over();
    }

    fn request_of(&self, user: u32) -> RequestId {
        if user == NOBODY { RequestId(u64::MAX) } else { self.users[user].request.id }
    }

    /// Writes some of what a member holds again, if the policy wants that.
    fn refresh(&mut self) {
        let bytes = self.layout.chunk().min(REFRESH);
        let Some(member) = self.policy.refresh(self.now, bytes) else { return };
        let stripe = self.next_refreshed;
        if self.lost_in(stripe).has(member) || self.layout.level() == Level::Raid0 {
            return;
        }
        self.next_refreshed = (stripe + 1) % self.layout.stripes();
        self.counts.refreshed += 1;
        self.refreshing += 1;
        let mut rows = [Row::default(); MOST_ROWS];
        rows[0] = Row::refreshed(bytes as u32, member);
        let piece = Piece::of_stripe(&self.layout, stripe, bytes);
        let part = self.new_part(NOBODY, Op::Write, piece, rows, 1);
        self.parts[part].refreshed = Members::one(member);
        self.begin_write(part);
    }

    fn begin(&mut self, user: u32, op: Op, piece: Piece) {
        let (rows, row_count) = rows_of(&self.layout, &piece);
        let part = self.new_part(user, op, piece, rows, row_count);
        match op {
            Op::Read => self.begin_reading(part),
            _ => self.begin_write(part),
        }
    }

    fn new_part(
        &mut self,
        user: u32,
        op: Op,
        piece: Piece,
        rows: [Row; MOST_ROWS],
        row_count: usize,
    ) -> u32 {
        if user != NOBODY {
            self.users[user].parts += 1;
        }
        self.next_number += 1;
        self.parts.insert(Part {
            number: self.next_number,
            user,
            op,
            stage: Stage::Waiting,
            piece,
            rows,
            row_count: row_count as u8,
            lock: Lock::None,
            round: 0,
            writes: 0,
            unanswered: 0,
            of_round: 0,
            begun: self.now,
            last_sent: self.now,
            refused: Members::NONE,
            refusers: Members::NONE,
            delayed: Members::NONE,
            failed: Members::NONE,
            refreshed: Members::NONE,
            around: None,
            strips: 0,
            outcome: Outcome::Done,
        })
    }

    /// All members write what they hold in their caches.
    fn flush(&mut self, user: u32) {
        let piece = Piece::of_flush(&self.layout);
        let part = self.new_part(user, Op::Flush, piece, Default::default(), 0);
        self.parts[part].stage = Stage::Writing;
        let targets = self.members.without(self.gone());
        if targets.is_empty() {
            self.finish(part, Outcome::Error);
        }
        for member in targets.iter() {
            self.send(part, member, (0, 0), Op::Flush, Flags::empty());
        }
    }

    /// A request to a member has ended; without an outcome it was taken back.
    pub fn ended(&mut self, now: Nanos, io: MemberIo, sent: Nanos, outcome: Option<Outcome>) {
        self.now = now;
        let part = &mut self.parts[io.part];
        part.unanswered -= 1;
        if part.stage == Stage::Done && part.unanswered == 0 {
            self.over.push(io.part);
        }
        let is_read = matches!(part.stage, Stage::Reading) || part.op == Op::Read;
        let counts = io.round == part.round;
        part.of_round -= u32::from(counts);
        let stage = part.stage;
        let MemberIo { member, ticket, .. } = io;
        self.policy.member_ended(now, &MemberEnded { member, ticket, sent, is_read, outcome });
        match stage {
            Stage::Reading if counts => self.read_ended(io, outcome),
            Stage::Writing if counts => self.write_ended(io, outcome),
            _ => {}
        }
        self.free_over();
    }

    /// A member that is about to answer was late because it was busy with itself, as far as the
    /// driver knows: for [`Counts::busy`].
    pub fn was_busy(&mut self, io: MemberIo) {
        let of = &mut self.parts[io.part];
        of.delayed = of.delayed.and(Members::one(io.member));
    }

    /// A part's strips have been computed.
    pub fn computed(&mut self, now: Nanos, part: u32) {
        self.now = now;
        debug_assert_eq!(self.parts[part].stage, Stage::Computing);
        match self.parts[part].op {
            Op::Read => self.finish(part, Outcome::Done),
            _ => self.write_members(part),
        }
        self.free_over();
    }

    /// Whether a timer's part is over: waiting for it would be in vain.
    #[must_use]
    pub fn is_over(&self, timer: PartTimer) -> bool {
        let part = &self.parts[timer.part];
        part.number != timer.number || part.stage != Stage::Reading
    }

    fn send(&mut self, part: u32, member: Member, rows: (u8, u8), op: Op, flags: Flags) {
        let id = self.request_of(self.parts[part].user);
        let of = &mut self.parts[part];
        of.unanswered += 1;
        of.of_round += 1;
        of.last_sent = self.now;
        let (mut offset, mut length) = (0, 0);
        if rows.1 > 0 {
            let (first, last) =
                (&of.rows[usize::from(rows.0)], &of.rows[usize::from(rows.0 + rows.1 - 1)]);
            offset = self.layout.member_offset(of.piece.start.stripe, first.offset.into());
            length = u64::from(last.end() - first.offset);
        }
        let request = Request {
            id,
            device: DeviceId(member.0.into()),
            arrival: self.now,
            op,
            offset,
            length,
            flags,
            deadline: None,
            issuer: Issuer::of_process(0),
        };
        let round = of.round;
        let ticket = self.policy.member_sent(self.now, member, &request);
        self.actions
            .push_back(Action::Send(MemberIo { part, member, rows, round, ticket }, request));
    }

    /// Sends to a member what `picks` of its rows, in as few requests as possible.
    fn send_rows(
        &mut self,
        part: u32,
        member: Member,
        op: Op,
        flags: Flags,
        picked: [bool; MOST_ROWS],
    ) {
        let mut at = 0;
        while at < MOST_ROWS {
            if !picked[at] {
                at += 1;
                continue;
            }
            let first = at;
            at += 1;
            let rows = &self.parts[part].rows;
            while at < MOST_ROWS && picked[at] && rows[at - 1].end() == rows[at].offset {
                at += 1;
            }
            let rows = (first as u8, (at - first) as u8);
            match op {
                Op::Read => self.counts.member_reads += 1,
                _ => self.counts.member_writes += 1,
            }
            self.send(part, member, rows, op, flags);
        }
    }

    /// The part is over.
    fn finish(&mut self, part: u32, outcome: Outcome) {
        let of = &mut self.parts[part];
        of.stage = Stage::Done;
        of.outcome = outcome;
        let Part { user, unanswered, op, refusers, .. } = *of;
        if op == Op::Read {
            self.counts.refusals[class(refusers)] += 1;
        }
        self.unlock(part);
        match unanswered {
            0 => self.over.push(part),
            _ => self.actions.push_back(Action::Cancel(part)),
        }
        if user == NOBODY {
            self.refreshing -= 1;
            return;
        }
        self.actions.push_back(Action::PartDone(part));
        let user_outcome = &mut self.users[user].outcome;
        if outcome != Outcome::Done {
            *user_outcome = outcome;
        }
        self.part_of_user_done(user);
        if op == Op::Write {
            let (begun, members) = (self.parts[part].begun, self.written_by(part).count());
            self.policy.wrote(self.now, begun, members);
            self.refresh();
        }
    }

    fn part_of_user_done(&mut self, user: u32) {
        let of = &mut self.users[user];
        of.parts -= 1;
        if of.parts == 0 {
            self.actions.push_back(Action::Complete(of.request.id, of.outcome));
            self.users.remove(user);
        }
    }

    /// Frees the parts that are over. At the end of an event: until then their slots must not be
    /// used again.
    fn free_over(&mut self) {
        while let Some(part) = self.over.pop() {
            let of = &self.parts[part];
            if of.op == Op::Read {
                self.counts.busy[class(of.refusers.and(of.delayed))] += 1;
            }
            self.parts.remove(part);
        }
    }

    /// Gives the part's stripe back, and begins what waits for it.
    fn unlock(&mut self, part: u32) {
        let stripe = self.parts[part].piece.start.stripe;
        match std::mem::take(&mut self.parts[part].lock) {
            Lock::None => return,
            Lock::Waiting => self.locks.leave(stripe, part),
            Lock::Shared => self.locks.release(stripe, false),
            Lock::Exclusive => self.locks.release(stripe, true),
        }
        while let Some(next) = self.locks.grant(stripe) {
            match self.parts[next].op {
                Op::Read => self.may_combine(next),
                _ => self.may_write(next),
            }
        }
    }

    /// The part as its policy sees it.
    fn read(&self, part: u32) -> StripeRead<'_> {
        let of = &self.parts[part];
        StripeRead {
            stripe: of.piece.start.stripe,
            begun: of.begun,
            members: self.members,
            failed: of.failed.and(self.lost_in(of.piece.start.stripe)),
            refused: of.refused,
            needed: self.needed,
            of_user: of.op == Op::Read,
            around: of.around.map_or(Members::NONE, |around| around.members),
            rows: of.rows(),
            busy: self.busy.get(part as usize).filter(|_| !of.refused.is_empty()),
        }
    }

    /// Asks the policy about a part.
    fn consult(
        &mut self,
        part: u32,
        about: impl FnOnce(&mut dyn ReadPolicy, &StripeRead<'_>, &mut Asks),
    ) -> Asks {
        let mut asks = Asks::default();
        // Taken out, so that it can be changed while it sees the rest.
        let mut policy = std::mem::replace(&mut self.policy, Box::new(Plain));
        about(policy.as_mut(), &self.read(part), &mut asks);
        self.policy = policy;
        asks
    }
}

/// The class of a number of members in [`Counts`].
fn class(members: Members) -> usize {
    members.count().min(4) as usize
}
