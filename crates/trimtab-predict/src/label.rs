//! Labels: which reads are slow.
//!
//! An application hardly notices whether a read took 90 or 110 µs; it notices the tail. So
//! there are two classes, and a [`Label`] assigns a completed read to one of them. Training
//! makes a label from a recording by a [`LabelRule`] (`trimtab_train::label`); a model's card
//! holds the result.

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

use crate::error::Error;
use crate::expected::ExpectedLatency;

/// The rule by which a label is made from a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelRule {
    /// Slow is beyond the latency from which refusing pays, the failover included.
    #[default]
    Cost,
    /// Slow is beyond the knee of the latencies' distribution.
    Knee,
    /// Slow is beyond the latency from which failing over pays (LinnOS, §4.2.1).
    Inflection,
    /// Slow is relative to reads of the same size at the same load.
    Relative,
    /// Slow is beyond the 95th percentile.
    P95,
    /// Slow is beyond the 99th percentile.
    P99,
}

impl LabelRule {
    /// All rules, in the order in which tables list them.
    pub const ALL: [Self; 6] =
        [Self::Cost, Self::Knee, Self::Inflection, Self::Relative, Self::P95, Self::P99];

    /// Its name in options, tables and files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Knee => "knee",
            Self::Inflection => "inflection",
            Self::Relative => "relative",
            Self::P95 => "p95",
            Self::P99 => "p99",
        }
    }
}

impl std::str::FromStr for LabelRule {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|rule| rule.name() == word).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::Unknown { what: "label", word: word.to_owned(), known }
        })
    }
}

/// Decides whether a completed read was slow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum Label {
    /// One threshold for all reads.
    Threshold {
        /// The longest latency that is not slow.
        latency: Nanos,
    },
    /// A multiple of the latency to expect.
    Relative {
        /// The latency to expect.
        expected: ExpectedLatency,
        /// The largest multiple that is not slow.
        times: f64,
    },
    /// No read is slow: there is no threshold from which refusing pays. A model of this label
    /// never refuses.
    Never {
        /// Why not, for people.
        reason: String,
    },
}

impl Label {
    /// Whether a read was slow. `pages` are the 4 KiB pages of the request, `load` those in
    /// flight when it was sent, without its own.
    #[must_use]
    pub fn is_slow(&self, latency: Nanos, pages: u32, load: u32) -> bool {
        latency.0 as f64 > self.limit_ns(pages, load)
    }

    /// The longest latency of such a read that is not slow, ns; infinite if none is.
    #[must_use]
    pub fn limit_ns(&self, pages: u32, load: u32) -> f64 {
        match self {
            Self::Threshold { latency } => latency.0 as f64,
            Self::Relative { expected, times } => expected.latency(pages, load).0 as f64 * times,
            Self::Never { .. } => f64::INFINITY,
        }
    }

    /// The threshold; for a relative label that of a read of one page on an idle drive. `None`
    /// if no read is slow.
    #[must_use]
    pub fn threshold(&self) -> Option<Nanos> {
        match self {
            Self::Threshold { latency } => Some(*latency),
            Self::Relative { expected, times } => {
                Some(Nanos((expected.latency(1, 0).0 as f64 * times) as u64))
            }
            Self::Never { .. } => None,
        }
    }

    /// Why no read is slow, if none is: its models never refuse.
    #[must_use]
    pub fn never(&self) -> Option<&str> {
        match self {
            Self::Never { reason } => Some(reason),
            Self::Threshold { .. } | Self::Relative { .. } => None,
        }
    }
}
