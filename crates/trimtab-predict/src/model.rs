//! Trained predictors, and the files that hold them.

mod card;
mod file;
mod fingerprint;
mod kind;
mod seal;
mod trained;

pub use card::{Card, Provenance, RefusalCost};
pub use file::{Model, card_path};
pub use fingerprint::fingerprint;
pub use kind::{PredictorKind, QueueModel};
pub use trained::Trained;
