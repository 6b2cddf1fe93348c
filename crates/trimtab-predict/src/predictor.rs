//! The interface of predictors.

use trimtab_io::{HostEvent, Nanos, Request};

/// A predictor's decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it: it is expected to be fast.
    Fast,
    /// Refuse it: it is expected to be late.
    Late,
}

/// A predictor's forecast for a request that would be sent now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Send or refuse.
    pub verdict: Verdict,
    /// The probability of being late, 0 to 1. A predictor without probabilities gives 0 or 1.
    pub probability: f32,
    /// The expected latency, if the predictor has one.
    pub wait: Option<Nanos>,
    /// The expected latency if the request turns out to be fast; only of a request that is
    /// expected to be.
    pub fast: Option<Nanos>,
}

impl Forecast {
    /// A verdict without an expected latency.
    #[must_use]
    pub const fn bare(verdict: Verdict) -> Self {
        let probability = match verdict {
            Verdict::Fast => 0.0,
            Verdict::Late => 1.0,
        };
        Self { verdict, probability, wait: None, fast: None }
    }
}

/// Identifies a request in flight to the predictor that tracks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u32);

/// Tracks one drive, and forecasts whether a request will be late.
///
/// Calls come in order of time, and cover every request to the drive, writes and those of other
/// processes included. An implementation reads no clock, and allocates nothing once the deepest
/// queue has been seen.
pub trait Predictor: Send {
    /// Its name in tables, options and model files.
    fn name(&self) -> &'static str;

    /// The forecast for `request` if it were sent at `now`. Changes nothing.
    fn predict(&self, now: Nanos, request: &Request) -> Forecast;

    /// `request` is sent to the drive at `now`.
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket;

    /// A request completed at `now`. `data` is false if it returned no data (an error, a
    /// refusal): such completions are no measure of the drive's speed.
    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool);

    /// A request has left the scheduler's queues: the device has it. Only where the scheduler is
    /// seen from inside.
    fn dispatched(&mut self, now: Nanos, ticket: Ticket) {
        _ = (now, ticket);
    }

    /// A read that was sent, and will miss its deadline because of what was sent after it. Its
    /// sender takes it back if it still can, and then reports its end without data. Each is told
    /// once; `None`: no more.
    fn next_cancelled(&mut self) -> Option<Ticket> {
        None
    }

    /// The host has learnt something of the drive that no request tells.
    fn observe(&mut self, event: &HostEvent) {
        _ = event;
    }

    /// A copy, with its state.
    fn boxed_clone(&self) -> Box<dyn Predictor>;
}

impl Clone for Box<dyn Predictor> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
