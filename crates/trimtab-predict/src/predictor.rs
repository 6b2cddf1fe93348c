//! What every predictor offers.

use trimtab_io::{Nanos, Request};

/// What a predictor would do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it: it will be fast.
    Fast,
    /// Refuse it: it will be late.
    Late,
}

/// What a predictor expects of a request, if it were sent now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Send or refuse.
    pub verdict: Verdict,
    /// How likely it is that it would be late, 0 to 1. A predictor that knows
    /// no more than its verdict says 0 or 1.
    pub probability: f32,
    /// How long the drive is expected to take, if the predictor can tell.
    pub wait: Option<Nanos>,
    /// Of a request that is expected to be fast: how long, if it turns out to be.
    pub fast: Option<Nanos>,
}

impl Forecast {
    /// A verdict and no more.
    #[must_use]
    pub const fn bare(verdict: Verdict) -> Self {
        let probability = match verdict {
            Verdict::Fast => 0.0,
            Verdict::Late => 1.0,
        };
        Self { verdict, probability, wait: None, fast: None }
    }
}

/// Names a request on its way to the predictor that was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(pub u32);

/// Someone who watches one drive, and says of a request whether it will be late.
///
/// Calls come in order of time. Everything that is sent to the drive is told,
/// writes and the requests of others included.
pub trait Predictor: Send {
    /// Its name in tables, options and model files.
    fn name(&self) -> &'static str;

    /// What would become of `request` if it were sent at `now`. Changes nothing.
    fn predict(&self, now: Nanos, request: &Request) -> Forecast;

    /// `request` is sent to the drive at `now`.
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket;

    /// The drive has answered at `now`. An answer that came without the data
    /// (an error, a refusal) tells nothing of the drive's speed: `data` is false.
    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool);

    /// A copy of it, with all that it remembers.
    fn boxed_clone(&self) -> Box<dyn Predictor>;
}

impl Clone for Box<dyn Predictor> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}
