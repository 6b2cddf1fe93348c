//! Training of networks.

use core::ops::ControlFlow;
use std::vec;
use std::vec::Vec;

use super::loss::Loss;
use super::multiply::{Matrix, add_product};
use super::network::{Network, Shape};
use super::optimiser::{Memory, Optimiser};
use crate::error::same;
use crate::random::Random;
use crate::{Error, Rows, parallel};

/// Parts of a batch, for any number of threads: their gradients are added in order.
const PARTS: usize = 4;

/// Samples processed together: few enough that intermediate results stay in the cache.
const BLOCK: usize = 64;

/// Options of training.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingOptions {
    /// The loss.
    pub loss: Loss,
    /// The optimiser.
    pub optimiser: Optimiser,
    /// Passes over all samples, each in another order.
    pub epochs: usize,
    /// Samples per step.
    pub batch: usize,
    /// Weight of each class; empty for 1 each.
    pub class_weights: Vec<f32>,
    /// Seed of the sample order.
    pub seed: u64,
    /// Maximum number of threads, up to four. The result does not depend on it.
    pub threads: usize,
}

impl Default for TrainingOptions {
    fn default() -> Self {
        Self {
            loss: Loss::CrossEntropy,
            optimiser: Optimiser::Adam { rate: 1e-3 },
            epochs: 20,
            batch: 256,
            class_weights: Vec::new(),
            seed: 1,
            threads: 2,
        }
    }
}

/// Progress of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Completed epochs.
    pub epoch: usize,
    /// Mean loss over the last epoch, while parameters changed.
    pub loss: f64,
}

/// Fits `network` to samples and their classes. Calls `progress` after each epoch, which may stop
/// it. Returns the progress of all epochs.
///
/// # Errors
/// If sizes do not match; if the loss does not apply to such a network; if the loss becomes
/// infinite.
pub fn train<T: Copy + Into<f32> + Sync>(
    network: &mut Network,
    samples: Rows<'_, T>,
    classes: &[u8],
    training: &TrainingOptions,
    mut progress: impl FnMut(Progress) -> ControlFlow<()>,
) -> Result<Vec<Progress>, Error> {
    check(network, samples, classes, training)?;
    let mut random = Random::new(training.seed);
    let mut memory = Memory::new(training.optimiser, network.parameters().len());
    let mut parts = vec![Part::new(network); PARTS];
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    let mut history = Vec::new();
    for epoch in 1..=training.epochs {
        random.shuffle(&mut order);
        let mut loss = 0.0;
        for batch in order.chunks(training.batch) {
            let transposed = transposed(network);
            let job = Job { network, transposed: &transposed, samples, classes, training };
            let length = batch.len().div_ceil(PARTS);
            parallel::each(training.threads, &mut parts, |number, part| {
                let begin = (number * length).min(batch.len());
                let end = (begin + length).min(batch.len());
                part.work(&job, &batch[begin..end], batch.len());
            });
            let (sum, others) = parts.split_first_mut().expect("four parts");
            for part in others {
                sum.loss += part.loss;
                for (all, gradient) in sum.gradient.iter_mut().zip(&part.gradient) {
                    *all += gradient;
                }
            }
            loss += sum.loss;
            memory.step(network.parameters_mut(), &sum.gradient);
        }
        let now = Progress { epoch, loss: loss / samples.len() as f64 };
        if !now.loss.is_finite() {
            return Err(Error::Value {
                what: "the loss stays finite; make smaller steps",
                found: now.loss,
            });
        }
        history.push(now);
        if progress(now).is_break() {
            break;
        }
    }
    Ok(history)
}

fn check<T>(
    network: &Network,
    samples: Rows<'_, T>,
    classes: &[u8],
    training: &TrainingOptions,
) -> Result<(), Error> {
    same("numbers of a sample", network.inputs(), samples.width())?;
    same("classes of the samples", samples.len(), classes.len())?;
    let known = network.outputs().max(2);
    if !training.class_weights.is_empty() {
        same("class weights", known, training.class_weights.len())?;
    }
    if let Some(&class) = classes.iter().find(|class| usize::from(**class) >= known) {
        let what = "a class is less than the number of outputs";
        return Err(Error::Value { what, found: f64::from(class) });
    }
    if samples.is_empty() || samples.len() > u32::MAX as usize {
        return Err(Error::Value {
            what: "samples are 1 to 2^32 - 1",
            found: samples.len() as f64,
        });
    }
    if training.batch == 0 {
        return Err(Error::Value { what: "a batch has at least one sample", found: 0.0 });
    }
    let last = network.shapes()[network.shapes().len() - 1];
    if !training.loss.takes(last.outputs, last.activation) {
        let what = "cross-entropy needs a softmax, or one sigmoid; hinge needs two outputs";
        return Err(Error::Value { what, found: last.outputs as f64 });
    }
    Ok(())
}

/// The weights of each layer by neuron, for backpropagation.
fn transposed(network: &Network) -> Vec<Vec<f32>> {
    let transpose = |layer: super::Layer<'_>| {
        let (inputs, outputs) = (layer.inputs(), layer.outputs());
        let weight = |i: usize| layer.weights()[i % inputs * outputs + i / inputs];
        (0..inputs * outputs).map(weight).collect()
    };
    // The gradient of the inputs is not needed.
    let first = core::iter::once(Vec::new());
    first.chain(network.layers().skip(1).map(transpose)).collect()
}

/// Shared inputs of all parts of a batch.
struct Job<'a, T> {
    network: &'a Network,
    transposed: &'a [Vec<f32>],
    samples: Rows<'a, T>,
    classes: &'a [u8],
    training: &'a TrainingOptions,
}

/// One part of a batch.
#[derive(Clone)]
struct Part {
    /// The part's gradient of the batch's mean loss.
    gradient: Vec<f32>,
    /// Sum of the losses.
    loss: f64,
    /// Input of each layer, and the output of the last.
    between: Vec<Vec<f32>>,
    /// Gradients of a layer's pre-activations, and of the layer before.
    slope: Vec<f32>,
    slope_before: Vec<f32>,
}

impl Part {
    fn new(network: &Network) -> Self {
        let outputs = network.shapes().iter().map(|shape| shape.outputs);
        let widths = core::iter::once(network.inputs()).chain(outputs);
        let between: Vec<Vec<f32>> = widths.map(|width| vec![0.0; BLOCK * width]).collect();
        Self {
            gradient: vec![0.0; network.parameters().len()],
            loss: 0.0,
            between,
            slope: Vec::new(),
            slope_before: Vec::new(),
        }
    }

    fn work<T: Copy + Into<f32>>(&mut self, job: &Job<'_, T>, rows: &[u32], batch: usize) {
        self.gradient.fill(0.0);
        self.loss = 0.0;
        for rows in rows.chunks(BLOCK) {
            self.forward(job, rows);
            self.score(job, rows, batch);
            self.backward(job, rows.len());
        }
    }

    fn forward<T: Copy + Into<f32>>(&mut self, job: &Job<'_, T>, rows: &[u32]) {
        let width = job.samples.width();
        for (place, &row) in self.between[0].chunks_exact_mut(width).zip(rows) {
            for (place, &x) in place.iter_mut().zip(job.samples.row(row as usize)) {
                *place = x.into();
            }
        }
        for (number, layer) in job.network.layers().enumerate() {
            let [input, output] = &mut self.between[number..number + 2] else { unreachable!() };
            let output = &mut output[..rows.len() * layer.outputs()];
            for place in output.chunks_exact_mut(layer.outputs()) {
                place.copy_from_slice(layer.bias());
            }
            let input = &input[..rows.len() * layer.inputs()];
            add_product(Matrix::of_rows(input, layer.inputs()), layer.weights(), output);
            for sums in output.chunks_exact_mut(layer.outputs()) {
                layer.activation().apply(sums);
            }
        }
    }

    /// Computes the gradient at the last layer.
    fn score<T>(&mut self, job: &Job<'_, T>, rows: &[u32], batch: usize) {
        let Shape { outputs, activation, .. } =
            job.network.shapes()[job.network.shapes().len() - 1];
        let output = &self.between[self.between.len() - 1];
        self.slope.resize(rows.len() * outputs, 0.0);
        let places = self.slope.chunks_exact_mut(outputs).zip(output.chunks_exact(outputs));
        for ((slope, output), &row) in places.zip(rows) {
            let class = usize::from(job.classes[row as usize]);
            let weight = job.training.class_weights.get(class).copied().unwrap_or(1.0);
            let loss = job.training.loss.derive(output, activation, class, slope);
            self.loss += f64::from(weight * loss);
            let share = weight / batch as f32;
            slope.iter_mut().for_each(|slope| *slope *= share);
        }
    }

    /// Backpropagation: adds to the gradient.
    fn backward<T>(&mut self, job: &Job<'_, T>, rows: usize) {
        let mut end = self.gradient.len();
        for (number, &Shape { inputs, outputs, .. }) in
            job.network.shapes().iter().enumerate().rev()
        {
            let input = &self.between[number][..rows * inputs];
            let (weights, bias) =
                self.gradient[end - (inputs + 1) * outputs..end].split_at_mut(inputs * outputs);
            end -= (inputs + 1) * outputs;
            for slope in self.slope.chunks_exact(outputs) {
                bias.iter_mut().zip(slope).for_each(|(bias, slope)| *bias += slope);
            }
            let input_of = Matrix::of_rows(input, inputs).transposed();
            add_product(input_of, &self.slope, weights);
            if number == 0 {
                break;
            }
            self.slope_before.clear();
            self.slope_before.resize(rows * inputs, 0.0);
            let slope = Matrix::of_rows(&self.slope, outputs);
            add_product(slope, &job.transposed[number], &mut self.slope_before);
            let before = job.network.shapes()[number - 1].activation;
            let places = self.slope_before.chunks_exact_mut(inputs).zip(input.chunks_exact(inputs));
            places.for_each(|(slope, input)| before.derive(input, slope));
            core::mem::swap(&mut self.slope, &mut self.slope_before);
        }
    }
}
