//! The integer network of LinnOS: one hidden layer, two outputs, no floating
//! point.
//!
//! Hao et al., *LinnOS: Predictability on Unpredictable Flash Storage with a
//! Light Neural Network*, OSDI'20, §4.3: 31 decimal digits go in, 256 hidden
//! neurons, and out come two numbers, one for fast and one for slow; the greater
//! one is the answer. Weights are kept to three decimals.
//!
//! # Arithmetic
//!
//! Fixed, so that every implementation gives the same logits to the last bit;
//! `docs/integer-network.md` has it in full.
//!
//! | what | how |
//! | --- | --- |
//! | inputs | `u8` |
//! | weights of both layers | × 1000, rounded, ties away from zero, `i16` |
//! | bias of the hidden layer | × 1000, rounded, `i32` |
//! | hidden sums | `i32`, exact |
//! | ReLU | negative becomes 0 |
//! | bias of the outputs | × 1,000,000, rounded, `i64` |
//! | outputs | `i64`, exact |
//! | decision | slow if output 1 is greater than output 0 |
//!
//! A number that does not fit its integer is an error when the network is made,
//! never a wrong decision later.

#[cfg(feature = "alloc")]
mod quantise;

use crate::Error;
use crate::error::same;

/// A network of [`u8`] inputs in `PAIRS` pairs, `HIDDEN` neurons and two outputs.
///
/// It is one block of memory without pointers. `HIDDEN` is a multiple of 16.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Network<const PAIRS: usize, const HIDDEN: usize> {
    /// For each pair of inputs and each neuron the two weights: what one
    /// multiply-add instruction takes.
    first: [[[i16; 2]; HIDDEN]; PAIRS],
    first_bias: [i32; HIDDEN],
    /// For each output the weights of the neurons.
    second: [[i16; HIDDEN]; 2],
    second_bias: [i64; 2],
    inputs: usize,
}

/// The size in the paper: 31 inputs (and one that is always 0), 256 neurons.
pub type LinnOs = Network<16, 256>;

impl<const PAIRS: usize, const HIDDEN: usize> Network<PAIRS, HIDDEN> {
    /// A network of these weights and biases. `first` has the weights of the
    /// first input to all neurons, then those of the second, and so on; `second`
    /// has the two weights of the first neuron, then those of the second.
    ///
    /// # Errors
    /// If there are too many inputs, or the wrong number of weights; if some
    /// input could make a sum overflow.
    pub fn new(
        inputs: usize,
        first: &[i16],
        first_bias: &[i32],
        second: &[i16],
        second_bias: [i64; 2],
    ) -> Result<Self, Error> {
        const { assert!(HIDDEN.is_multiple_of(16), "the number of neurons is a multiple of 16") };
        if inputs > 2 * PAIRS {
            let what = "inputs of an integer network";
            return Err(Error::Shape { what, expected: 2 * PAIRS, found: inputs });
        }
        same("weights of the hidden layer", inputs * HIDDEN, first.len())?;
        same("biases of the hidden layer", HIDDEN, first_bias.len())?;
        same("weights of the outputs", 2 * HIDDEN, second.len())?;
        let mut new = Self {
            first: [[[0; 2]; HIDDEN]; PAIRS],
            first_bias: [0; HIDDEN],
            second: [[0; HIDDEN]; 2],
            second_bias,
            inputs,
        };
        new.first_bias.copy_from_slice(first_bias);
        for (input, weights) in first.chunks_exact(HIDDEN).enumerate() {
            for (neuron, &weight) in weights.iter().enumerate() {
                new.first[input / 2][neuron][input % 2] = weight;
            }
        }
        for (neuron, weights) in second.chunks_exact(2).enumerate() {
            for (output, &weight) in weights.iter().enumerate() {
                new.second[output][neuron] = weight;
            }
        }
        new.check_sums()?;
        Ok(new)
    }

    /// No input makes a hidden sum overflow, whatever the order of its terms, and
    /// so no output: 2³¹ × 2¹⁵ × HIDDEN is far below 2⁶².
    fn check_sums(&self) -> Result<(), Error> {
        for neuron in 0..HIDDEN {
            let weights = self.first.iter().flat_map(|pair| pair[neuron]);
            let weights: i64 = weights.map(|weight| i64::from(weight).abs()).sum();
            let bias = self.first_bias[neuron];
            if i64::from(bias).abs() + 255 * weights > i64::from(i32::MAX) {
                let value = bias as f32 / 1000.0;
                return Err(Error::Saturated { layer: 0, neuron, value });
            }
        }
        for (neuron, &bias) in self.second_bias.iter().enumerate() {
            if bias.unsigned_abs() > 1 << 62 {
                return Err(Error::Saturated { layer: 1, neuron, value: bias as f32 / 1e6 });
            }
        }
        Ok(())
    }

    /// How many inputs there are.
    #[must_use]
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// The weight of an input to a hidden neuron.
    #[must_use]
    pub const fn first_weight(&self, input: usize, neuron: usize) -> i16 {
        self.first[input / 2][neuron][input % 2]
    }

    /// The biases of the hidden neurons.
    #[must_use]
    pub const fn first_bias(&self) -> &[i32; HIDDEN] {
        &self.first_bias
    }

    /// The weight of a hidden neuron to an output.
    #[must_use]
    pub const fn second_weight(&self, neuron: usize, output: usize) -> i16 {
        self.second[output][neuron]
    }

    /// The biases of the outputs.
    #[must_use]
    pub const fn second_bias(&self) -> &[i64; 2] {
        &self.second_bias
    }

    /// Whether the answer is slow: output 1 is greater than output 0.
    ///
    /// # Panics
    /// If there are not as many inputs as the network has.
    #[must_use]
    pub fn is_slow(&self, inputs: &[u8]) -> bool {
        let [fast, slow] = self.logits(inputs);
        slow > fast
    }

    /// The two outputs, in units of 10⁻⁶.
    ///
    /// # Panics
    /// If there are not as many inputs as the network has.
    #[must_use]
    pub fn logits(&self, inputs: &[u8]) -> [i64; 2] {
        self.scalar(&self.pairs(inputs))
    }

    fn pairs(&self, inputs: &[u8]) -> [[i16; 2]; PAIRS] {
        assert_eq!(inputs.len(), self.inputs, "inputs of the network");
        let mut pairs = [[0; 2]; PAIRS];
        for (pair, &input) in pairs.as_flattened_mut().iter_mut().zip(inputs) {
            *pair = i16::from(input);
        }
        pairs
    }

    fn scalar(&self, pairs: &[[i16; 2]; PAIRS]) -> [i64; 2] {
        let mut sums = self.first_bias;
        for (&[a, b], weights) in pairs.iter().zip(&self.first) {
            for (sum, &[v, w]) in sums.iter_mut().zip(weights) {
                *sum += i32::from(a) * i32::from(v) + i32::from(b) * i32::from(w);
            }
        }
        let mut outputs = self.second_bias;
        for (output, weights) in outputs.iter_mut().zip(&self.second) {
            for (&sum, &weight) in sums.iter().zip(weights) {
                *output += i64::from(sum.max(0)) * i64::from(weight);
            }
        }
        outputs
    }
}
