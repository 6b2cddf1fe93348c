//! Labels from recordings: which latency divides slow reads from fast ones?
//!
//! - [`knee`]: where the distribution of latencies bends (Satopää et al., *Finding a "Kneedle"
//!   in a Haystack*, ICDCSW'11).
//! - [`inflection`]: the latency from which failing over pays (LinnOS, §4.2.1).
//! - [`relative`]: slow relative to reads of the same size at the same load.
//!
//! [`make`] makes a [`Label`](trimtab_predict::Label) by any
//! [`LabelRule`](trimtab_predict::LabelRule).

mod cost;
mod elsewhere;
mod inflection;
mod knee;
mod make;
mod relative;

pub use elsewhere::TimedReads;
pub use inflection::{Inflection, inflection};
pub use knee::{knee, knee_of_all_counts, knee_of_counts, percentile_of};
pub use make::{LabelInputs, MadeLabel, data_latencies, make};
pub use relative::relative;
