//! The integer network of LinnOS: one hidden layer, two outputs, no floating point.
//!
//! Hao et al., *LinnOS: Predictability on Unpredictable Flash Storage with a Light Neural Network*,
//! OSDI'20, §4.3: 31 decimal digits in, 256 hidden neurons, two outputs, one for fast and one for
//! slow; the greater one is the decision. Weights are rounded to three decimals.
//!
//! # Arithmetic
//!
//! Fixed, so that every implementation gives the same logits to the last bit;
//! `docs/integer-network.md` has the full definition.
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
//! A number that does not fit its integer is an error when the network is made, never a wrong
//! decision later.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
#[cfg(feature = "alloc")]
mod quantise;

use crate::error::same;
use crate::simd::Level;
use crate::{Error, Simd};

/// A pair of 16-bit inputs, the first one in the lower half.
type Pairs<const PAIRS: usize> = [i32; PAIRS];

/// A network of `INPUTS` inputs (in `PAIRS` pairs, rounded up), `HIDDEN` neurons
/// and two outputs.
///
/// One block of memory without pointers. `HIDDEN` is a multiple of 16.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Network<const INPUTS: usize, const PAIRS: usize, const HIDDEN: usize> {
    /// For each pair of inputs and each neuron the two weights: the operand of one multiply-add
    /// instruction.
    first: [[[i16; 2]; HIDDEN]; PAIRS],
    first_bias: [i32; HIDDEN],
    /// The neurons' weights to output 0, to output 1, and the difference of both, which suffices
    /// for a decision.
    second: [[i32; HIDDEN]; 3],
    second_bias: [i64; 3],
}

/// The size in the paper: 31 inputs, 256 neurons.
pub type LinnOs = Network<31, 16, 256>;

impl<const INPUTS: usize, const PAIRS: usize, const HIDDEN: usize> Network<INPUTS, PAIRS, HIDDEN> {
    /// A network of these weights and biases. `first` has the weights of the first input to all
    /// neurons, then those of the second, and so on; `second` has the two weights of the first
    /// neuron, then those of the second.
    ///
    /// # Errors
    /// If the number of weights is wrong; if some input could make a sum overflow.
    pub fn new(
        first: &[i16],
        first_bias: &[i32],
        second: &[i16],
        second_bias: [i64; 2],
    ) -> Result<Self, Error> {
        const { assert!(INPUTS.div_ceil(2) == PAIRS, "pairs hold the inputs") };
        const { assert!(HIDDEN.is_multiple_of(16), "the number of neurons is a multiple of 16") };
        same("weights of the hidden layer", INPUTS * HIDDEN, first.len())?;
        same("biases of the hidden layer", HIDDEN, first_bias.len())?;
        same("weights of the outputs", 2 * HIDDEN, second.len())?;
        let [fast, slow] = second_bias;
        let mut new = Self {
            first: [[[0; 2]; HIDDEN]; PAIRS],
            first_bias: [0; HIDDEN],
            second: [[0; HIDDEN]; 3],
            second_bias: [fast, slow, slow.wrapping_sub(fast)],
        };
        new.first_bias.copy_from_slice(first_bias);
        for (input, weights) in first.chunks_exact(HIDDEN).enumerate() {
            for (neuron, &weight) in weights.iter().enumerate() {
                new.first[input / 2][neuron][input % 2] = weight;
            }
        }
        for (neuron, weights) in second.chunks_exact(2).enumerate() {
            let (fast, slow) = (i32::from(weights[0]), i32::from(weights[1]));
            let to = [fast, slow, slow - fast];
            for (row, weight) in new.second.iter_mut().zip(to) {
                row[neuron] = weight;
            }
        }
        new.check_sums()?;
        Ok(new)
    }

    /// Checks that no input makes a hidden sum overflow, in any order of its terms. Then no output
    /// overflows: 2³¹ × 2¹⁶ × HIDDEN is far below 2⁶¹.
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
        for (neuron, bias) in self.second_bias().into_iter().enumerate() {
            if bias.unsigned_abs() > 1 << 61 {
                return Err(Error::Saturated { layer: 1, neuron, value: bias as f32 / 1e6 });
            }
        }
        Ok(())
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
        assert!(output < 2, "there are two outputs");
        self.second[output][neuron] as i16
    }

    /// The biases of the outputs.
    #[must_use]
    pub const fn second_bias(&self) -> [i64; 2] {
        [self.second_bias[0], self.second_bias[1]]
    }

    /// Whether the decision is slow: output 1 exceeds output 0. Uses the best available
    /// instructions.
    #[must_use]
    #[inline]
    pub fn is_slow(&self, inputs: &[u8; INPUTS]) -> bool {
        self.margin(Simd::best(), inputs) > 0
    }

    /// Output 1 minus output 0, in units of 10⁻⁶. Cheaper than both.
    #[must_use]
    #[inline]
    pub fn margin(&self, simd: Simd, inputs: &[u8; INPUTS]) -> i64 {
        let [margin] = self.outputs::<1>(simd, inputs, [2]);
        margin
    }

    /// The two outputs, in units of 10⁻⁶.
    #[must_use]
    #[inline]
    pub fn logits(&self, simd: Simd, inputs: &[u8; INPUTS]) -> [i64; 2] {
        self.outputs(simd, inputs, [0, 1])
    }

    /// The margins of many samples.
    ///
    /// # Panics
    /// If there are not as many margins as samples.
    pub fn margins(&self, simd: Simd, samples: &[[u8; INPUTS]], margins: &mut [i64]) {
        assert_eq!(samples.len(), margins.len(), "as many margins as samples");
        for (margin, inputs) in margins.iter_mut().zip(samples) {
            *margin = self.margin(simd, inputs);
        }
    }

    /// The products with these rows of the second layer.
    #[inline]
    fn outputs<const N: usize>(
        &self,
        simd: Simd,
        inputs: &[u8; INPUTS],
        rows: [usize; N],
    ) -> [i64; N] {
        let mut padded = [[0; 2]; PAIRS];
        padded.as_flattened_mut()[..INPUTS].copy_from_slice(inputs);
        let pairs = padded.map(|[a, b]| i32::from(a) | i32::from(b) << 16);
        let weights = rows.map(|row| &self.second[row]);
        let outputs = match simd.level() {
            Level::Scalar => self.scalar(&pairs, weights),
            // SAFETY: a level exists only if the processor has it.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx2 => unsafe { self.avx2(&pairs, weights) },
            // SAFETY: as before.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx512 => unsafe { self.avx512(&pairs, weights) },
            // SAFETY: as before.
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Level::Avx512Vnni => unsafe { self.avx512_vnni(&pairs, weights) },
        };
        core::array::from_fn(|i| self.second_bias[rows[i]] + outputs[i])
    }

    fn scalar<const N: usize>(
        &self,
        pairs: &Pairs<PAIRS>,
        second: [&[i32; HIDDEN]; N],
    ) -> [i64; N] {
        let mut sums = self.first_bias;
        for (pair, weights) in pairs.iter().zip(&self.first) {
            let (a, b) = (pair & 0xffff, pair >> 16);
            for (sum, &[v, w]) in sums.iter_mut().zip(weights) {
                *sum += a * i32::from(v) + b * i32::from(w);
            }
        }
        second.map(|weights| {
            let product = |(&sum, &weight): (&i32, &i32)| i64::from(sum.max(0)) * i64::from(weight);
            sums.iter().zip(weights).map(product).sum()
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    fn weights<T: Arbitrary>(count: usize) -> impl Strategy<Value = Vec<T>> {
        prop::collection::vec(any::<T>(), count)
    }

    proptest! {
        #[test]
        fn all_instructions_agree(
            first in weights::<i16>(5 * 48),
            bias in prop::collection::vec(-1_900_000_000_i32..1_900_000_000, 48),
            second in weights::<i16>(2 * 48),
            second_bias in any::<[i32; 2]>(),
            inputs in any::<[u8; 5]>(),
        ) {
            let second_bias = second_bias.map(|bias| i64::from(bias) << 30);
            let network = Network::<5, 3, 48>::new(&first, &bias, &second, second_bias).unwrap();
            let expected: [i64; 2] = core::array::from_fn(|output| {
                let hidden = |neuron: usize| {
                    let weighted = |i: usize| i64::from(inputs[i]) * i64::from(first[i * 48 + neuron]);
                    (i64::from(bias[neuron]) + (0..5).map(weighted).sum::<i64>()).max(0)
                };
                let says = |neuron| hidden(neuron) * i64::from(second[2 * neuron + output]);
                second_bias[output] + (0..48).map(says).sum::<i64>()
            });
            for simd in Simd::all() {
                prop_assert_eq!(network.logits(simd, &inputs), expected, "{}", simd);
                let margin = expected[1] - expected[0];
                prop_assert_eq!(network.margin(simd, &inputs), margin, "{}", simd);
            }
        }
    }

    #[test]
    fn possible_overflow_is_refused() {
        let network = |weight, bias, outputs| {
            let (mut first, mut biases) = ([0; 2 * 16], [0; 16]);
            (first[3], biases[3]) = (weight, bias);
            Network::<2, 1, 16>::new(&first, &biases, &[0; 32], [0, outputs])
        };
        assert!(network(i16::MAX, i32::MAX - 255 * 32_767, 1 << 61).is_ok());
        let too_large = network(i16::MAX, i32::MAX - 255 * 32_767 + 1, 0);
        assert!(matches!(too_large, Err(Error::Saturated { layer: 0, neuron: 3, .. })));
        let too_large = network(0, 0, (1 << 61) + 1);
        assert!(matches!(too_large, Err(Error::Saturated { layer: 1, neuron: 1, .. })));
    }
}
