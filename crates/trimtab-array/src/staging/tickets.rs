//! The requests that a write buffer has not answered, and those that it has sent.

use std::ops::{Index, IndexMut};

use trimtab_io::{Nanos, Op, Request};
use trimtab_steer::InFlightTable;

use super::Piece;
use crate::members::Member;

/// What a request is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// It came in, under this number.
    Request(u32),
    /// It writes what is staged.
    Destage,
}

/// A request.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) member: Member,
    pub(super) purpose: Purpose,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) end: u64,
    /// When it came in.
    pub(super) arrival: Nanos,
    /// What it uses of NVRAM.
    pub(super) pieces: Vec<Piece>,
}

/// The tickets by number. A number that is over can be read until the next event.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    table: InFlightTable<Ticket>,
    over: Vec<u32>,
    /// Empty lists of pieces, so that none is allocated for each request.
    spare: Vec<Vec<Piece>>,
}

impl Tickets {
    pub(super) fn insert(&mut self, member: Member, purpose: Purpose, request: &Request) -> u32 {
        let Request { op, offset, arrival, .. } = *request;
        let (end, pieces) = (request.end(), Vec::new());
        self.table.insert(Ticket { member, purpose, op, offset, end, arrival, pieces })
    }

    /// An empty list.
    pub(super) fn pieces(&mut self) -> Vec<Piece> {
        self.spare.pop().unwrap_or_default()
    }

    pub(super) fn over(&mut self, ticket: u32) {
        self.over.push(ticket);
    }

    /// An event begins: numbers that are over can be used again.
    pub(super) fn free_over(&mut self) {
        while let Some(ticket) = self.over.pop() {
            let mut pieces = std::mem::take(&mut self.table[ticket].pieces);
            if pieces.capacity() > 0 {
                pieces.clear();
                self.spare.push(pieces);
            }
            self.table.remove(ticket);
        }
    }
}

impl Index<u32> for Tickets {
    type Output = Ticket;

    fn index(&self, ticket: u32) -> &Ticket {
        &self.table[ticket]
    }
}

impl IndexMut<u32> for Tickets {
    fn index_mut(&mut self, ticket: u32) -> &mut Ticket {
        &mut self.table[ticket]
    }
}
