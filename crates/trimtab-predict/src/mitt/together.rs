//! A queue model and a learned predictor together.

use trimtab_io::{HostEvent, Nanos, Request};

use super::slots::Slots;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// Two predictors of one drive: a request is late if either says so.
///
/// A queue model knows what the host has sent, and nothing of what the drive does by itself; a
/// learned predictor sees both, less exactly. Neither knows of a wait that only the other sees, so
/// that the larger of their expected latencies is the better one.
#[derive(Clone)]
pub struct Together {
    one: Box<dyn Predictor>,
    other: Box<dyn Predictor>,
    tickets: Slots<(Ticket, Ticket)>,
}

impl Together {
    /// Both of these.
    #[must_use]
    pub const fn new(one: Box<dyn Predictor>, other: Box<dyn Predictor>) -> Self {
        Self { one, other, tickets: Slots::new() }
    }

    fn ticket(&self, fits: impl Fn(&(Ticket, Ticket)) -> bool) -> Option<Ticket> {
        self.tickets.tickets().find(|&ticket| self.tickets.get(ticket).is_some_and(&fits))
    }
}

impl Predictor for Together {
    fn name(&self) -> &'static str {
        "together"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        let (one, other) = (self.one.predict(now, request), self.other.predict(now, request));
        let late = one.verdict == Verdict::Late || other.verdict == Verdict::Late;
        Forecast {
            verdict: if late { Verdict::Late } else { Verdict::Fast },
            probability: one.probability.max(other.probability),
            wait: one.wait.max(other.wait),
            fast: one.fast.max(other.fast).filter(|_| !late),
        }
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        let tickets = (self.one.sent(now, request), self.other.sent(now, request));
        self.tickets.add(tickets)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        if let Some((one, other)) = self.tickets.remove(ticket) {
            self.one.completed(now, one, data);
            self.other.completed(now, other, data);
        }
    }

    fn dispatched(&mut self, now: Nanos, ticket: Ticket) {
        if let Some(&(one, other)) = self.tickets.get(ticket) {
            self.one.dispatched(now, one);
            self.other.dispatched(now, other);
        }
    }

    fn next_cancelled(&mut self) -> Option<Ticket> {
        if let Some(cancelled) = self.one.next_cancelled() {
            return self.ticket(|(one, _)| *one == cancelled);
        }
        let cancelled = self.other.next_cancelled()?;
        self.ticket(|(_, other)| *other == cancelled)
    }

    fn observe(&mut self, event: &HostEvent) {
        self.one.observe(event);
        self.other.observe(event);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use trimtab_io::{DeviceId, Op, RequestId};

    use super::*;
    use crate::SimpleHeuristic;

    #[test]
    fn either_refuses_and_both_follow() {
        let boxed = |most| Box::new(SimpleHeuristic::new(most)) as Box<dyn Predictor>;
        for (one, other) in [(2, 9), (9, 2)] {
            let mut together = Together::new(boxed(one), boxed(other));
            let read = |i: u64| {
                Request::new(RequestId(i), DeviceId(0), Nanos(i), Op::Read, 4096 * i, 4096)
            };
            let tickets: Vec<_> = (0..3).map(|i| together.sent(Nanos(i), &read(i))).collect();
            assert_eq!(together.predict(Nanos(3), &read(3)).verdict, Verdict::Late);
            for (ticket, at) in tickets.into_iter().zip(4..) {
                together.completed(Nanos(at), ticket, true);
            }
            assert_eq!(together.predict(Nanos(9), &read(3)).verdict, Verdict::Fast);
        }
    }
}
