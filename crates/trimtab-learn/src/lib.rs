//! Small models: trained in seconds, deciding in nanoseconds, the same everywhere.
//!
//! A predictor of storage latency decides before each I/O, so it has some hundred
//! nanoseconds; it decides in a kernel too, where there is no floating point; and
//! what was evaluated must be what is deployed, to the bit. Hence a library of its
//! own. Each kind of model exists twice: as it is trained, in real numbers, and as
//! it decides, in integers whose sums cannot overflow.
//!
//! | | trained | decides |
//! | --- | --- | --- |
//! | networks | [`dense`] | [`integer`]: two layers, for 31 digits as in LinnOS |
//! | trees | `boost`, or imported by `lightgbm`; kept as [`tree::Forest`] | [`forest::IntegerForest`] |
//! | probabilities | `calibrate::Platt`, `calibrate::isotonic` | [`calibrate::Table`] |
//!
//! [`standardise`] and `folds` prepare samples, `metrics` judges, `store` keeps
//! models in files.
//!
//! # Nothing depends on the machine
//!
//! Training adds up in a fixed order (networks) or in integers (trees), whatever
//! the vector width and the number of threads, and takes exponentials and
//! logarithms from code, not from the system. So a seed gives the same model
//! everywhere; a test has the fingerprints. Deciding has variants for AVX2 and
//! AVX-512, chosen when it runs ([`Simd`]); tests hold all of them together.
//!
//! # Features
//!
//! Without features: deciding only, on borrowed arrays; no `std`, no allocator, no
//! dependency. `alloc` has models that own their numbers, `std` asks the processor
//! what it can, `train` fits and measures models, `files` reads and writes them.
//!
//! # Example
//!
//! ```
//! # #[cfg(feature = "train")] {
//! use std::ops::ControlFlow;
//! use trimtab_learn::dense::{self, Activation, Network, Start, Training};
//! use trimtab_learn::integer::LinnOs;
//! use trimtab_learn::Rows;
//!
//! // Slow is what has a large first digit.
//! let digits: Vec<[u8; 31]> = (0..1000).map(|i| [(i * 7 % 10) as u8; 31]).collect();
//! let classes: Vec<u8> = digits.iter().map(|d| u8::from(d[0] > 6)).collect();
//!
//! let layers = [(256, Activation::Relu), (2, Activation::Softmax)];
//! let mut network = Network::random(31, &layers, Start::Glorot, 1)?;
//! let training = Training { epochs: 10, ..Training::default() };
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
