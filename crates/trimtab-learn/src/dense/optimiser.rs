//! Optimisers.

use std::vec;
use std::vec::Vec;

/// An optimiser: how a gradient becomes a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimiser {
    /// Stochastic gradient descent; the momentum is the share of a step carried over to the next.
    Sgd {
        /// Learning rate.
        rate: f32,
        /// Momentum, from 0 to below 1.
        momentum: f32,
    },
    /// Kingma and Ba, *Adam*, ICLR'15, algorithm 1, with decay rates of 0.9 and
    /// 0.999.
    Adam {
        /// Learning rate; 0.001 is good.
        rate: f32,
    },
}

/// An optimiser with its state per parameter.
pub(super) struct Memory {
    optimiser: Optimiser,
    first: Vec<f32>,
    second: Vec<f32>,
    /// The decay rates to the power of the number of steps.
    decayed: (f32, f32),
}

impl Memory {
    pub(super) fn new(optimiser: Optimiser, parameters: usize) -> Self {
        let zeroes = vec![0.0; parameters];
        Self { optimiser, first: zeroes.clone(), second: zeroes, decayed: (1.0, 1.0) }
    }

    /// Applies a step.
    pub(super) fn step(&mut self, parameters: &mut [f32], gradient: &[f32]) {
        let each = parameters.iter_mut().zip(gradient).zip(&mut self.first);
        match self.optimiser {
            Optimiser::Sgd { rate, momentum } => {
                for ((p, g), step) in each {
                    *step = momentum * *step - rate * g;
                    *p += *step;
                }
            }
            Optimiser::Adam { rate } => {
                const DECAY: (f32, f32) = (0.9, 0.999);
                const LEAST: f32 = 1e-8;
                self.decayed = (self.decayed.0 * DECAY.0, self.decayed.1 * DECAY.1);
                let (grown_1, grown_2) = (1.0 - self.decayed.0, 1.0 - self.decayed.1);
                for (((p, g), m), v) in each.zip(&mut self.second) {
                    *m = DECAY.0 * *m + (1.0 - DECAY.0) * g;
                    *v = DECAY.1 * *v + (1.0 - DECAY.1) * g * g;
                    *p -= rate * (*m / grown_1) / ((*v / grown_2).sqrt() + LEAST);
                }
            }
        }
    }
}
