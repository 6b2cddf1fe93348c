//! Fully connected networks of `f32`.
//!
//! A layer multiplies its input by a matrix, adds a bias, and applies an activation. Weights are
//! stored by input: those of one input to all neurons are adjacent. So a layer is computed by
//! adding rows, which vectorises over neurons and yet adds each neuron's terms in order. No sum is
//! reordered and no multiplication fused with an addition: results are identical to the bit on
//! every machine, for any vector width and number of threads.

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
pub use network::Initialisation;
#[cfg(feature = "alloc")]
pub use network::{Network, Scratch, Shape};
#[cfg(feature = "train")]
pub use optimiser::Optimiser;
#[cfg(feature = "train")]
pub use train::{Progress, TrainingOptions, train};

use crate::Error;
use crate::error::same;
use crate::functions::{exp, sigmoid, tanh};

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activation {
    /// The identity.
    Linear = 0,
    /// Negative values become 0.
    Relu = 1,
    /// The logistic function, 0 to 1.
    Sigmoid = 2,
    /// The hyperbolic tangent, −1 to 1.
    Tanh = 3,
    /// Positive numbers with sum 1, over the whole layer.
    Softmax = 4,
}

impl Activation {
    /// All of them; each is at the index of its number.
    pub const ALL: [Self; 5] = [Self::Linear, Self::Relu, Self::Sigmoid, Self::Tanh, Self::Softmax];

    /// Applies it to one sample's sums.
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

/// A layer with borrowed weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer<'a> {
    weights: &'a [f32],
    bias: &'a [f32],
    activation: Activation,
}

impl<'a> Layer<'a> {
    /// A layer with one neuron per bias. `weights` has the weights of the first input to all
    /// neurons, then those of the second, and so on.
    ///
    /// # Errors
    /// If there is no neuron or input, or the number of weights is not inputs × neurons.
    pub fn new(weights: &'a [f32], bias: &'a [f32], activation: Activation) -> Result<Self, Error> {
        if bias.is_empty() || weights.is_empty() {
            return Err(Error::Value { what: "a layer has a neuron and an input", found: 0.0 });
        }
        same("weights of a layer", weights.len() / bias.len() * bias.len(), weights.len())?;
        Ok(Self { weights, bias, activation })
    }

    /// Number of inputs.
    #[must_use]
    pub const fn inputs(&self) -> usize {
        self.weights.len() / self.bias.len()
    }

    /// Number of neurons, that is, of outputs.
    #[must_use]
    pub const fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// The weights of one input to all neurons, input by input.
    #[must_use]
    pub const fn weights(&self) -> &'a [f32] {
        self.weights
    }

    /// The bias of each neuron.
    #[must_use]
    pub const fn bias(&self) -> &'a [f32] {
        self.bias
    }

    /// The activation.
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

/// The output of the last of `layers`, each fed by the previous one. `scratch` holds at least twice
/// the outputs of the widest layer.
///
/// # Panics
/// If layers do not fit together, or there is none, or `scratch` is too small.
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
