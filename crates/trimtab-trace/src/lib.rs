//! Block I/O traces in and out.
//!
//! Everything trimtab learns, simulates or reports starts from a trace: one
//! [`Record`] per request, in order of arrival, each with the times that were
//! measured. This crate reads the formats in which such traces are published
//! or recorded ([`Format`]), streaming and in constant memory, and recognises
//! them by content.
//!
//! ```text
//!   file ─ decompress ─ format's parser ─ sort by arrival ─ Trace::read ─┬─ Stats
//!                                                                        ├─ Series (plots)
//!                                                                        ├─ cut, re-rate
//!                                                                        └─ Writer
//! ```
//!
//! A trace that is larger than memory passes through all of this in batches of
//! a few thousand records.

mod edit;
mod encoding;
mod error;
mod fields;
mod format;
mod input;
mod names;
mod packed;
mod reader;
mod record;
pub mod recording_spool;
mod series;
mod sort;
mod source;
mod spool;
pub mod stats;
pub mod synth;
mod write;

pub use edit::{Busiest, Cut, Rerate};
pub use error::{Error, Position};
pub use format::Format;
pub use input::can_be_read_twice;
pub use names::{CommandId, Names};
pub use reader::{Clock, Meta, Options, Sorting, Trace, with_trace};
pub use record::Record;
pub use series::{
    DepthOverTime, HeatMap, LatencyOverTime, OpPlots, Plots, SIZE_CLASSES, Series, SizeClass,
    SlowOverTime, TimeBins,
};
pub use sort::SpillSort;
pub use stats::Stats;
pub use synth::Synth;
pub use write::{
    AtomicFile, LeftOut, OutputFormat, Prediction, PredictionSource, PredictionWriter, Writer,
};
