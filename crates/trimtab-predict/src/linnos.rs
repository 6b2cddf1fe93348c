//! `linnos`: the published network, to the letter (LinnOS, §4.3–4.5).
//!
//! 31 digits are the input, 256 neurons with ReLU are hidden, two outputs stand for fast and
//! slow, and the greater one decides. Weights have three decimals and are integers.

use std::sync::Arc;

use trimtab_io::{Nanos, Request};
use trimtab_learn::Simd;
use trimtab_learn::integer::LinnOs;

use crate::digits::DigitTracker;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// The predictor `linnos` for one drive.
#[derive(Clone, Debug)]
pub struct Linnos {
    tracker: DigitTracker,
    network: Arc<LinnOs>,
}

impl Linnos {
    /// Starts tracking a drive.
    #[must_use]
    pub fn new(network: Arc<LinnOs>) -> Self {
        Self { tracker: DigitTracker::default(), network }
    }

    /// The forecast for a margin: the output for slow minus the output for fast.
    #[must_use]
    pub fn forecast(margin: i64) -> Forecast {
        let verdict = if margin > 0 { Verdict::Late } else { Verdict::Fast };
        // The network is not trained to give a probability. This one orders requests, and
        // is one half where the verdict changes. A logit of 1 is 10^6.
        let margin = margin as f32 / 1e6;
        let probability = 0.5 + 0.5 * margin / (1.0 + margin.abs());
        Forecast { verdict, probability, wait: None, fast: None }
    }
}

impl Predictor for Linnos {
    fn name(&self) -> &'static str {
        "linnos"
    }

    fn predict(&self, _: Nanos, request: &Request) -> Forecast {
        Self::forecast(self.network.margin(Simd::best(), &self.tracker.digits(request)))
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.tracker.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.tracker.completed(now, ticket, data);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}
