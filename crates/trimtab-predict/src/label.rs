//! When is an answer slow?
//!
//! A user cares little whether a read took 90 or 110 µs, and much whether it was
//! in the tail. So there are two classes, and a [`Label`] that says which of
//! them an answer is in.
//!
//! - [`knee`]: where the distribution of latencies bends.
//! - [`inflection`]: where failing over begins to pay (LinnOS, §4.2.1).
//! - [`relative`]: compared with what such a request takes at such a load.

mod inflection;
mod knee;
mod make;
mod relative;

pub use inflection::{Inflection, inflection};
pub use knee::{knee, knee_of_all_counts, knee_of_counts, percentile_of};
pub use make::data_latencies;
pub use relative::{Expected, relative};

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

/// Which rule makes the label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// [`knee`].
    #[default]
    Knee,
    /// [`inflection`].
    Inflection,
    /// [`relative`].
    Relative,
    /// The 95th percentile.
    P95,
    /// The 99th percentile.
    P99,
}

impl Rule {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Self; 5] = [Self::Knee, Self::Inflection, Self::Relative, Self::P95, Self::P99];

    /// The word used in options, tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Knee => "knee",
            Self::Inflection => "inflection",
            Self::Relative => "relative",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }
}

impl std::str::FromStr for Rule {
    type Err = crate::Error;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|rule| rule.name() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            crate::Error::Unknown { what: "label", word: word.to_owned(), known }
        })
    }
}

/// Says whether an answer was slow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Label {
    /// Whatever takes longer is slow.
    Threshold {
        /// The longest latency that is not slow.
        latency: Nanos,
    },
    /// Whatever takes that many times as long as expected is slow.
    Relative {
        /// What to expect.
        expected: Expected,
        /// How many times as long.
        times: f64,
    },
}

impl Label {
    /// Whether an answer was slow. `pages` are those of the request, `load` those
    /// in flight when it was sent (4 KiB each, without its own).
    #[must_use]
    pub fn is_slow(&self, latency: Nanos, pages: u32, load: u32) -> bool {
        latency.0 as f64 > self.limit_ns(pages, load)
    }

    /// The longest latency of such a request that is not slow, ns.
    #[must_use]
    pub fn limit_ns(&self, pages: u32, load: u32) -> f64 {
        match self {
            Self::Threshold { latency } => latency.0 as f64,
            Self::Relative { expected, times } => expected.latency(pages, load).0 as f64 * times,
        }
    }

    /// The latency from which on a read of one page on an idle drive is slow: the
    /// threshold, where there is a single one.
    #[must_use]
    pub fn threshold(&self) -> Nanos {
        match self {
            Self::Threshold { latency } => *latency,
            Self::Relative { expected, times } => {
                Nanos((expected.latency(1, 0).0 as f64 * times) as u64)
            }
        }
    }
}
