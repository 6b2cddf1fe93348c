//! Fully connected networks of `f32`.
//!
//! A layer multiplies its input by a matrix, adds a bias, and bends the result.
//! Weights stand input by input: those of one input to all neurons are side by
//! side. So a layer is computed by adding rows, which goes over many neurons at
//! a time and yet adds up each neuron's terms in the order in which they stand.
//! No sum is ever reordered and no multiplication fused with an addition:
//! results are the same to the bit on every machine, whatever its vector width
//! and however many threads train.

#[cfg(feature = "train")]
mod loss;
#[cfg(feature = "train")]
mod multiply;
#[cfg(feature = "alloc")]
mod network;
#[cfg(feature = "train")]
mod optimiser;
#[cfg(feature = "train")]
mod train;

#[cfg(feature = "train")]
pub use loss::Loss;
#[cfg(feature = "train")]
pub use network::Start;
#[cfg(feature = "alloc")]
pub use network::{Network, Scratch, Shape};
#[cfg(feature = "train")]
pub use optimiser::Optimiser;
#[cfg(feature = "train")]
pub use train::{Progress, Training, train};

use crate::Error;
use crate::error::same;
use crate::functions::{exp, sigmoid, tanh};

/// How a layer's sums are bent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activation {
    /// Not at all.
    Linear = 0,
    /// Negative becomes 0.
    Relu = 1,
    /// To between 0 and 1.
    Sigmoid = 2,
    /// To between −1 and 1.
    Tanh = 3,
    /// To positive numbers that add up to 1, each neuron seeing the others.
    Softmax = 4,
}

impl Activation {
    /// All of them; each stands at the place of its number.
    pub const ALL: [Self; 5] = [Self::Linear, Self::Relu, Self::Sigmoid, Self::Tanh, Self::Softmax];

    /// Bends one sample's sums.
    pub fn apply(self, sums: &mut [f32]) {
        match self {
            Self::Linear => {}
            Self::Relu => sums.iter_mut().for_each(|s| *s = if *s > 0.0 { *s } else { 0.0 }),
            Self::Sigmoid => sums.iter_mut().for_each(|s| *s = sigmoid(*s)),
            Self::Tanh => sums.iter_mut().for_each(|s| *s = tanh(*s)),
            Self::Softmax => {
                let greatest = sums.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                sums.iter_mut().for_each(|s| *s = exp(*s - greatest));
                let whole: f32 = sums.iter().sum();
                sums.iter_mut().for_each(|s| *s /= whole);
            }
        }
    }
}

/// A layer whose numbers belong to somebody else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer<'a> {
    weights: &'a [f32],
    bias: &'a [f32],
    activation: Activation,
}

impl<'a> Layer<'a> {
    /// A layer with a neuron for each bias. `weights` has the weights of the
    /// first input to all neurons, then those of the second, and so on.
    ///
    /// # Errors
    /// If there is no neuron or input, or the weights are not so many for each
    /// input.
    pub fn new(weights: &'a [f32], bias: &'a [f32], activation: Activation) -> Result<Self, Error> {
        if bias.is_empty() || weights.is_empty() {
            return Err(Error::Value { what: "a layer has a neuron and an input", found: 0.0 });
        }
        same("weights of a layer", weights.len() / bias.len() * bias.len(), weights.len())?;
        Ok(Self { weights, bias, activation })
    }

    /// How many numbers go in.
    #[must_use]
    pub const fn inputs(&self) -> usize {
        self.weights.len() / self.bias.len()
    }

    /// How many neurons there are: how many numbers come out.
    #[must_use]
    pub const fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// The weights of one input to all neurons, input by input.
    #[must_use]
    pub const fn weights(&self) -> &'a [f32] {
        self.weights
    }

    /// What is added to each neuron.
    #[must_use]
    pub const fn bias(&self) -> &'a [f32] {
        self.bias
    }

    /// How the sums are bent.
    #[must_use]
    pub const fn activation(&self) -> Activation {
        self.activation
    }

    /// Computes the layer for one sample.
    ///
    /// # Panics
    /// If input or output has another size than the layer.
    pub fn apply(&self, input: &[f32], output: &mut [f32]) {
        assert_eq!(input.len(), self.inputs(), "numbers that go into a layer");
        output.copy_from_slice(self.bias);
        for (x, weights) in input.iter().zip(self.weights.chunks_exact(self.outputs())) {
            for (sum, weight) in output.iter_mut().zip(weights) {
                *sum += x * weight;
            }
        }
        self.activation.apply(output);
    }
}

/// What comes out of the last of `layers`, each fed by the one before. `scratch`
/// has room for twice the outputs of the widest layer.
///
/// # Panics
/// If layers do not fit together, or there is none, or the room is too small.
pub fn forward<'s, 'l>(
    layers: impl IntoIterator<Item = Layer<'l>>,
    input: &[f32],
    scratch: &'s mut [f32],
) -> &'s [f32] {
    let (mut here, mut there) = scratch.split_at_mut(scratch.len() / 2);
    let mut layers = layers.into_iter();
    let first = layers.next().expect("a network has a layer");
    first.apply(input, &mut here[..first.outputs()]);
    let mut width = first.outputs();
    for layer in layers {
        layer.apply(&here[..width], &mut there[..layer.outputs()]);
        width = layer.outputs();
        (here, there) = (there, here);
    }
    &here[..width]
}
