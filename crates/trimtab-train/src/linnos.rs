//! Training LinnOS's network (LinnOS, §4.3–4.5): 31-256-2, with a hinge loss in which slow reads
//! weigh more, and weights of three decimals.

use std::ops::ControlFlow;
use std::sync::Arc;

use trimtab_learn::Rows;
use trimtab_learn::dense::{
    self, Activation, Initialisation, Loss, Network, Optimiser, TrainingOptions,
};
use trimtab_learn::integer::LinnOs;
use trimtab_learn::standardise::Standardiser;
use trimtab_predict::DIGITS;

/// Hidden neurons.
const HIDDEN: usize = 256;

/// The weight of a slow read relative to a fast one: "biased training" (LinnOS, §4.4).
const BIAS: f32 = 2.0;

/// Passes over all samples.
const EPOCHS: usize = 10;

/// Trains the network on rows of digits and whether each was slow (1) or not.
///
/// Where the paper gives no detail, the choice favours the baseline: digits are standardised
/// while it learns, for ten epochs. Raw digits for twenty epochs overfit a short recording
/// (docs/predictors.md has the figures). The scale is folded into the weights, so the network
/// that decides takes digits.
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

/// Means and deviations of the digits. A deviation counts as at least 1: the weight of a digit
/// that is nearly always 0 would otherwise exceed the range of integers of three decimals.
fn scale(digits: Rows<'_, u8>) -> Result<Standardiser, trimtab_learn::Error> {
    let fitted = Standardiser::fit(digits)?;
    let deviation = fitted.deviation().iter().map(|deviation| deviation.max(1.0)).collect();
    Standardiser::new(fitted.mean().into(), deviation)
}

fn untrained(seed: u64) -> Result<Network, trimtab_learn::Error> {
    let layers = [(HIDDEN, Activation::Relu), (2, Activation::Linear)];
    Network::random(DIGITS, &layers, Initialisation::Glorot, seed)
}

/// The network that takes raw digits: w · (x − mean) / deviation + b.
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
    use trimtab_io::Nanos;
    use trimtab_learn::Simd;

    use super::*;
    use crate::dataset::digits;
    use crate::testing::recording;

    /// Three decimals are enough (LinnOS, §4.5: less than 0.1% of the decisions).
    #[test]
    fn quantised_network_decides_like_the_trained_one() {
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
