//! The vocabulary that every crate of trimtab shares: one [`Request`], one
//! [`Completion`], one [`Nanos`], and one mixing function ([`mix64`]).
//!
//! Inside trimtab sizes and offsets are bytes and times are nanoseconds.
//! Sectors, milliseconds and text exist only where data enters or leaves.
//! Nothing here reads a clock, allocates on the way of a request, or calls
//! any other crate of the project.
//!
//! A request's life, in the terms used throughout:
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

mod completion;
mod histogram;
mod mix;
mod range;
mod recent;
mod request;
mod summary;
mod time;
mod whole;

pub use completion::{Completion, Outcome};
pub use histogram::LatencyHistogram;
pub use mix::{SplitMix64, derived_seed, mix64};
pub use range::{OutOfRange, within};
pub use recent::RecentLatencies;
pub use request::{DeviceId, Flags, Op, Request, RequestId};
pub use summary::{P75, PERCENTILES, Percentile, PercentileKind, Summary};
pub use time::Nanos;
pub use whole::WholeFile;
