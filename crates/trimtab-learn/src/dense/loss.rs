//! Loss functions of networks.

use super::Activation;

/// The loss function: the mean over the samples, weighted by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The negative logarithm of the probability given to the true class. The
    /// last layer is [`Softmax`](Activation::Softmax), or a single
    /// [`Sigmoid`](Activation::Sigmoid) that gives the probability of class 1.
    CrossEntropy,
    /// max(0, 1 + the highest output of another class − that of the true class),
    /// as Keras' `categorical_hinge`, with which LinnOS was trained.
    Hinge,
}

/// Lower bound of probabilities.
const LEAST: f32 = 1e-30;

impl Loss {
    /// Whether the loss applies to such outputs.
    pub(super) fn takes(self, outputs: usize, last: Activation) -> bool {
        match self {
            Self::CrossEntropy => {
                (last == Activation::Softmax && outputs > 1)
                    || (last == Activation::Sigmoid && outputs == 1)
            }
            Self::Hinge => outputs > 1,
        }
    }

    /// The loss of one sample. Writes its derivative with respect to each pre-activation of the
    /// last layer to `slope`.
    pub(super) fn derive(
        self,
        output: &[f32],
        last: Activation,
        class: usize,
        slope: &mut [f32],
    ) -> f32 {
        match self {
            Self::CrossEntropy => {
                // Logarithm and exponential cancel: the derivative is probability minus truth.
                for (i, (slope, p)) in slope.iter_mut().zip(output).enumerate() {
                    let truth = if output.len() == 1 { class == 1 } else { class == i };
                    *slope = p - f32::from(u8::from(truth));
                }
                let p = match output {
                    [p] if class == 0 => 1.0 - p,
                    [p] => *p,
                    _ => output[class],
                };
                -libm::logf(p.max(LEAST))
            }
            Self::Hinge => {
                let others = (0..output.len()).filter(|&i| i != class);
                let worst = others
                    .reduce(|a, b| if output[b] > output[a] { b } else { a })
                    .expect("more than one output");
                let loss = 1.0 + output[worst] - output[class];
                slope.fill(0.0);
                if loss > 0.0 {
                    slope[worst] = 1.0;
                    slope[class] = -1.0;
                    last.derive(output, slope);
                }
                loss.max(0.0)
            }
        }
    }
}

impl Activation {
    /// Converts the derivative with respect to the output into that with respect to the
    /// pre-activations.
    pub(super) fn derive(self, output: &[f32], slope: &mut [f32]) {
        let both = slope.iter_mut().zip(output);
        match self {
            Self::Linear => {}
            Self::Relu => both.for_each(|(s, &y)| *s = if y > 0.0 { *s } else { 0.0 }),
            Self::Sigmoid => both.for_each(|(s, &y)| *s *= y * (1.0 - y)),
            Self::Tanh => both.for_each(|(s, &y)| *s *= 1.0 - y * y),
            Self::Softmax => {
                let mean: f32 = slope.iter().zip(output).map(|(s, y)| s * y).sum();
                slope.iter_mut().zip(output).for_each(|(s, y)| *s = y * (*s - mean));
            }
        }
    }
}
