//! A device with predictors beside it.

use std::collections::HashMap;

use trimtab_device::Error;
use trimtab_io::{Completion, Nanos, Request, RequestId};
use trimtab_predict::{Forecast, Predictor, Ticket};

use crate::scheduled::MaybeScheduled;
use crate::server::Server;

/// A device, and predictors that all see the same: what is sent, dispatched and completed.
///
/// They only foretell; nothing is refused. Reads that the first one cancels are taken back if
/// [`takes_back`](Self::takes_back) is set.
#[derive(Clone)]
pub struct PredictedDevice<S> {
    device: MaybeScheduled<S>,
    predictors: Vec<Box<dyn Predictor>>,
    takes_back: bool,
    sent: HashMap<RequestId, Vec<Ticket>>,
    /// Of the first predictor.
    by_ticket: HashMap<u32, RequestId>,
    ended: Vec<Ended>,
}

/// A request that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The device has completed it.
    Completed(Completion),
    /// The first predictor cancelled it, and the device did not have it yet.
    TakenBack {
        /// The request.
        request: RequestId,
        /// When.
        at: Nanos,
    },
}

impl<S: Server> PredictedDevice<S> {
    /// An idle device, and predictors for it.
    pub fn new(
        mut device: MaybeScheduled<S>,
        predictors: impl IntoIterator<Item = Box<dyn Predictor>>,
    ) -> Self {
        device.tell_dispatches();
        Self {
            device,
            predictors: predictors.into_iter().collect(),
            takes_back: false,
            sent: HashMap::new(),
            by_ticket: HashMap::new(),
            ended: Vec::new(),
        }
    }

    /// The same, taking back the reads that the first predictor cancels.
    #[must_use]
    pub fn takes_back(self) -> Self {
        Self { takes_back: true, ..self }
    }

    /// The device.
    #[must_use]
    pub const fn device(&self) -> &MaybeScheduled<S> {
        &self.device
    }

    /// What each predictor expects of a request that were sent now.
    pub fn forecasts(&self, now: Nanos, request: &Request) -> impl Iterator<Item = Forecast> {
        self.predictors.iter().map(move |predictor| predictor.predict(now, request))
    }

    /// Advances time through all events up to and including `until`, each told when it happens.
    pub fn advance(&mut self, until: Nanos) {
        while let Some(at) = self.device.next_event().filter(|&at| at <= until) {
            self.device.advance(at);
            self.settle(at);
        }
        self.device.advance(until);
        self.settle(until);
    }

    /// Serves all that has been sent.
    pub fn finish(&mut self) {
        while let Some(at) = self.device.next_event() {
            self.advance(at);
        }
    }

    /// Sends a request at time `now`. Its number must not be in flight.
    ///
    /// # Errors
    /// As [`Server::submit`].
    pub fn send(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        self.advance(now);
        let tickets: Vec<_> = self.predictors.iter_mut().map(|p| p.sent(now, request)).collect();
        if let Some(first) = tickets.first() {
            self.by_ticket.insert(first.0, request.id);
        }
        self.sent.insert(request.id, tickets);
        self.device.submit(now, request)?;
        self.settle(now);
        Ok(())
    }

    /// The requests that are over since the last call.
    pub fn ended(&mut self) -> std::vec::Drain<'_, Ended> {
        self.ended.drain(..)
    }

    /// Tells the predictors what has happened up to `now`.
    fn settle(&mut self, now: Nanos) {
        let Self { device, predictors, sent, ended, by_ticket, .. } = self;
        device.take_dispatches(|dispatch| {
            for (predictor, &ticket) in predictors.iter_mut().zip(tickets(sent, dispatch.request)) {
                predictor.dispatched(dispatch.at, ticket);
            }
        });
        device.drain(|served| {
            let completion = served.completion;
            end(predictors, sent, by_ticket, completion.request, completion.complete, true);
            ended.push(Ended::Completed(completion));
        });
        self.cancel(now);
    }

    fn cancel(&mut self, now: Nanos) {
        for number in 0..self.predictors.len() {
            while let Some(ticket) = self.predictors[number].next_cancelled() {
                if number > 0 || !self.takes_back {
                    continue;
                }
                let Some(&request) = self.by_ticket.get(&ticket.0) else { continue };
                if self.device.cancel(request) {
                    let Self { predictors, sent, by_ticket, .. } = self;
                    end(predictors, sent, by_ticket, request, now, false);
                    self.ended.push(Ended::TakenBack { request, at: now });
                }
            }
        }
    }
}

fn tickets(sent: &HashMap<RequestId, Vec<Ticket>>, request: RequestId) -> &[Ticket] {
    sent.get(&request).map_or(&[], Vec::as_slice)
}

/// Tells the predictors that a request is over.
fn end(
    predictors: &mut [Box<dyn Predictor>],
    sent: &mut HashMap<RequestId, Vec<Ticket>>,
    by_ticket: &mut HashMap<u32, RequestId>,
    request: RequestId,
    at: Nanos,
    data: bool,
) {
    let Some(tickets) = sent.remove(&request) else { return };
    if let Some(first) = tickets.first() {
        by_ticket.remove(&first.0);
    }
    for (predictor, ticket) in predictors.iter_mut().zip(tickets) {
        predictor.completed(at, ticket, data);
    }
}
