//! Arrays of simulated drives under a strategy: the back end of
//! [`trimtab_steer::driver`] in virtual time.
//!
//! A strategy relates the drives, so one loop serves all of them. The back end advances to the
//! earliest event of any drive, or to the time of the driver's next action. A simulated drive
//! can be copied, so the reads that a strategy has refused are scored exactly: a copy of the
//! drive serves a sample of them.

mod backend;
mod drive;
mod faulty;
mod sampler;

pub use drive::ArrayDrive;
pub use trimtab_steer::driver::{ArrayFigures, ArrayIo, LogEntry, RunOptions};

use trimtab_device::Ssd;
use trimtab_steer::Strategy;
use trimtab_steer::driver::{self, DriverRun};

use crate::error::Error;
use crate::server::Server;
pub(crate) use backend::Simulated;
pub(crate) use sampler::Sampler;

/// How a workload is run on an array.
#[derive(Clone, Debug, Default)]
pub struct ArrayOptions {
    /// As for every back end.
    pub run: RunOptions,
    /// The most refused reads that are served by a copy of the drive, spread evenly over the
    /// run. None without [`RunOptions::thresholds`].
    pub refusal_samples: usize,
}

/// The result of a run.
#[derive(Debug)]
pub struct ArrayRun<S = Ssd> {
    /// The figures.
    pub figures: ArrayFigures,
    /// The drives afterwards, with all requests complete.
    pub drives: Vec<ArrayDrive<S>>,
    /// The requests to each drive, in order; empty unless [`RunOptions::log`] is set.
    pub log: Vec<Vec<LogEntry>>,
}

/// Serves requests, which come in order of time, under a strategy.
///
/// # Errors
/// A drive does not take a request, or makes no progress.
///
/// # Panics
/// There are no drives, or more than [`trimtab_steer::MOST_DRIVES`].
pub fn run<S: Server + Clone>(
    drives: Vec<ArrayDrive<S>>,
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &ArrayOptions,
) -> Result<ArrayRun<S>, Error> {
    let sampler = Sampler::new(options.refusal_samples, requests.len());
    let mut backend = Simulated::new(drives, options.run.thresholds.as_deref(), sampler);
    let run = driver::run(&mut backend, strategy, requests, &options.run)?;
    let DriverRun { mut figures, log } = run;
    backend.add_samples(&mut figures.score);
    Ok(ArrayRun { figures, drives: backend.drives, log })
}
