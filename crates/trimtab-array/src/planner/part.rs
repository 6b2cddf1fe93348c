//! Parts of requests: the piece of a request in one stripe, and its state.

use trimtab_io::{Nanos, Op, Outcome, RequestId};

use super::Planner;
use super::locks::Lock;
use super::row::{MOST_ROWS, Row};
use crate::layout::Piece;
use crate::members::Members;
use crate::policy::Around;

/// The stage of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for its stripe.
    Waiting,
    Reading,
    Computing,
    Writing,
    /// Over; requests may still be unanswered.
    Done,
}

/// The part of a request in one stripe.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Distinguishes it from earlier ones in its slot.
    pub(super) number: u64,
    pub(super) user: u32,
    pub(super) op: Op,
    pub(super) stage: Stage,
    pub(super) piece: Piece,
    pub(super) rows: [Row; MOST_ROWS],
    pub(super) row_count: u8,
    pub(super) lock: Lock,
    pub(super) round: u16,
    /// Writes to its stripe when its round began.
    pub(super) writes: u32,
    /// Requests to members that have not been answered; those of the round among them.
    pub(super) unanswered: u32,
    pub(super) of_round: u32,
    pub(super) begun: Nanos,
    /// When its last request to a member was sent.
    pub(super) last_sent: Nanos,
    pub(super) refused: Members,
    /// Members that have refused at any time, and those that were late because they were busy.
    pub(super) refusers: Members,
    pub(super) delayed: Members,
    pub(super) failed: Members,
    /// The member of which a strip is written again, unchanged; of requests of the user none.
    pub(super) refreshed: Members,
    /// What is to be asked when it has its stripe.
    pub(super) around: Option<Around>,
    pub(super) strips: u32,
    pub(super) outcome: Outcome,
}

impl Part {
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows[..self.row_count.into()]
    }

    /// Answers to what has been asked so far are not waited for any more.
    pub(super) const fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.of_round = 0;
    }

    pub(super) fn rows_mut(&mut self) -> &mut [Row] {
        &mut self.rows[..self.row_count.into()]
    }
}

impl Planner {
    /// When a part's first request to a member may have been sent, and when its last one was.
    #[must_use]
    pub fn times(&self, part: u32) -> (Nanos, Nanos) {
        (self.parts[part].begun, self.parts[part].last_sent)
    }
}

/// What a driver with content needs to know of a part.
#[derive(Clone, Copy, Debug)]
pub struct PartView<'a> {
    /// The request that it is a part of.
    pub request: RequestId,
    /// What the request does.
    pub op: Op,
    /// Where it is.
    pub piece: Piece,
    /// Whether it writes what a member holds again, unchanged: then it belongs to no request, and
    /// `request` is the greatest number.
    pub is_refresh: bool,
    pub(super) rows: &'a [Row],
}

impl PartView<'_> {
    /// Its rows.
    #[must_use]
    pub const fn rows(&self) -> &[Row] {
        self.rows
    }

    /// The members whose strips of a row must be computed from those that are there.
    #[must_use]
    pub fn missing(&self, row: usize) -> Members {
        self.rows[row].missing()
    }

    /// The members whose strips of a row have been read.
    #[must_use]
    pub fn present(&self, row: usize) -> Members {
        self.rows[row].have
    }

    /// With a write: whether a row's parity is changed by what the data change; otherwise it is
    /// computed from all data.
    #[must_use]
    pub fn modifies(&self, row: usize) -> bool {
        self.rows[row].modify
    }
}
