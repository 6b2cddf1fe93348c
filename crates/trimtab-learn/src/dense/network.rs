//! Owned networks.

use alloc::boxed::Box;
use alloc::vec;

use super::{Activation, Layer, forward};
use crate::error::same;
use crate::{Error, Rows};

/// Size and activation of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of inputs.
    pub inputs: usize,
    /// Number of outputs.
    pub outputs: usize,
    /// Activation function.
    pub activation: Activation,
}

impl Shape {
    /// Number of weights and biases; `None` on overflow.
    fn parameters(self) -> Option<usize> {
        self.inputs.checked_add(1)?.checked_mul(self.outputs)
    }
}

/// Distribution of initial weights.
#[cfg(feature = "train")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initialisation {
    /// Uniform in ±√(6 / (inputs + outputs)): Glorot and Bengio 2010. As in Keras and scikit-learn.
    Glorot,
    /// Uniform in ±√(6 / inputs): He et al. 2015, for deep ReLU networks.
    He,
}

#[cfg(feature = "train")]
impl Initialisation {
    fn limit(self, inputs: usize, outputs: usize) -> f32 {
        let fan = match self {
            Self::Glorot => inputs + outputs,
            Self::He => inputs,
        };
        (6.0 / fan as f32).sqrt()
    }
}

/// Layers, each fed by the previous one.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    shapes: Box<[Shape]>,
    /// For each layer the weights, then the biases.
    parameters: Box<[f32]>,
}

impl Network {
    /// A network with layers of these shapes. `parameters` has for each layer the weights as in
    /// [`Layer::new`] and then the biases.
    ///
    /// # Errors
    /// If layers do not fit together, or the number of parameters is wrong.
    pub fn new(shapes: &[Shape], parameters: Box<[f32]>) -> Result<Self, Error> {
        if shapes.is_empty() || shapes.iter().any(|s| s.inputs == 0 || s.outputs == 0) {
            let what = "a network has a layer, and each layer a neuron and an input";
            return Err(Error::Value { what, found: 0.0 });
        }
        for pair in shapes.windows(2) {
            same("inputs of a layer", pair[0].outputs, pair[1].inputs)?;
        }
        let count = shapes.iter().try_fold(0_usize, |all, s| all.checked_add(s.parameters()?));
        same("parameters of a network", count.unwrap_or(usize::MAX), parameters.len())?;
        Ok(Self { shapes: shapes.into(), parameters })
    }

    /// A network with random weights, for training; biases are 0.
    ///
    /// # Errors
    /// If a layer has no neuron, or there is no input or no layer.
    #[cfg(feature = "train")]
    pub fn random(
        inputs: usize,
        layers: &[(usize, Activation)],
        start: Initialisation,
        seed: u64,
    ) -> Result<Self, Error> {
        let mut random = crate::random::Random::new(seed);
        let mut inputs = inputs;
        let (mut shapes, mut parameters) = (vec![], vec![]);
        for &(outputs, activation) in layers {
            let limit = start.limit(inputs, outputs);
            parameters.extend((0..inputs * outputs).map(|_| limit * random.symmetric()));
            parameters.extend((0..outputs).map(|_| 0.0));
            shapes.push(Shape { inputs, outputs, activation });
            inputs = outputs;
        }
        Self::new(&shapes, parameters.into())
    }

    /// Shapes of the layers.
    #[must_use]
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// All weights and biases, in the order of [`new`](Self::new).
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    #[cfg(feature = "train")]
    pub(super) fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// The layers.
    pub fn layers(&self) -> impl Iterator<Item = Layer<'_>> {
        self.shapes.iter().scan(&*self.parameters, |rest, shape| {
            let (weights, behind) = rest.split_at(shape.inputs * shape.outputs);
            let (bias, behind) = behind.split_at(shape.outputs);
            *rest = behind;
            Some(Layer { weights, bias, activation: shape.activation })
        })
    }

    /// Number of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.shapes[0].inputs
    }

    /// Number of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.shapes[self.shapes.len() - 1].outputs
    }

    /// A reusable buffer for [`forward`](Self::forward).
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        let widest = self.shapes.iter().map(|shape| shape.outputs).max().unwrap_or(0);
        Scratch(vec![0.0; 2 * widest].into())
    }

    /// The output for one sample. Allocates nothing.
    ///
    /// # Panics
    /// If the sample's size differs from the first layer's, or the buffer is of a smaller network.
    #[must_use]
    pub fn forward<'s>(&self, input: &[f32], scratch: &'s mut Scratch) -> &'s [f32] {
        forward(self.layers(), input, &mut scratch.0)
    }

    /// The outputs for many samples, concatenated.
    ///
    /// # Panics
    /// If the samples' size differs from the first layer's.
    #[must_use]
    pub fn forward_all<T: Copy + Into<f32>>(&self, samples: Rows<'_, T>) -> Box<[f32]> {
        let mut scratch = self.scratch();
        let mut input = vec![0.0; samples.width()];
        let mut all = vec![0.0; samples.len() * self.outputs()];
        for (output, sample) in all.chunks_exact_mut(self.outputs()).zip(samples.iter()) {
            input.iter_mut().zip(sample).for_each(|(to, &from)| *to = from.into());
            output.copy_from_slice(self.forward(&input, &mut scratch));
        }
        all.into()
    }
}

/// Buffer for a network's intermediate results.
#[derive(Clone, Debug)]
pub struct Scratch(Box<[f32]>);
