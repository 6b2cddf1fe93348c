//! Small models: trained in seconds, evaluated in nanoseconds, identical on every machine.
//!
//! A predictor of storage latency decides before each I/O, so it has a few hundred nanoseconds; it
//! also runs in a kernel, without floating point; and the deployed model must equal the evaluated
//! one to the bit. General libraries meet none of this, hence this one. Each kind of model has two
//! forms: one for training, in floating point, and one for inference, in integers whose sums cannot
//! overflow. So neither the order of summation nor the vector width matters.
//!
//! The crate knows nothing of storage: numbers in, numbers out.
//!
//! | | trained | decides |
//! | --- | --- | --- |
//! | networks | [`dense`] | [`integer`]: two layers, for 31 digits as in LinnOS |
//! | trees | `boost`, or imported by `lightgbm`; kept as [`tree::Forest`] | [`forest::IntegerForest`] |
//! | probabilities | `calibrate::Platt`, `calibrate::isotonic` | [`calibrate::Table`] |
//!
//! [`standardise`] and `folds` prepare samples, `metrics` evaluates, `store` reads and writes
//! files.
//!
//! # Reproducibility
//!
//! Training sums in a fixed order (networks) or in integers (trees), for any vector width and
//! number of threads, and computes exponentials and logarithms itself, not by system libraries. So
//! a seed gives the same model everywhere; a test checks fingerprints. Inference has variants for
//! AVX2 and AVX-512, selected at run time ([`Simd`]); tests check that all agree.
//!
//! # Features
//!
//! Without features: inference only, on borrowed arrays; no `std`, no allocator, no dependency.
//! `alloc` adds owned models, `std` detects the processor's instructions, `train` fits and
//! evaluates models, `files` reads and writes them.
//!
//! # Example
//!
//! ```
//! # #[cfg(feature = "train")] {
//! use std::ops::ControlFlow;
//! use trimtab_learn::dense::{self, Activation, Network, Initialisation, TrainingOptions};
//! use trimtab_learn::integer::LinnOs;
//! use trimtab_learn::Rows;
//!
//! // A request is slow if its first digit is large.
//! let digits: Vec<[u8; 31]> = (0..1000).map(|i| [(i * 7 % 10) as u8; 31]).collect();
//! let classes: Vec<u8> = digits.iter().map(|d| u8::from(d[0] > 6)).collect();
//!
//! let layers = [(256, Activation::Relu), (2, Activation::Softmax)];
//! let mut network = Network::random(31, &layers, Initialisation::Glorot, 1)?;
//! let training = TrainingOptions { epochs: 10, ..TrainingOptions::default() };
//! let rows = Rows::new(digits.as_flattened(), 31)?;
//! dense::train(&mut network, rows, &classes, &training, |now| {
//!     // A progress bar would go here.
//!     if now.loss < 0.01 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
//! })?;
//!
//! let network = LinnOs::quantise(&network)?;
//! assert!(network.is_slow(&[9; 31]));
//! assert!(!network.is_slow(&[0; 31]));
//! # }
//! # Ok::<(), trimtab_learn::Error>(())
//! ```
#![no_std]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[cfg(feature = "train")]
pub mod boost;
#[cfg(feature = "alloc")]
pub mod calibrate;
pub mod dense;
mod error;
#[cfg(feature = "train")]
pub mod folds;
pub mod forest;
mod functions;
pub mod integer;
#[cfg(feature = "train")]
pub mod lightgbm;
#[cfg(feature = "train")]
pub mod metrics;
#[cfg(feature = "train")]
mod parallel;
#[cfg(feature = "train")]
mod random;
mod rows;
mod simd;
#[cfg(feature = "alloc")]
pub mod standardise;
#[cfg(feature = "files")]
pub mod store;
#[cfg(feature = "alloc")]
pub mod tree;

pub use error::Error;
pub use rows::Rows;
pub use simd::Simd;
