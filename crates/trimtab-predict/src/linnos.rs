//! `linnos`: the published network, to the letter (LinnOS, §4.3–4.5).
//!
//! 31 digits go in, 256 neurons with ReLU are hidden, two outputs say fast or
//! slow, and the greater one decides. It is trained with a hinge loss in which
//! slow reads weigh more. Weights have three decimals and are integers. It is
//! the yardstick, not the best we can do.

use std::ops::ControlFlow;
use std::sync::Arc;

use trimtab_io::{Nanos, Request};

use trimtab_learn::dense::{
    self, Activation, Initialisation, Loss, Network, Optimiser, TrainingOptions,
};
use trimtab_learn::integer::LinnOs;
use trimtab_learn::standardise::Standardiser;
use trimtab_learn::{Rows, Simd};

use crate::digits::{DIGITS, Watched};
use crate::history::Watcher;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// Neurons between the digits and the answer.
const HIDDEN: usize = 256;

/// How much more a slow read counts that is taken for a fast one than the other
/// way round: "biased training" (LinnOS, §4.4).
pub(crate) const BIAS: f32 = 2.0;

/// How often it goes through all samples.
const EPOCHS: usize = 10;

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
        Forecast { verdict, probability, wait: None, fast: None }
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
///
/// What the paper does not say is done so that the yardstick is not shorter than
/// it was: digits are standardised while it learns, and ten epochs have to do.
/// Raw digits and twenty epochs learn a short recording by heart
/// (docs/predictors.md has the figures). The scale goes into the weights: what
/// decides sees digits.
pub(crate) fn train(
    digits: &[[u8; DIGITS]],
    slow: &[u8],
    seed: u64,
    mut progress: impl FnMut(usize, usize),
) -> Result<Arc<LinnOs>, trimtab_learn::Error> {
    let mut network = untrained(seed)?;
    let rows = Rows::new(digits.as_flattened(), DIGITS)?;
    let scale = scale(rows)?;
    let scaled = scale.apply_to_all(rows);
    let training = training(seed);
    dense::train(&mut network, Rows::new(&scaled, DIGITS)?, slow, &training, |now| {
        progress(now.epoch, training.epochs);
        ControlFlow::Continue(())
    })?;
    Ok(LinnOs::quantise(&of_digits(&network, &scale)?)?.into())
}

fn training(seed: u64) -> TrainingOptions {
    TrainingOptions {
        loss: Loss::Hinge,
        optimiser: Optimiser::Adam { rate: 1e-3 },
        class_weights: vec![1.0, BIAS],
        epochs: EPOCHS,
        seed,
        ..TrainingOptions::default()
    }
}

/// Means and deviations of the digits. A deviation counts as at least 1: a digit
/// that is hardly ever anything but 0 would have a weight beyond what integers
/// of three decimals hold.
fn scale(digits: Rows<'_, u8>) -> Result<Standardiser, trimtab_learn::Error> {
    let fitted = Standardiser::fit(digits)?;
    let deviation = fitted.deviation().iter().map(|deviation| deviation.max(1.0)).collect();
    Standardiser::new(fitted.mean().into(), deviation)
}

fn untrained(seed: u64) -> Result<Network, trimtab_learn::Error> {
    let layers = [(HIDDEN, Activation::Relu), (2, Activation::Linear)];
    Network::random(DIGITS, &layers, Initialisation::Glorot, seed)
}

/// The network that takes digits as they are: w · (x − mean) / deviation + b.
fn of_digits(network: &Network, scale: &Standardiser) -> Result<Network, trimtab_learn::Error> {
    let mut parameters: Box<[f32]> = network.parameters().into();
    let (weights, rest) = parameters.split_at_mut(DIGITS * HIDDEN);
    let digits = weights.chunks_exact_mut(HIDDEN).zip(scale.mean().iter().zip(scale.deviation()));
    for (weights, (mean, deviation)) in digits {
        for (weight, bias) in weights.iter_mut().zip(&mut *rest) {
            *weight /= deviation;
            *bias -= *weight * mean;
        }
    }
    Network::new(network.shapes(), parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::digits;
    use crate::testing::recording;

    /// Three decimals are enough (LinnOS, §4.5: less than 0.1% of the decisions).
    #[test]
    fn integers_decide_like_the_weights_they_are_made_of() {
        let recorded = recording();
        let digits = digits(&recorded, &vec![true; recorded.len()]);
        let slow: Vec<u8> =
            recorded.iter().map(|r| u8::from(r.latency() > Nanos(400_000))).collect();
        let mut network = untrained(3).unwrap();
        let scale = scale(Rows::new(digits.as_flattened(), DIGITS).unwrap()).unwrap();
        let scaled = scale.apply_to_all(Rows::new(digits.as_flattened(), DIGITS).unwrap());
        let rows = Rows::new(&scaled, DIGITS).unwrap();
        let go_on = |_| ControlFlow::Continue(());
        dense::train(&mut network, rows, &slow, &training(3), go_on).unwrap();
        let integers = LinnOs::quantise(&of_digits(&network, &scale).unwrap()).unwrap();
        let mut scratch = network.scratch();
        let alike = |(digits, scaled): &(&[u8; DIGITS], &[f32])| {
            let output = network.forward(scaled, &mut scratch);
            (integers.margin(Simd::best(), digits) > 0) == (output[1] > output[0])
        };
        let alike = digits.iter().zip(scaled.chunks_exact(DIGITS)).filter(alike).count();
        assert!(alike as f64 > 0.995 * digits.len() as f64, "{alike}");
    }
}
