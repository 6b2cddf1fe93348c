//! Gradients of every activation and loss, against finite differences of an independent f64
//! implementation.

use std::ops::ControlFlow;

use trimtab_learn::Rows;
use trimtab_learn::dense::{
    self, Activation, Initialisation, Loss, Network, Optimiser, TrainingOptions,
};

const SAMPLES: usize = 9;
const INPUTS: usize = 5;

fn activate(activation: Activation, z: &[f64]) -> Vec<f64> {
    match activation {
        Activation::Linear => z.to_vec(),
        Activation::Relu => z.iter().map(|z| z.max(0.0)).collect(),
        Activation::Sigmoid => z.iter().map(|z| 1.0 / (1.0 + (-z).exp())).collect(),
        Activation::Tanh => z.iter().map(|z| z.tanh()).collect(),
        Activation::Softmax => {
            let sum: f64 = z.iter().map(|z| z.exp()).sum();
            z.iter().map(|z| z.exp() / sum).collect()
        }
    }
}

fn forward(network: &Network, parameters: &[f64], input: &[f64]) -> Vec<f64> {
    let (mut x, mut rest) = (input.to_vec(), parameters);
    for shape in network.shapes() {
        let (weights, behind) = rest.split_at(shape.inputs * shape.outputs);
        let (bias, behind) = behind.split_at(shape.outputs);
        let sum = |o: usize| -> f64 {
            bias[o]
                + x.iter().enumerate().map(|(i, x)| x * weights[i * shape.outputs + o]).sum::<f64>()
        };
        x = activate(shape.activation, &(0..shape.outputs).map(sum).collect::<Vec<_>>());
        rest = behind;
    }
    x
}

fn loss(loss: Loss, output: &[f64], class: usize) -> f64 {
    match loss {
        Loss::CrossEntropy if output.len() == 1 => {
            -(if class == 1 { output[0] } else { 1.0 - output[0] }).ln()
        }
        Loss::CrossEntropy => -output[class].ln(),
        Loss::Hinge => {
            let others = output.iter().enumerate().filter(|(i, _)| *i != class);
            let worst = others.map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
            (1.0 + worst - output[class]).max(0.0)
        }
    }
}

/// The gradient is the change by one step of size 1 over all samples.
fn check(hidden: Activation, last: (usize, Activation), of: Loss) {
    let layers = [(7, hidden), (6, Activation::Tanh), last];
    let mut network = Network::random(INPUTS, &layers, Initialisation::Glorot, 5).unwrap();
    let samples: Vec<f32> =
        (0..SAMPLES * INPUTS).map(|i| (i * 37 % 23) as f32 / 11.0 - 1.0).collect();
    let known = last.0.max(2);
    let classes: Vec<u8> = (0..SAMPLES).map(|i| (i * 5 % 7 % known) as u8).collect();
    let weights: Vec<f32> = (0..known).map(|class| 1.0 + class as f32 / 2.0).collect();

    let mean = |network: &Network, parameters: &[f64]| -> f64 {
        let of_sample = |i: usize| {
            let input: Vec<f64> =
                samples[i * INPUTS..][..INPUTS].iter().map(|&x| f64::from(x)).collect();
            let output = forward(network, parameters, &input);
            f64::from(weights[usize::from(classes[i])]) * loss(of, &output, usize::from(classes[i]))
        };
        (0..SAMPLES).map(of_sample).sum::<f64>() / SAMPLES as f64
    };
    let before: Vec<f64> = network.parameters().iter().map(|&p| f64::from(p)).collect();
    let unchanged = network.clone();
    let training = TrainingOptions {
        loss: of,
        optimiser: Optimiser::Sgd { rate: 1.0, momentum: 0.0 },
        epochs: 1,
        batch: SAMPLES,
        class_weights: weights.clone(),
        ..TrainingOptions::default()
    };
    let rows = Rows::new(&samples, INPUTS).unwrap();
    let go_on = |_| ControlFlow::Continue(());
    let history = dense::train(&mut network, rows, &classes, &training, go_on).unwrap();
    assert!((history[0].loss - mean(&unchanged, &before)).abs() < 1e-5);

    let mut largest = 0.0_f64;
    for (i, after) in network.parameters().iter().enumerate() {
        let at = |shift: f64| {
            let mut moved = before.clone();
            moved[i] += shift;
            mean(&unchanged, &moved)
        };
        let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
        let found = before[i] - f64::from(*after);
        assert!(
            (found - expected).abs() < 1e-6 + 1e-4 * expected.abs(),
            "{hidden:?} {last:?} {of:?}, parameter {i}: {found} against {expected}"
        );
        largest = largest.max(expected.abs());
    }
    assert!(largest > 1e-3, "all slopes are 0: nothing was checked");
}

#[test]
fn hidden_activations_have_correct_gradients() {
    for hidden in Activation::ALL {
        check(hidden, (3, Activation::Softmax), Loss::CrossEntropy);
    }
}

#[test]
fn losses_have_correct_gradients() {
    check(Activation::Relu, (1, Activation::Sigmoid), Loss::CrossEntropy);
    for last in Activation::ALL {
        check(Activation::Sigmoid, (2, last), Loss::Hinge);
        check(Activation::Relu, (4, last), Loss::Hinge);
    }
}
