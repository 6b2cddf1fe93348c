//! The experiment: strategies compared on the same requests and from the same drives.
//!
//! It is the experiment of LinnOS (Hao et al., OSDI'20, §5.1 and §5.3) from end to end. For
//! each seed the drives are aged. In phase one each drive serves its own workload alone and
//! is recorded. From the recordings a [`Trainer`] finds the latency from which on reads are
//! slow, and trains the predictors. In phase two a later part of the same workloads is
//! served under each strategy, each time from the drives as phase one has left them.
//!
//! ```text
//!   scenario ─> drives, aged ─> phase one ─> recordings ─> Trainer ─> predictors
//!                                   │                                     │
//!                                   └─ drives as they are then ─┐         │
//!   scenario ─> later requests ─────────────────────────────────┴─> phase two: each
//!                                                                   strategy ─> report
//! ```
//!
//! A scenario may let the workload change after phase one. Then the drives are recorded again,
//! and some rows use predictors trained on that: the gain of retraining.
//!
//! [`compare`] simulates the drives, and records and trains on the given number of threads;
//! the result is the same for any number. [`compare_on`] runs the same experiment on a
//! [`Testbed`]. With the feature `live`, the module `live` has two, and [`Agreement`] measures
//! how well a simulation predicted them. Without the feature neither FUSE nor BPF is compiled.
//!
//! # Decisions that are not obvious
//!
//! - **All rows have the same requests.** A workload is drawn from the seed before anything is
//!   served, and each read's failover order depends only on the seed and its number.
//! - **A trainer sees phase one only.** Phase two is in its future, and no request of either
//!   is left out.
//! - **Decisions are charged, not timed, in simulation**, so figures are the same on every
//!   machine. On a testbed a decision takes its actual time.
//! - **A doubtful row is served again after all others.** Disturbances that delay requests
//!   (other guests of its host, say) last for minutes. The run that was least late counts.
//!
//! # Example
//!
//! ```
//! use trimtab_compare::{BuiltinTrainer, Comparison, compare};
//!
//! let text = "
//!     seeds = [1]
//!     strategies = ['base', 'hedge', 'c3']
//!     phase_one = { reads = 3_000 }
//!     phase_two = { reads = 3_000 }
//!     [workload]
//!     read_share = 0.5
//!     sizes = [{ bytes = 16384, weight = 1 }]
//!     offsets = { kind = 'uniform' }
//!     arrivals = { kind = 'bursty', on_iops = 3000, off_iops = 300, on_ms = 100, off_ms = 300 }
//!     [[device]]
//!     profile = 'reference'
//!     override.geometry = { channels = 2, chips_per_channel = 2, blocks_per_plane = 64, pages_per_block = 64 }
//!     fill = { share = 1.0, kind = 'aged' }
//!     [[device]]
//!     profile = 'reference'
//!     override.geometry = { channels = 2, chips_per_channel = 2, blocks_per_plane = 64, pages_per_block = 64 }
//!     fill = { share = 1.0, kind = 'aged' }";
//! let comparison = Comparison::parse(text, ".".as_ref())?;
//! let report = compare(&comparison, &BuiltinTrainer, 2, &|_| {})?;
//! let mean = |row: usize| report.strategies[row].median.get("mean_ns").unwrap();
//! assert!(mean(2) < mean(0), "C3 is faster than reading the primary replica only");
//! # Ok::<(), trimtab_compare::Error>(())
//! ```

mod agreement;
pub mod arrays;
mod error;
mod figures;
#[cfg(feature = "live")]
pub mod live;
mod phase;
mod prepare;
mod queue_models;
pub mod random;
mod recording;
mod settings;
mod simulated;
mod spec;
mod testbed;
mod trainer;

pub use agreement::{Agreement, PathShare, Percentile, RowAgreement};
pub use error::{Error, SeedsError, TestbedError, TrainError};
pub use figures::{
    DriveFacts, Figures, GroupFigures, Inflection, MEASURES, Measure, Report, SeedFigures,
    StrategyReport, median,
};
pub use simulated::{Progress, compare};
pub use spec::{Comparison, Entry};
pub use testbed::{Row, Served, Testbed, WantedDrive, compare_on};
pub use trainer::{BuiltinTrainer, SlowThreshold, TrainedPredictor, Trainer, TrainingInputs};
pub use trimtab_steer::StrategyKind;
