//! Block I/O traces: reading, writing, statistics, editing and synthesis.
//!
//! A trace is a sequence of [`Record`]s, one per request, in arrival order, with the measured
//! times. This crate reads the formats in which traces are published or recorded ([`Format`]), as
//! streams in constant memory, and detects them by content.
//!
//! ```text
//!   file ─ decompress ─ format's parser ─ sort by arrival ─ Trace::read ─┬─ Stats
//!                                                                        ├─ Series (plots)
//!                                                                        ├─ cut, re-rate
//!                                                                        └─ Writer
//! ```
//!
//! Design:
//! - **A row is a request that the drive was sent.** Merged bios are one row. A flush command is a
//!   row; the requests that merely wait for it are counted by the recorder (`empty_flushes`), so
//!   that a recording can be compared exactly with the kernel's statistics, which count them as
//!   writes of no bytes.
//! - **Detection is parsing.** A text format is detected by running its parser on the first lines.
//!   If several formats fit, the user has to choose: a guess could misread sectors as bytes.
//! - **Sorting is a window, then the disk.** Formats written at completion are sorted within a
//!   window of 65,536 records. If the disorder is wider, [`with_trace`] runs the work again with an
//!   external sort; only such traces pay for the disk.
//! - **Times keep the clock of their source** ([`Clock`]): nanoseconds since the Unix epoch where a
//!   format has that, otherwise from the trace's own origin. Converting back gives the same file
//!   (fio's logs begin at their first request).
//! - **Files appear whole or not at all** ([`AtomicFile`]): they have no name until they are
//!   complete, so even SIGKILL leaves nothing behind.
//! - **A recording survives a crash** in a spool beside its output ([`recording_spool`]).
//! - **Memory is bounded.** A trace of any length passes in batches of a few thousand records;
//!   streams that must be kept have a limit (spool.rs).
//!
//! ```
//! use trimtab_trace::{TraceOptions, Stats, Trace};
//!
//! let csv = b"128166372003061629,usr,0,Read,7014609920,24576,41286\n\
//!             128166372016382155,usr,0,Write,1317441536,8192,1963\n";
//! let mut trace = Trace::from_bytes(csv, &TraceOptions::default())?;
//! assert_eq!(trace.meta().format.name(), "msr");
//! let (mut stats, mut batch) = (Stats::new(), Vec::new());
//! while trace.read(&mut batch)? {
//!     batch.iter().for_each(|record| stats.add(record));
//! }
//! assert_eq!(stats.finish(trace.names(), trace.meta()).bytes, 32_768);
//! # Ok::<(), trimtab_trace::Error>(())
//! ```

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

pub use edit::{BusiestWindow, Cut, Rerate};
pub use error::{Error, Position};
pub use format::Format;
pub use input::can_be_read_twice;
pub use names::{CommandId, Names};
pub use reader::{Clock, Meta, Sorting, Trace, TraceOptions, with_trace};
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
