//! Drives that hold the same data, and a strategy that says which of them is asked:
//! on the wall clock, with io_uring.
//!
//! This is the live counterpart of `trimtab_sim::array`: the same strategies, the
//! same requests, but real devices (or files), and deciding takes the time it takes.
//! One thread does everything: it hands requests out when their time has come,
//! takes answers, and tells the strategy of both.
//!
//! A request that is handed out late is counted late: latencies are from when it
//! should have come, so a generator that falls behind cannot hide what it caused
//! ([`LiveRun::lateness`] says by how much it did).

mod ring;
mod run;

use std::fs::File;
use std::path::PathBuf;

use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_steer::array::ArrayFigures;
use trimtab_trace::Record;

pub use ring::check;
pub use run::run;

/// A device or file that is read from and written to.
#[derive(Debug)]
pub struct Disk {
    /// Where it is, for messages.
    pub path: PathBuf,
    /// Open for direct I/O; for writing as well, if there will be writes.
    pub file: File,
    /// Requests that it has at a time, at most; the others wait before it, first
    /// come, first served. At least 1.
    pub depth: u32,
}

/// How a run is made.
#[derive(Clone, Debug, Default)]
pub struct LiveOptions {
    /// Decides the order in which each read fails over, as in simulation.
    pub seed: u64,
    /// From which time on a drive was slow, by drive, to judge the decisions of
    /// strategies that predict.
    pub thresholds: Option<Vec<Nanos>>,
    /// Of so many refused reads one is sent all the same, to see whether it would
    /// have been fast; 0: none.
    pub trial_every: u32,
    /// Whether all that is sent to the drives is recorded.
    pub record: bool,
}

/// What a run leaves behind.
#[derive(Debug)]
pub struct LiveRun {
    /// What came of it.
    pub figures: ArrayFigures,
    /// How late requests were handed out.
    pub lateness: LatencyHistogram,
    /// What each drive was sent, and when it answered, in the order in which it
    /// was sent; times are from the run's beginning. If that was asked for.
    pub records: Vec<Vec<Record>>,
    /// How long it took.
    pub took: Nanos,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no io_uring for us.
    #[error(
        "io_uring cannot be set up: {0} (is it disabled in /proc/sys/kernel/io_uring_disabled?)"
    )]
    Ring(#[source] std::io::Error),
    /// No memory for the data.
    #[error("no memory for {bytes} bytes of data: {source}")]
    Memory {
        /// Bytes wanted.
        bytes: usize,
        /// What the kernel says.
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
    /// Waiting for answers failed.
    #[error("waiting for answers: {0}")]
    Wait(#[source] std::io::Error),
    /// The caller wanted no more.
    #[error("ended before it was complete")]
    Ended,
}
