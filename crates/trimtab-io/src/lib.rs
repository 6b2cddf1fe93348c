//! The vocabulary of trimtab: one [`Request`], one [`Completion`], one [`Nanos`].
//!
//! Sizes and offsets are bytes and times are nanoseconds inside trimtab. Sectors, milliseconds and
//! text exist only where data enters or leaves. Nothing here allocates on a request's path, and
//! this crate depends on no other crate of the project. One function reads a clock, [`monotonic`],
//! and only live code calls it.
//!
//! Input is bounded in one place each: whole files by [`WholeFile`], numbers by [`within`].
//! (trimtab-trace bounds streams.)
//!
//! Times of a request:
//!
//! ```text
//!   arrival          issue                    complete
//!      │── queued ─────│── served by the drive ───│
//!      │────────────── response time ─────────────│
//! ```
//!
//! # Example
//!
//! ```
//! use trimtab_io::{LatencyHistogram, Nanos};
//!
//! let mut latencies = LatencyHistogram::new();
//! for us in 1..=1000 {
//!     latencies.record(Nanos::from_micros(us));
//! }
//! let summary = latencies.summary();
//! assert_eq!(summary.count, 1000);
//! // p99 needs at least 10 / (1 - 0.99) = 1000 samples; p99.9 needs 10,000.
//! assert!(summary.percentile("p99").is_some());
//! assert!(summary.percentile("p99.9").is_none());
//! ```

mod clock;
mod completion;
mod flash;
mod histogram;
mod host_event;
mod issuer;
mod mix;
mod range;
mod recent;
mod request;
mod run_directory;
mod summary;
mod time;
mod whole;

pub use clock::monotonic;
pub use completion::{Completion, Outcome};
pub use flash::{CleaningWork, FlashChange, FlashEvent, FlashMap, FlashOp};
pub use histogram::LatencyHistogram;
pub use host_event::{CacheEvent, HostEvent};
pub use issuer::{IoClass, Issuer};
pub use mix::{SplitMix64, derived_seed, mix64};
pub use range::{OutOfRange, within};
pub use recent::RecentLatencies;
pub use request::{DeviceId, Flags, Op, Request, RequestId};
pub use run_directory::{RUN_VARIABLE, run_directory};
pub use summary::{P75, PERCENTILES, Percentile, PercentileKind, Summary};
pub use time::Nanos;
pub use whole::WholeFile;
