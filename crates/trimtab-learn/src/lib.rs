//! Small models: trained in seconds, deciding in nanoseconds.
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
