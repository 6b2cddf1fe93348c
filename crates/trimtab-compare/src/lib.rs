//! Strategies compared on the same requests and from the same drives.
//!
//! This is the experiment of LinnOS (Hao et al., OSDI'20, §5.1 and §5.3) from one
//! end to the other. For each seed the drives are aged; phase one has each serve
//! its own workload alone, and is recorded; from the recordings a [`Trainer`]
//! finds where slow begins and trains the predictors; phase two serves a later
//! part of the same workloads under each strategy, each time from the drives as
//! phase one has left them.
//!
//! ```text
//!   scenario ─> drives, aged ─> phase one ─> recordings ─> Trainer ─> predictors
//!                                   │                                     │
//!                                   └─ drives as they are then ─┐         │
//!   scenario ─> later requests ─────────────────────────────────┴─> phase two: each
//!                                                                   strategy ─> report
//! ```
//!
//! A scenario may have the workload change after phase one. Then it is recorded
//! again, and some rows go by what they learnt from that: what training again brings.
//!
//! The drives need not be simulated: [`compare_on`] does the same on a [`Rig`].
//!
//! Whatever can be done at once (drives, predictors, strategies) is done on as
//! many threads as are given; the result is the same for any number.

mod engine;
mod figures;
mod phase;
mod prepare;
mod rig;
mod spec;
mod trainer;

pub use engine::{Progress, compare};
pub use figures::{
    DriveFacts, Figures, Inflection, MEASURES, Measure, Report, SeedFigures, StrategyReport, median,
};
pub use rig::{Rig, Row, Served, Wanted, compare_on};
pub use spec::{Comparison, Entry};
pub use trainer::{SlowFrom, Trained, Trainer};
