//! From recordings to models: everything that needs a whole recording.
//!
//! ```text
//!   trace ─> Recording ─┬─ label: which reads are slow?
//!                       ├─ units: which addresses share a parallel unit?
//!                       └─ TrainingJob ─> Model ─┬─ Evaluation: how accurate is it?
//!                                                ├─ advise: what would failing over gain?
//!                                                └─ ModelCheck: does it still fit?
//! ```
//!
//! A [`Model`](trimtab_predict::Model) decides in `trimtab-predict`, which programs that only
//! decide link without this crate.
//!
//! # The ideas, and where they come from
//!
//! | part | idea | source |
//! | --- | --- | --- |
//! | [`label::knee()`] | slow begins where the distribution of latencies bends | Satopää et al., *Finding a "Kneedle" in a Haystack*, ICDCSW'11, §III |
//! | [`label::inflection()`] | slow begins where failing over pays | Hao et al., *LinnOS*, OSDI'20, §4.2.1 |
//! | [`units::find`] | requests that share a parallel unit delay each other; a Walsh–Hadamard transform tests all address masks at once | this project |
//! | `linnos` | biased training of a light network | LinnOS, §4.4 |
//! | `trimtab` | stochastic gradient boosting, calibrated by isotonic regression on samples that the trees have not seen | Friedman, 2001 and 2002; Zadrozny and Elkan, KDD'02 |
//! | [`importance()`] | permutation importance | Breiman, *Random Forests*, 2001, §10 |
//! | [`ModelCheck`] | a model fits while its forecasts are worth what they were in training: Welch's *t*-test of blocks of reads | [`trimtab_predict::FitReference`] |
//! | [`InflectionComparison`] | retrain when the inflection point moves; for models without a reference | LinnOS, §4.4 |
//!
//! # Causality
//!
//! [`events`] gives a recording's submissions and completions in the order in which they
//! happened; training and evaluation see a recording only through it, so no predictor sees a
//! latency before its read completed. [`Protocol::TimeForward`] trains on the past and evaluates
//! on the future, on every read. [`Protocol::Leaky`] does not, and is labelled so.
//!
//! # Decisions that are not obvious
//!
//! - **Steering changes a predictor's input.** A drive that is avoided has no recent
//!   completions, and a predictor trained on busy drives takes that for trouble. So a part of the
//!   samples of `trimtab` comes from histories in which reads went elsewhere
//!   ([`TrainingOptions::steered`]). Evaluation goes without, since nothing steers in a
//!   recording.
//! - **One drive trains one model.** Latencies depend on the drive's parallel units, fill and
//!   age, so a model's card names its drive ([`Recording::drive`]).
//! - **The knee belongs to the evaluation.** An [`Evaluation`] finds it in the whole recording, so
//!   that all protocols and models are scored by one label. Every other label comes from the
//!   reads trained on.
//! - **Nothing depends on the machine.** Random numbers come from a seed, and sums are added in
//!   a fixed order: one seed gives the same model on every machine.
//!
//! # Example
//!
//! ```
//! use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
//! use trimtab_predict::{LabelRule, PredictorKind, Recorded};
//! use trimtab_train::{TrainingJob, TrainingOptions, evaluate, reads};
//!
//! // A drive that serves one read at a time; each 20th takes 4 ms.
//! let mut free = 0;
//! let read = |i: u64| {
//!     let arrival = 400_000 * i;
//!     free = arrival.max(free) + if i % 20 == 0 { 4_000_000 } else { 80_000 + i % 7 * 1000 };
//!     let request =
//!         Request::new(RequestId(i), DeviceId(0), Nanos(arrival), Op::Read, i << 12, 4096);
//!     Recorded { request, complete: Nanos(free), data: true }
//! };
//! let recorded: Vec<Recorded> = (0..4000).map(read).collect();
//!
//! let all = reads(&recorded);
//! let (past, future) = all.split_at(all.len() / 2);
//! let job = TrainingJob {
//!     kind: PredictorKind::HeurSim,
//!     rule: LabelRule::Inflection,
//!     name: "example",
//!     recorded: &recorded,
//!     past,
//!     peers: &[],
//!     timed: &[],
//!     options: &TrainingOptions::default(),
//! };
//! let model = job.run(|step, steps| println!("{step} of {steps}"))?.model;
//! let score = evaluate(&model.trained, &recorded, future, &model.card.label);
//! assert!(score.auc.is_some_and(|auc| auc > 0.7));
//! # Ok::<(), trimtab_train::Error>(())
//! ```

mod advise;
mod base_latency;
#[cfg(test)]
mod causality;
mod dataset;
mod drift;
mod error;
mod evaluate;
mod evaluation;
mod fit;
mod forests;
mod importance;
mod job;
pub mod label;
mod linnos;
mod model_files;
mod never;
mod options;
mod pretrained;
mod protocol;
mod reads;
mod recording;
mod replay;
mod set;
#[cfg(test)]
mod testing;
mod train;
pub mod units;

pub use advise::{Advice, DriveAdvice, ReadLatency, advise};
pub use drift::{FitCheck, InflectionComparison, InflectionShift, MeasureChange, ModelCheck};
pub use error::Error;
pub use evaluate::{CalibrationBin, Forecasts, Score, evaluate, forecasts, score};
pub use evaluation::{Evaluated, Evaluation, EvaluationStep};
pub use importance::{Importance, importance};
pub use job::{TrainingJob, TrainingResult, retrain};
pub use model_files::{ModelFiles, WrittenModel};
pub use never::train_never;
pub use options::TrainingOptions;
pub use pretrained::{ModelOrigin, PretrainedModel};
pub use protocol::{Protocol, UnknownProtocol};
pub use reads::{Read, latencies, reads};
pub use recording::{Recording, read_latencies, recorded};
pub use replay::{Event, Observer, events, replay};
pub use set::TrainingSet;
pub use train::train;
