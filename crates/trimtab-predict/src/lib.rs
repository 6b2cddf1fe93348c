//! Will this I/O be late?
//!
//! A [`Predictor`] watches one drive from outside, as any block layer can: what
//! is sent to it, and when each answer comes. Asked about a request before that
//! is sent, it gives a [`Forecast`]. It never sees more than had happened by
//! then, it reads no clock and allocates nothing on the way of a request; the
//! same code is trained on recordings, runs in the simulator and decides live.
//!
//! ```text
//!            ┌───────────── predict ──> Forecast: late? how likely? how long?
//!   request ─┤
//!            └─ sent ─> Ticket ··· the drive works ··· completed(Ticket)
//! ```
//!
//! There are the published predictors, as yardsticks: the light neural network of
//! LinnOS (Hao et al., OSDI'20, §4) and the two heuristics it was compared with
//! (§5.3). And there is ours, [`Learned`]: forests of small trees over what a
//! [`Watch`] knows of the drive and of its parallel units, which are
//! [found](units) in the recording. [`label`] says what late is; [`train()`] and
//! [`evaluate()`] learn and judge; a [`Judge`] does so while a drive is at work.

mod advise;
#[cfg(test)]
mod causality;
mod dataset;
mod digits;
mod drift;
mod error;
mod evaluate;
mod floor;
#[cfg(test)]
mod golden;
mod heuristic;
mod history;
mod identity;
mod importance;
mod in_flight;
mod judge;
pub mod label;
mod learned;
mod linnos;
mod model;
mod moved;
mod predictor;
mod share;
mod state;
mod teach;
#[cfg(test)]
mod testing;
mod train;
pub mod units;
mod watch;
mod watching;

pub use advise::{Advice, DriveAdvice, Expected, advise};
pub use dataset::{Read, reads};
pub use digits::DIGITS;
pub use drift::{Drift, Found};
pub use error::Error;
pub use evaluate::{CalibrationBin, Score, evaluate};
pub use floor::Floor;
pub use heuristic::{Advanced, Limits, Simple};
pub use history::{Event, Recorded, Watcher, events, replay};
pub use identity::{Identity, OtherDrive};
pub use importance::{Importance, importance};
pub use judge::{Judge, Judged};
pub use label::{Label, Rule};
pub use learned::{Knowledge, Learned};
pub use linnos::Linnos;
pub use model::{Card, Kind, Model, Trained, Training, card_path, fingerprint};
pub use moved::{Comparison, Moved};
pub use predictor::{Forecast, Predictor, Ticket, Verdict};
pub use state::{
    Answered, DriveState, FEATURE_NAMES, FEATURES, HISTORY, Rest, Stall, Unit, WINDOWS, Window,
};
pub use teach::{Taught, Teaching};
pub use train::{Lesson, Options, train};
pub use watch::Watch;
