//! What drives do, and how right their models are about it, while they do it.
//!
//! ```text
//!   record ─> Records, in order of arrival ─> DriveFigures ─┬─ totals, latencies
//!                                              (each drive)  ├─ OnlineEvaluator: predicted, and late?
//!                                                            └─ latest latencies, for a drift check
//! ```
//!
//! The recorder sees every request of the machine; its records feed [`DriveFigures`], a plain state machine without a clock. A request shows
//! when it has completed and no older one is in flight on any of the drives: while one
//! is stalled, figures wait for it, and only what is in flight is of this moment.
//!
//! ```no_run
//! use trimtab_block::BlockDevice;
//! use trimtab_record::monitor::Monitor;
//!
//! # fn main() -> Result<(), trimtab_record::Error> {
//! let mut monitor = Monitor::load(&[BlockDevice::find("nvme0n1")?], 10)?;
//! for _ in 0..25 {
//!     std::thread::sleep(trimtab_record::monitor::POLL);
//!     monitor.poll()?;
//! }
//! let reads = monitor.drive(0).recent(monitor.now()).summary();
//! # Ok(())
//! # }
//! ```

mod background;
mod buckets;
mod figures;

pub use background::Background;
pub use buckets::{BOUNDS, LatencyBuckets};
pub use figures::{Depth, DriveFigures, OpTotal, Totals};

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_trace::Record;

use crate::{Error, Losses, Recorder, RecorderOptions, Recording};

/// How often to [poll](Monitor::poll): the recorder's ring holds a hundred times what
/// comes in meanwhile.
pub const POLL: Duration = Duration::from_millis(40);

/// The time of day, since the Unix epoch.
#[must_use]
pub fn unix_now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(since.as_nanos() as u64)
}

/// Watches some drives as long as it lives.
pub struct Monitor {
    recording: Recording,
    devices: Vec<BlockDevice>,
    drives: Vec<DriveFigures>,
    batch: Vec<Record>,
}

impl Monitor {
    /// Loads and attaches the recorder's programs, and begins. Latencies are kept for
    /// so many seconds.
    ///
    /// # Errors
    /// The kernel lacks something, or the process may not do it.
    pub fn load(devices: &[BlockDevice], seconds: u32) -> Result<Self, Error> {
        // A poll every 40 ms leaves a quarter of the usual ring mostly empty.
        let ring_bytes = 4 << 20;
        // It has no end at which what was not seen to complete would come to light.
        let options = RecorderOptions { ring_bytes, pass_unseen: true, ..Default::default() };
        Ok(Self {
            recording: Recorder::load(devices, &options)?.start(),
            devices: devices.to_vec(),
            drives: devices.iter().map(|_| DriveFigures::new(seconds)).collect(),
            batch: Vec::new(),
        })
    }

    /// Takes in what has happened since the last call.
    ///
    /// # Errors
    /// The disk cannot be used for sorting (which is done while a drive is stalled).
    pub fn poll(&mut self) -> Result<(), Error> {
        self.recording.poll(&mut self.batch)?;
        for record in self.batch.drain(..) {
            self.drives[record.device.0 as usize].take(&record);
        }
        for (drive, device) in self.drives.iter_mut().zip(&self.devices) {
            drive.settle(self.recording.watermark());
            // A drive that is pulled out has nothing in flight.
            drive.saw_in_flight(device.in_flight().unwrap_or_default());
        }
        Ok(())
    }

    /// The drives watched.
    #[must_use]
    pub fn devices(&self) -> &[BlockDevice] {
        &self.devices
    }

    /// The figures of a drive, by its place among those that it was loaded for.
    ///
    /// # Panics
    /// If there is no such drive.
    #[must_use]
    pub fn drive(&self, index: usize) -> &DriveFigures {
        &self.drives[index]
    }

    /// The same, to give it a model.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn drive_mut(&mut self, index: usize) -> &mut DriveFigures {
        &mut self.drives[index]
    }

    /// The time now on the clock of the figures, which counts from the beginning.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.recording.now()
    }

    /// When it began, since the Unix epoch: what the figures' clock counts from.
    #[must_use]
    pub fn started_unix(&self) -> Nanos {
        self.recording.started_unix()
    }

    /// What the recorder has lost, of all drives together.
    #[must_use]
    pub fn losses(&self) -> Losses {
        self.recording.losses()
    }
}
