//! Predictors that know the queue: MittOS.
//!
//! The learned predictors see a drive from outside. These have a model of what is contended, and
//! compute how long a read will wait (*MittOS*, in Hao's dissertation *Fast and Stable Storage*,
//! chapter 4; sections below are of it):
//!
//! | predictor | of | state | cost of a decision |
//! | --- | --- | --- | --- |
//! | [`MittNoop`] | a disk behind a FIFO dispatch queue (§4.2.1) | next free time; in SSTF order also the device queue | O(1); SSTF: the device queue's depth |
//! | [`MittCfq`] | a disk behind CFQ (§4.2.2) | predicted time of each process with pending requests | O(processes) |
//! | [`MittSsd`] | flash that the host manages (§4.2.3) | next free time of each die and channel | O(pages of the read) |
//!
//! They need no training but a profile: [`DiskTimes`] or [`FlashModel`].
//!
//! # What is refused
//!
//! A read is refused if its expected latency exceeds deadline − hop ([`Limit`]): then another
//! replica, one hop away, can still be in time. The paper compares the wait; this adds the read's
//! own service, so that the latency of an admitted read meets the deadline. The deadline is the
//! request's own, or a default. A request without either, and one that is no read, is admitted.
//!
//! Each forecast says how sure it is: the probability of being late is one half at the limit, and
//! changes over twice the recent mean error of the expected latency to either side.

mod cfq;
mod device_queue;
mod disk_times;
mod flash_model;
mod flash_queues;
mod limit;
mod noop;
mod reordering;
mod slots;
mod ssd;
mod together;
mod tolerance;

pub use cfq::{CfqWeights, MittCfq};
pub use device_queue::{DiskPrecision, QueueOrder};
pub use disk_times::{DiskTimes, DiskTimesError, SeekKnot, Served, ServiceTime, Start, Zone};
pub use flash_model::{FlashModel, FlashModelError, FlashPrecision, FlashValues};
pub use limit::Limit;
pub use noop::MittNoop;
pub use ssd::MittSsd;
pub use together::Together;

#[cfg(test)]
mod tests;
