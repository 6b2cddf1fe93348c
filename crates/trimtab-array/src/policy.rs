//! Which members a stripe's read asks.

mod flagged;
mod plain;
mod predicted;
mod proactive;
mod standing;
mod tolerant;
mod trimtab;
mod windows;

pub use flagged::{BusyTime, Flagged};
pub use plain::Plain;
pub use predicted::Predicted;
pub use proactive::Proactive;
pub use standing::{Standing, TurnsStanding};
pub use tolerant::{Tolerance, Tolerant};
pub use trimtab::{Trimtab, TrimtabOptions};
pub use windows::{Turns, Windows};

use std::fmt;

use trimtab_io::{HostEvent, Nanos, Outcome, Request};

use crate::members::{Member, Members};

/// A policy: a state machine that decides, for each read of a stripe, which members are asked and
/// what is computed instead.
///
/// A read of a stripe wants the strips of some members. Any as many strips as the stripe has chunks
/// of data give the others, so a policy may go around a member in each of these calls. It decides
/// about speed only: whatever it asks, the planner reads what is needed, around members that fail,
/// and waits for refused ones in the end.
///
/// The reads that a write needs for its parity are reads of a stripe too.
pub trait ReadPolicy: fmt::Debug + Send {
    /// A read begins.
    fn begin(&mut self, now: Nanos, read: &StripeRead<'_>, asks: &mut Asks);

    /// A member has refused: it would take this much longer. Its answer is no error.
    fn refused(
        &mut self,
        now: Nanos,
        read: &StripeRead<'_>,
        member: Member,
        expected_wait: Nanos,
        asks: &mut Asks,
    ) {
        _ = (now, read, member, expected_wait, asks);
    }

    /// A member's strips have come, and others are missing.
    fn arrived(&mut self, now: Nanos, read: &StripeRead<'_>, member: Member, asks: &mut Asks) {
        _ = (now, read, member, asks);
    }

    /// A timer of the read has expired, and strips are missing.
    fn timer(&mut self, now: Nanos, read: &StripeRead<'_>, mark: u8, asks: &mut Asks) {
        _ = (now, read, mark, asks);
    }

    /// The read has its strips, or has failed.
    fn ended(&mut self, now: Nanos, read: &StripeRead<'_>) {
        _ = (now, read);
    }

    /// A write of the user to one stripe is complete, which had begun at this time; so many members
    /// have been written.
    fn wrote(&mut self, now: Nanos, begun: Nanos, members: u32) {
        _ = (now, begun, members);
    }

    /// A request goes to a member, of whatever kind. Returns a number for
    /// [`member_ended`](Self::member_ended).
    fn member_sent(&mut self, now: Nanos, member: Member, request: &Request) -> u32 {
        _ = (now, member, request);
        0
    }

    /// A write of the user is complete. A member of which `bytes` bytes are to be read and written
    /// again, unchanged.
    fn refresh(&mut self, now: Nanos, bytes: u64) -> Option<Member> {
        _ = (now, bytes);
        None
    }

    /// A request to a member has ended; none: it was taken back.
    fn member_ended(&mut self, now: Nanos, ended: &MemberEnded) {
        _ = (now, ended);
    }

    /// How it stands with turns that the policy makes members take; none: it never does.
    fn turns(&self) -> Option<TurnsStanding> {
        None
    }

    /// The host has learnt something of a member that no request tells.
    fn observe(&mut self, member: Member, event: &HostEvent) {
        _ = (member, event);
    }
}

/// The end of a request to a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberEnded {
    /// The member.
    pub member: Member,
    /// The number that the policy gave it.
    pub ticket: u32,
    /// When it was sent.
    pub sent: Nanos,
    /// Whether it is a read.
    pub is_read: bool,
    /// How it ended; none if it was taken back.
    pub outcome: Option<Outcome>,
}

/// The state of a stripe's read, for a policy.
#[derive(Clone, Copy, Debug)]
pub struct StripeRead<'a> {
    /// The stripe.
    pub stripe: u64,
    /// When it began.
    pub begun: Nanos,
    /// The members of the array.
    pub members: Members,
    /// Those that cannot be used, in this read or at all.
    pub failed: Members,
    /// Those that have refused, and were not asked again.
    pub refused: Members,
    /// How many strips give the others: chunks of data in a stripe.
    pub needed: u32,
    /// Whether the user waits for the strips; otherwise a write's parity needs them.
    pub of_user: bool,
    /// Members that it goes around: their strips are computed, unless they come first.
    pub around: Members,
    pub(crate) rows: &'a [crate::planner::Row],
    pub(crate) busy: Option<&'a BusyUntil>,
}

/// Until when members are busy, by their refusals.
pub(crate) type BusyUntil = [Nanos; crate::MOST_MEMBERS];

impl StripeRead<'_> {
    /// Members whose strips are wanted.
    #[must_use]
    pub fn wanted(&self) -> Members {
        self.any(|row| row.wanted)
    }

    /// Members of whose wanted strips some have not come.
    #[must_use]
    pub fn missing(&self) -> Members {
        self.any(|row| row.wanted.without(row.have))
    }

    /// Members that have been asked, and have not answered.
    #[must_use]
    pub fn asked(&self) -> Members {
        self.any(|row| row.asked)
    }

    /// How many members can be done without.
    #[must_use]
    pub fn spare(&self) -> u32 {
        self.members.without(self.failed).count().saturating_sub(self.needed)
    }

    /// Until when a member is busy that has refused, by what it said.
    #[must_use]
    pub fn busy_until(&self, member: Member) -> Nanos {
        self.busy.map_or(Nanos::ZERO, |busy| busy[member.index()])
    }

    /// Bytes of its longest member request, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.rows.iter().map(|row| u64::from(row.length)).sum()
    }

    /// The bytes of the chunk that it reads: the first, and the one behind the last.
    #[must_use]
    pub fn range(&self) -> (u32, u32) {
        let first = self.rows.first().map_or(0, |row| row.offset);
        (first, self.rows.last().map_or(0, crate::planner::Row::end))
    }

    fn any(&self, of: impl Fn(&crate::planner::Row) -> Members) -> Members {
        self.rows.iter().fold(Members::NONE, |all, row| all.and(of(row)))
    }
}

/// What a policy asks for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asks {
    pub(crate) direct: Members,
    pub(crate) direct_flagged: Members,
    pub(crate) around: Option<Around>,
    pub(crate) strips: u32,
    pub(crate) timer: Option<(Nanos, u8)>,
}

/// Members to be read around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Around {
    /// These strips are computed.
    pub(crate) members: Members,
    /// From others, of which these are asked last.
    pub(crate) avoid: Members,
    /// Those are asked with the flag.
    pub(crate) flagged: Members,
}

impl Asks {
    /// Asks these members for their own wanted strips. They wait as long as it takes.
    pub fn directly(&mut self, members: Members) {
        self.direct = self.direct.and(members);
    }

    /// The same, flagged ([`LATENCY_CRITICAL`](trimtab_io::Flags::LATENCY_CRITICAL)): a drive that
    /// would be late refuses.
    pub fn flagged(&mut self, members: Members) {
        self.direct_flagged = self.direct_flagged.and(members);
    }

    /// Computes these members' wanted strips: asks as many others as that needs, `avoid` only where
    /// there are not enough of them, and those in `flagged` with the flag.
    pub fn around(&mut self, members: Members, avoid: Members, flagged: Members) {
        self.around = Some(Around { members, avoid, flagged });
    }

    /// Asks more members for all that the read touches, until this many strips of each row are
    /// there or asked for. With one more than [`StripeRead::needed`] any one member can be late.
    pub fn strips(&mut self, strips: u32) {
        self.strips = strips;
    }

    /// Calls [`ReadPolicy::timer`] at this time, unless the read has its strips by then.
    pub fn timer(&mut self, at: Nanos, mark: u8) {
        self.timer = Some((at, mark));
    }
}
