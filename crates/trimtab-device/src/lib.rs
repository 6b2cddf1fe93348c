//! How drives behave: models that are plain state machines.
//!
//! A drive takes requests with a time, and gives answers with a time. It reads
//! no clock, starts no thread and draws random numbers from a seed that it is
//! given, so the same code runs in virtual time and, one day, behind a real
//! block device.
//!
//! [`Ssd`] is a flash drive with its firmware; [`Profile`] describes one;
//! [`Firmware`] is the seam at which its decisions can be replaced.

mod agenda;
mod blocks;
mod error;
mod firmware;
mod layout;
mod map;
mod memory;
mod permutation;
mod profile;
mod slab;
mod ssd;
mod study;

pub use error::{Error, Inconsistent};
pub use firmware::{Answer, Candidate, Candidates, Contention, Firmware, Ideal, Standard};
pub use profile::{
    Buffer, Copying, Dimension, Ftl, Gc, Geometry, Noise, Profile, Schedule, Scope, Timing, Victim,
    WatermarksOf, Wear,
};
pub use ssd::{Aged, FillWatch, Interval, Served, Spot, Ssd};
pub use study::{Explained, Study};
