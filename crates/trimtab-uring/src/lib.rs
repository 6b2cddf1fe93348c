//! Strategies over files and block devices, on the wall clock, with io_uring.
//!
//! This is the live back end of [`trimtab_steer::driver`]: the same strategies and the same
//! requests as in simulation, but real devices, and a decision takes the time it takes. One
//! thread does everything: it hands requests out at their times, takes completions, and
//! reports both to the strategy.
//!
//! [`ReadBackend`] is the same for a thread of a program that hands reads to the driver one at a
//! time and uses their data (`trimtab-replicas`).
//!
//! [`DataRing`] is a ring for servers: requests with data of their own to any files.
//!
//! A request that is handed out late counts as late: latencies count from the time at which
//! it was due, so a generator that falls behind cannot hide it. (G. Tene calls the opposite
//! "coordinated omission".) [`UringRun::lateness`] says by how much it fell behind.
//!
//! # Decisions that are not obvious
//!
//! - **Data is not looked at.** All reads share one buffer, and all writes write zeroes from
//!   another one, so the memory does not grow with the queue depth.
//! - **Each request is submitted at once.** A request that waits in the submission ring
//!   is not in flight on any drive, while its latency counts.
//! - **The last 25 µs of a wait are spun.** The kernel wakes a sleeping thread some
//!   microseconds late, which is a large share of a flash read. A [`ReadBackend`] polls while its
//!   waits are no longer than that in the mean, and sleeps without a timer of its own (`alarms.rs`).
//!
//! # Example
//!
//! ```
//! use std::fs::File;
//! use std::ops::ControlFlow;
//! use trimtab_io::{Nanos, Op};
//! use trimtab_steer::driver::ArrayIo;
//! use trimtab_steer::{Replica, strategies};
//! use trimtab_uring::{Disk, UringOptions};
//!
//! let path = std::env::temp_dir().join(format!("uring-example-{}", std::process::id()));
//! File::create(&path)?.set_len(1 << 20)?;
//! let disks = [0, 1].map(|_| Disk {
//!     path: path.clone(),
//!     file: File::open(&path).unwrap(),
//!     depth: 8,
//! });
//! let read = ArrayIo::new(Nanos::from_micros(100), Op::Read, 4096, 4096, Replica(1));
//! let strategy = Box::new(strategies::Clone);
//! let go_on = &mut |_| ControlFlow::Continue(());
//! match trimtab_uring::run(&disks, strategy, &[read], &UringOptions::default(), go_on) {
//!     Ok(run) => assert_eq!((run.figures.reads.count(), run.figures.counts.sent), (1, 2)),
//!     // The kernel may have io_uring disabled.
//!     Err(error) => assert!(matches!(error, trimtab_uring::Error::Ring(_))),
//! }
//! # std::fs::remove_file(path)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod alarms;
mod backend;
mod data;
mod queue;
mod reads;
mod ring;

use std::fs::File;
use std::ops::ControlFlow;
use std::path::PathBuf;

use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_steer::Strategy;
use trimtab_steer::driver::{self, ArrayFigures, ArrayIo, DriverRun, LogEntry, RunOptions};

use backend::UringBackend;

pub use data::{DataRing, Finished, Io, Watched};
pub use reads::{Data, ReadBackend, ReadFile};
pub use ring::check;

/// A device or file that is read from and written to.
#[derive(Debug)]
pub struct Disk {
    /// Its path, for messages.
    pub path: PathBuf,
    /// Open for direct I/O; for writing as well, if there will be writes.
    pub file: File,
    /// Requests that it has at a time, at most; the others wait in the host queue before
    /// it. At least 1.
    pub depth: u32,
}

/// How a workload is run.
#[derive(Clone, Debug, Default)]
pub struct UringOptions {
    /// As for every back end.
    pub run: RunOptions,
    /// One in this many refused reads is sent nevertheless, as a forced sample, to learn
    /// whether it would have been fast; 0: none.
    pub sample_every: u32,
}

/// The result of a run.
#[derive(Debug)]
pub struct UringRun {
    /// The figures.
    pub figures: ArrayFigures,
    /// How late requests were handed out.
    pub lateness: LatencyHistogram,
    /// The requests to each drive, in order; times are from the start of the run. Empty unless
    /// [`RunOptions::log`] is set.
    pub log: Vec<Vec<LogEntry>>,
    /// How long the run took.
    pub took: Nanos,
}

/// Serves requests, which come in order of time, under a strategy. `progress` is called
/// several times a second with the time since the run began, and may end the run.
///
/// # Errors
/// The kernel has no io_uring or no memory for this, or `progress` ended the run. A request
/// that a disk does not serve is counted instead ([`ArrayFigures::errors`], if no other disk
/// has the data).
///
/// # Panics
/// There are no disks, or more than [`trimtab_steer::MOST_REPLICAS`].
pub fn run(
    disks: &[Disk],
    strategy: Box<dyn Strategy>,
    requests: &[ArrayIo],
    options: &UringOptions,
    progress: &mut dyn FnMut(Nanos) -> ControlFlow<()>,
) -> Result<UringRun, Error> {
    let largest = requests.iter().max_by_key(|io| io.length);
    let mut backend = UringBackend::new(disks, largest, options.sample_every, progress)?;
    let run = driver::run(&mut backend, strategy, requests, &options.run)?;
    let DriverRun { figures, log } = run;
    let (lateness, took) = backend.finish();
    Ok(UringRun { figures, lateness, log, took })
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel does not give this process an io_uring.
    #[error(
        "io_uring cannot be set up: {0} (is it disabled in /proc/sys/kernel/io_uring_disabled?)"
    )]
    Ring(#[source] std::io::Error),
    /// No memory for the data.
    #[error("no memory for {bytes} bytes of data: {source}")]
    Memory {
        /// Bytes wanted.
        bytes: u64,
        /// The allocator's error.
        source: std::io::Error,
    },
    /// A request that no device takes.
    #[error("a request at {offset} of {length} bytes is beyond what one request can be")]
    TooLarge {
        /// Its offset, bytes.
        offset: u64,
        /// Its length, bytes.
        length: u64,
    },
    /// Waiting for completions failed.
    #[error("waiting for answers: {0}")]
    Wait(#[source] std::io::Error),
    /// The caller ended the run.
    #[error("ended before it was complete")]
    Ended,
}
