//! Requests in flight: sent to a drive and not completed.

use trimtab_io::{Nanos, Op, Request};

use crate::pages::pages_of;
use crate::predictor::Ticket;
use crate::state::CompletedIo;
use crate::units::MAX_FUNCTIONS;

/// No slot.
const NONE: u32 = u32::MAX;

/// The extent of a request when it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The unit of its first piece, by each function.
    pub(crate) units: [u16; MAX_FUNCTIONS],
    /// Whether it has several pieces by any function.
    pub(crate) is_spread: bool,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) sent: Nanos,
    pub(crate) op: Op,
    pub(crate) bytes: u64,
    /// Data in 4 KiB pages; a page touched in part counts whole.
    pub(crate) pages: u32,
    /// Pages in flight when it was sent, its own included.
    pub(crate) pages_then: u32,
    /// Requests in flight when it was sent, without it.
    pub(crate) queue_then: u32,
    /// Its extent.
    pub(crate) span: Span,
    before: u32,
    after: u32,
}

impl Pending {
    pub(crate) fn new(
        now: Nanos,
        request: &Request,
        pages_then: u32,
        queue_then: u32,
        span: Span,
    ) -> Self {
        Self {
            sent: now,
            op: request.op,
            bytes: request.length,
            pages: pages_of(request),
            pages_then,
            queue_then,
            span,
            before: NONE,
            after: NONE,
        }
    }

    /// The history's entry for it, if it completes now.
    pub(crate) const fn completed(&self, now: Nanos) -> CompletedIo {
        let latency = now.since(self.sent);
        CompletedIo { latency, pages_then: self.pages_then, queue_then: self.queue_then }
    }
}

/// All requests in flight, in the order in which they were sent.
///
/// A linked list in a vector: adding and removing cost the same at any queue depth, and
/// slots are used again, so nothing is allocated after the deepest queue has been seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    slots: Vec<Pending>,
    free: Vec<u32>,
    ends: Option<(u32, u32)>,
}

impl InFlight {
    /// Requests in flight.
    pub(crate) const fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The request that was sent first.
    pub(crate) fn oldest(&self) -> Option<&Pending> {
        let (first, _) = self.ends?;
        Some(&self.slots[first as usize])
    }

    /// The request of a ticket.
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> &mut Pending {
        &mut self.slots[ticket.0 as usize]
    }

    pub(crate) fn add(&mut self, pending: Pending) -> Ticket {
        let before = self.ends.map_or(NONE, |(_, last)| last);
        let pending = Pending { before, ..pending };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = pending;
                slot
            }
            None => {
                self.slots.push(pending);
                (self.slots.len() - 1) as u32
            }
        };
        if before != NONE {
            self.slots[before as usize].after = slot;
        }
        self.ends = Some((self.ends.map_or(slot, |(first, _)| first), slot));
        Ticket(slot)
    }

    /// Removes the request of a ticket.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Pending {
        let pending = self.slots[ticket.0 as usize];
        let Pending { before, after, .. } = pending;
        match before {
            NONE => {}
            _ => self.slots[before as usize].after = after,
        }
        match after {
            NONE => {}
            _ => self.slots[after as usize].before = before,
        }
        self.ends = match (self.ends, before, after) {
            (_, NONE, NONE) => None,
            (Some((_, last)), NONE, _) => Some((after, last)),
            (Some((first, _)), _, NONE) => Some((first, before)),
            (ends, ..) => ends,
        };
        self.free.push(ticket.0);
        pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    #[test]
    fn oldest_is_the_first_sent_of_those_left() {
        let mut flight = InFlight::default();
        let add = |flight: &mut InFlight, at: u64, length: u64| {
            flight.add(Pending::new(
                Nanos(at),
                &request(Op::Read, 0, length),
                0,
                0,
                Span::default(),
            ))
        };
        let first = add(&mut flight, 1, 4096);
        let second = add(&mut flight, 2, 8192);
        let third = add(&mut flight, 3, 1);
        assert_eq!(flight.len(), 3);
        assert_eq!(flight.remove(second).pages, 2);
        assert_eq!(flight.oldest().unwrap().sent, Nanos(1));
        flight.remove(first);
        assert_eq!(flight.oldest().unwrap().sent, Nanos(3));
        let fourth = add(&mut flight, 4, 4096);
        flight.remove(third);
        assert_eq!(flight.oldest().unwrap().sent, Nanos(4));
        flight.remove(fourth);
        assert!(flight.oldest().is_none());
        assert_eq!(flight.len(), 0);
        assert_eq!(flight.slots.len(), 3);
    }
}
