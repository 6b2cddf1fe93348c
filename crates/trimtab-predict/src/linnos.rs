//! `linnos`: the published network, to the letter (LinnOS, §4.3–4.5).
//!
//! 31 digits go in, 256 neurons with ReLU are hidden, two outputs say fast or
//! slow, and the greater one decides. Weights have three decimals and are
//! integers. It is the yardstick, not the best we can do.

use std::ops::ControlFlow;
use std::sync::Arc;

use trimtab_io::{Nanos, Request};

use trimtab_learn::dense::{self, Activation, Loss, Network, Optimiser, Start, Training};
use trimtab_learn::integer::LinnOs;
use trimtab_learn::{Rows, Simd};

use crate::digits::{DIGITS, Watched};
use crate::history::Watcher;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// Neurons between the digits and the answer.
const HIDDEN: usize = 256;

/// How much more a slow read counts that is taken for a fast one than the other
/// way round: "biased training" (LinnOS, §4.4).
pub(crate) const BIAS: f32 = 2.0;

/// LinnOS, watching a drive.
#[derive(Clone, Debug)]
pub struct Linnos {
    watched: Watched,
    network: Arc<LinnOs>,
}

impl Linnos {
    /// A drive of which nothing is known but the weights.
    #[must_use]
    pub fn new(network: Arc<LinnOs>) -> Self {
        Self { watched: Watched::default(), network }
    }

    /// What follows from by how much the output for slow is above the other.
    pub(crate) fn forecast(margin: i64) -> Forecast {
        let verdict = if margin > 0 { Verdict::Late } else { Verdict::Fast };
        // Not a probability that it was trained to tell, but it orders, and is
        // one half where the verdict changes. A logit of 1 is 10^6.
        let margin = margin as f32 / 1e6;
        let probability = 0.5 + 0.5 * margin / (1.0 + margin.abs());
        Forecast { verdict, probability, wait: None }
    }
}

impl Predictor for Linnos {
    fn name(&self) -> &'static str {
        "linnos"
    }

    fn predict(&self, _: Nanos, request: &Request) -> Forecast {
        Self::forecast(self.network.margin(Simd::best(), &self.watched.digits(request)))
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.watched.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.watched.completed(now, ticket, data);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

impl Watcher for Watched {
    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        Self::sent(self, now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        Self::completed(self, now, ticket, data);
    }
}

/// Trains the network on rows of digits and whether each was slow (1) or not.
pub(crate) fn train(
    digits: &[[u8; DIGITS]],
    slow: &[u8],
    seed: u64,
    mut progress: impl FnMut(usize, usize),
) -> Result<Arc<LinnOs>, trimtab_learn::Error> {
    let layers = [(HIDDEN, Activation::Relu), (2, Activation::Linear)];
    let mut network = Network::random(DIGITS, &layers, Start::Glorot, seed)?;
    let training = Training {
        loss: Loss::Hinge,
        optimiser: Optimiser::Adam { rate: 1e-3 },
        class_weights: vec![1.0, BIAS],
        seed,
        ..Training::default()
    };
    let rows = Rows::new(digits.as_flattened(), DIGITS)?;
    dense::train(&mut network, rows, slow, &training, |now| {
        progress(now.epoch, training.epochs);
        ControlFlow::Continue(())
    })?;
    Ok(LinnOs::quantise(&network)?.into())
}
