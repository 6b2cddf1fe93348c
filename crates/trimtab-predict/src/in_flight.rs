//! What has been sent to a drive and not been answered.

use trimtab_io::{Nanos, Op, Request};

use crate::predictor::Ticket;
use crate::state::Answered;

/// No place.
const NONE: u32 = u32::MAX;

/// The data unit in which the field counts what is in flight, bytes.
pub(crate) const PAGE: u64 = 4096;

/// Where a request lies, as it was when it was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The unit of its first piece, by each function.
    pub(crate) units: [u16; UNITS],
    /// Whether it has several pieces by any function.
    pub(crate) is_spread: bool,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) sent: Nanos,
    pub(crate) op: Op,
    pub(crate) bytes: u64,
    /// Data in 4 KiB pages, what is touched in part counted whole.
    pub(crate) pages: u32,
    /// Pages in flight when it was sent, with its own.
    pub(crate) pages_then: u32,
    /// Requests in flight when it was sent, without it.
    pub(crate) queue_then: u32,
    /// Where it lies.
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

    /// As it is remembered, answered now.
    pub(crate) const fn answered(&self, now: Nanos) -> Answered {
        let latency = now.since(self.sent);
        Answered { latency, pages_then: self.pages_then, queue_then: self.queue_then }
    }
}

/// How many unit functions are watched at most, next to the drive as a whole.
pub(crate) const UNITS: usize = 3;

/// All requests on their way, in the order in which they were sent.
///
/// A linked list in a vector: sending and answering cost the same whatever is in
/// flight, and places are used again, so nothing is allocated once the deepest
/// queue has been seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    places: Vec<Pending>,
    free: Vec<u32>,
    ends: Option<(u32, u32)>,
}

/// Pages that a request moves: none for what moves no data.
pub(crate) fn pages_of(request: &Request) -> u32 {
    match request.op {
        Op::Read | Op::Write if request.length > 0 => {
            let end = request.end().div_ceil(PAGE);
            u32::try_from(end - request.offset / PAGE).unwrap_or(u32::MAX)
        }
        _ => 0,
    }
}

impl InFlight {
    /// Requests in flight.
    pub(crate) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// The one that was sent first.
    pub(crate) fn oldest(&self) -> Option<&Pending> {
        let (first, _) = self.ends?;
        Some(&self.places[first as usize])
    }

    /// What is on its way.
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> &mut Pending {
        &mut self.places[ticket.0 as usize]
    }

    pub(crate) fn add(&mut self, pending: Pending) -> Ticket {
        let before = self.ends.map_or(NONE, |(_, last)| last);
        let pending = Pending { before, ..pending };
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = pending;
                place
            }
            None => {
                self.places.push(pending);
                (self.places.len() - 1) as u32
            }
        };
        if before != NONE {
            self.places[before as usize].after = place;
        }
        self.ends = Some((self.ends.map_or(place, |(first, _)| first), place));
        Ticket(place)
    }

    /// Takes out what a ticket stands for.
    pub(crate) fn remove(&mut self, ticket: Ticket) -> Pending {
        let pending = self.places[ticket.0 as usize];
        let Pending { before, after, .. } = pending;
        match before {
            NONE => {}
            _ => self.places[before as usize].after = after,
        }
        match after {
            NONE => {}
            _ => self.places[after as usize].before = before,
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
    fn knows_the_oldest() {
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
        assert_eq!(flight.places.len(), 3);
    }

    #[test]
    fn counts_pages_touched() {
        let pages = |op, offset, length| pages_of(&request(op, offset, length));
        assert_eq!(pages(Op::Read, 0, 4096), 1);
        assert_eq!(pages(Op::Read, 4095, 2), 2);
        assert_eq!(pages(Op::Write, 512, 4096), 2);
        assert_eq!(pages(Op::Flush, 0, 0), 0);
        assert_eq!(pages(Op::Discard, 0, 1 << 30), 0);
    }
}
