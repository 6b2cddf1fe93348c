//! Will this read be late?
//!
//! A [`Predictor`] tracks one drive from outside, as the block layer sees it: submissions and
//! completions. Before a request is sent it gives a [`Forecast`]. The same code runs on
//! recordings, in the simulator and on live drives.
//!
//! ```text
//!            ┌───────────── predict ──> Forecast: late? probability, expected latency
//!   request ─┤
//!            └─ sent ─> Ticket ··· in flight ··· completed(Ticket)
//! ```
//!
//! This crate holds what a read needs at run time: the drive's state ([`DriveState`],
//! [`DriveTracker`]), the features computed from it, the predictors, and model files
//! ([`Model`]). Whatever needs a whole recording is in `trimtab-train`: labels, parallel units,
//! training, evaluation, advice. So a program that only decides compiles no training code and
//! no random number generator.
//!
//! # The predictors
//!
//! | [`PredictorKind`] | decides by | source |
//! | --- | --- | --- |
//! | `heur-sim` | the queue's length: [`SimpleHeuristic`] | LinnOS, §5.3 |
//! | `heur-adv` | the same, and whether the drive was slow at a low queue depth: [`AdvancedHeuristic`] | LinnOS, §5.3 |
//! | `linnos` | 31 digits of queue and history, by a light network: [`Linnos`] | LinnOS, §4.3–4.5 |
//! | `trimtab` | features of the drive and of its parallel units, by forests of small trees: [`ForestPredictor`] | this project; gradient boosting is Friedman, *Greedy function approximation*, 2001 |
//! | `mitt-state` | the queue, by the counts in the tracked state, without training: [`MittState`] | MittOS, §4.2.1 |
//! | [`QueueModel`]: `mitt-noop`, `mitt-cfq`, `mitt-ssd` | the queue itself, without training: [`mitt`] | MittOS, §4.2 |
//!
//! [`MittCache`] stands above any of them: it refuses a read that was expected in memory and
//! whose pages are gone (MittOS, dissertation §4.2.4), and leaves the others to the drive's
//! predictor.
//!
//! LinnOS is Hao et al., *LinnOS: Predictability on Unpredictable Flash Storage with a Light
//! Neural Network*, OSDI'20. The first three are the baselines that the fourth is compared
//! with. docs/predictors.md has the features, the arithmetic and the format of model files.
//!
//! # Guarantees
//!
//! - **Causal.** A forecast uses completions up to the moment of the decision, and what is in
//!   flight. At one instant completions come before submissions. Property tests in
//!   `trimtab-train` alter everything that is not known at some moment, and no feature or
//!   forecast up to then may change.
//! - **Integer.** Scores are sums of integers that cannot overflow, so neither the order of
//!   summation nor the vector width matters: the same forecast on every processor. LinnOS's
//!   network decides the same in BPF.
//! - **One code path.** Training, simulation and the kernel's state (bpf/state.bpf.c, read
//!   through `trimtab-state`) share [`DriveState::features`]. [`Trained::forecast`] takes a state
//!   that is tracked elsewhere; [`Trained::predictor`] tracks its own.
//! - **Constant time.** A predictor reads no clock and, after the deepest queue has been seen,
//!   allocates nothing.
//!
//! # Decisions that are not obvious
//!
//! - **A model names its drive.** A recording notes the drive's [`Identity`] as JSON under the
//!   drive's name, and a model's card repeats it. The trace format stays as it is, cut or
//!   converted traces keep it, and no user has to say at training or reading which model
//!   belongs to which drive. Unknown properties count as fitting.
//! - **Forests are not walked.** With vector instructions all splits of all trees are evaluated
//!   at once (`trimtab_learn::forest`). A walk takes five times as long, since it waits for
//!   memory at each node.
//! - **The checksum covers the card.** A flipped bit in the card's threshold would otherwise
//!   change decisions silently, so the [`Model`]'s checksum covers both of its files.
//! - **The online evaluator does not refuse.** An [`OnlineEvaluator`] observes completions of
//!   reads that were sent, so it knows the outcome of those predicted late, too.
//!
//! # Example
//!
//! ```
//! use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
//! use trimtab_predict::{HeuristicLimits, Trained, Verdict};
//!
//! // A model is usually loaded: `Model::load("disk.safetensors".as_ref())?.trained`.
//! let limits = HeuristicLimits { slow: Nanos::from_micros(400), high: 2, median: 1, low: 0 };
//! let mut predictor = Trained::HeurSim(limits).predictor();
//!
//! let read = |i: u64| {
//!     Request::new(RequestId(i), DeviceId(0), Nanos(i), Op::Read, 4096 * i, 4096)
//! };
//! let first = predictor.sent(Nanos(0), &read(0));
//! predictor.sent(Nanos(1), &read(1));
//! assert_eq!(predictor.predict(Nanos(2), &read(2)).verdict, Verdict::Fast);
//! predictor.sent(Nanos(2), &read(2));
//! assert_eq!(predictor.predict(Nanos(3), &read(3)).verdict, Verdict::Late);
//! predictor.completed(Nanos(80_000), first, true);
//! assert_eq!(predictor.predict(Nanos(80_000), &read(3)).verdict, Verdict::Fast);
//! ```

mod base_latency;
mod digits;
mod drift;
mod error;
pub mod expected;
mod fit;
mod forest;
mod heuristic;
mod identity;
mod in_flight;
mod label;
mod linnos;
mod mistaken;
pub mod mitt;
mod mitt_cache;
mod mitt_state;
mod model;
mod online;
mod page_record;
mod pages;
mod predictor;
mod recorded;
mod share;
mod state;
#[cfg(test)]
mod testing;
mod tracker;
pub mod units;

pub use base_latency::BaseLatency;
pub use digits::DIGITS;
pub use drift::{DriftDetector, DriftReport};
pub use error::{CardError, Error, FilesError, TensorsError};
pub use fit::{
    FIT_BLOCK, FIT_MEASURES, FitBlocks, FitMeasure, FitReference, FitTest, fit_measures,
};
pub use forest::{ForestModel, ForestPredictor, UnseenScore, WAIT_TICK};
pub use heuristic::{AdvancedHeuristic, HeuristicLimits, SimpleHeuristic};
pub use identity::{Identity, OtherDrive};
pub use label::{Label, LabelRule};
pub use linnos::Linnos;
pub use mistaken::{ErrorShares, Mistaken};
pub use mitt_cache::{CacheRuling, MittCache, MittCacheOptions};
pub use mitt_state::{MittState, QueueTimes};
pub use model::{
    Card, Model, PredictorKind, Provenance, QueueModel, RefusalCost, Trained, card_path,
    fingerprint,
};
pub use online::{OnlineEvaluator, OnlineScore};
pub use page_record::PageRecord;
pub use pages::pages_of;
pub use predictor::{Forecast, Predictor, Ticket, Verdict};
pub use recorded::Recorded;
pub use state::{
    CompletedIo, DriveState, FEATURE_NAMES, FEATURES, HISTORY, Rest, Stall, Unit, WINDOWS, Window,
};
pub use tracker::DriveTracker;
