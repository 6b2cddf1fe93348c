//! Live figures of drives, and scores of their models.
//!
//! ```text
//!   record ─> Records, in order of arrival ─> DriveFigures ─┬─ totals, latencies
//!                                              (each drive)  ├─ OnlineEvaluator: predicted, and late?
//!                                                            └─ latest latencies, for a drift check
//! ```
//!
//! The recorder sees every request of the machine; its records feed [`DriveFigures`], a state
//! machine without a clock. Records are released in order of arrival, so a request counts once
//! it has completed and no older one is in flight on any drive. While a drive is stalled, all
//! latency figures lag; queue depth is always current.
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

/// How often to [poll](Monitor::poll): the recorder's ring holds a hundred times what arrives
/// in this time.
pub const POLL: Duration = Duration::from_millis(40);

/// The time of day, since the Unix epoch.
#[must_use]
pub fn unix_now() -> Nanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Nanos(since.as_nanos() as u64)
}

/// Monitors some drives until it is dropped.
pub struct Monitor {
    recording: Recording,
    devices: Vec<BlockDevice>,
    drives: Vec<DriveFigures>,
    batch: Vec<Record>,
}

impl Monitor {
    /// Loads and attaches the recorder's programs, and starts. Latencies cover the last
    /// `seconds` seconds.
    ///
    /// # Errors
    /// The kernel lacks something, or the process may not do it.
    pub fn load(devices: &[BlockDevice], seconds: u32) -> Result<Self, Error> {
        // Polled every 40 ms, a quarter of the default ring stays mostly empty.
        let ring_bytes = 4 << 20;
        // A monitor has no end, at which requests without a completion would be detected.
        let options = RecorderOptions { ring_bytes, pass_unseen: true, ..Default::default() };
        Ok(Self {
            recording: Recorder::load(devices, &options)?.start(),
            devices: devices.to_vec(),
            drives: devices.iter().map(|_| DriveFigures::new(seconds)).collect(),
            batch: Vec::new(),
        })
    }

    /// Processes the requests that completed since the last call.
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
            // A drive that was removed has nothing in flight.
            drive.saw_in_flight(device.in_flight().unwrap_or_default());
        }
        Ok(())
    }

    /// The monitored drives.
    #[must_use]
    pub fn devices(&self) -> &[BlockDevice] {
        &self.devices
    }

    /// The figures of a drive, by its index in `devices`.
    ///
    /// # Panics
    /// If there is no such drive.
    #[must_use]
    pub fn drive(&self, index: usize) -> &DriveFigures {
        &self.drives[index]
    }

    /// The same, mutable, to set its model.
    ///
    /// # Panics
    /// If there is no such drive.
    pub fn drive_mut(&mut self, index: usize) -> &mut DriveFigures {
        &mut self.drives[index]
    }

    /// The current time on the figures' clock, which starts at 0.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.recording.now()
    }

    /// The start time, since the Unix epoch: the origin of the figures' clock.
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
