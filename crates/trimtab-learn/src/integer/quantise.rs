//! Quantisation of a trained network.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Network;
use crate::Error;
use crate::dense::{self, Activation, Layer};
use crate::error::same;

impl<const INPUTS: usize, const PAIRS: usize, const HIDDEN: usize> Network<INPUTS, PAIRS, HIDDEN> {
    /// The integer form of a network with one hidden ReLU layer and two outputs. The outputs'
    /// activation is irrelevant: none of them changes which one is greater.
    ///
    /// # Errors
    /// If the network has another shape; if a weight or bias is too large; the error names it.
    pub fn quantise(network: &dense::Network) -> Result<Box<Self>, Error> {
        let layers: Vec<Layer<'_>> = network.layers().collect();
        let [hidden, output] = layers[..] else {
            return Err(Error::Shape { what: "layers", expected: 2, found: layers.len() });
        };
        if hidden.activation() != Activation::Relu {
            let found = f64::from(hidden.activation() as u8);
            return Err(Error::Value { what: "the hidden layer's activation is ReLU (1)", found });
        }
        same("inputs", INPUTS, hidden.inputs())?;
        same("hidden neurons", HIDDEN, hidden.outputs())?;
        same("outputs", 2, output.outputs())?;
        let bias = output.bias();
        let new = Self::new(
            &scaled::<i16>(0, hidden.weights(), HIDDEN, 1e3)?,
            &scaled::<i32>(0, hidden.bias(), HIDDEN, 1e3)?,
            &scaled::<i16>(1, output.weights(), 2, 1e3)?,
            scaled::<i64>(1, bias, 2, 1e6)?[..].try_into().expect("two biases"),
        )?;
        Ok(Box::new(new))
    }
}

/// Each value times `scale`, rounded, ties away from zero.
fn scaled<T: TryFrom<i64>>(
    layer: usize,
    values: &[f32],
    neurons: usize,
    scale: f64,
) -> Result<Vec<T>, Error> {
    let scale = |(i, &value): (usize, &f32)| {
        let product = f64::from(value) * scale;
        let half = if product < 0.0 { -0.5 } else { 0.5 };
        let fitting = value.is_finite().then_some((product + half) as i64);
        let fitting = fitting.and_then(|integer| T::try_from(integer).ok());
        fitting.ok_or(Error::Saturated { layer, neuron: i % neurons, value })
    };
    values.iter().enumerate().map(scale).collect()
}
