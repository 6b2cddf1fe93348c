//! A label from a recording.

use trimtab_io::{Nanos, Op};

use super::{Label, Rule, inflection, knee, relative};
use crate::Error;
use crate::dataset::Read;
use crate::history::Recorded;

/// The seed of the inflection point's simulation.
const SEED: u64 = 1;

impl Label {
    /// Makes a label from recordings, by a rule. `reads` are the reads to go by;
    /// `all` the latencies of reads and writes together, for [`Rule::Knee`];
    /// `peers` the read latencies of the other drives, for [`Rule::Inflection`].
    /// The latter two are ascending.
    ///
    /// # Errors
    /// If the latencies do not divide into fast and slow.
    pub fn make(
        rule: Rule,
        reads: &[Read],
        all: &[Nanos],
        peers: &[&[Nanos]],
    ) -> Result<Self, Error> {
        let none = |why| Error::NoLabel { rule: rule.name(), why };
        let mut sorted: Vec<Nanos> = reads.iter().map(|read| read.latency).collect();
        sorted.sort_unstable();
        let at = |share| super::knee::rank(sorted.len(), share).map(|rank| sorted[rank]);
        let latency = match rule {
            Rule::Knee => knee(all).ok_or(none("all of them are the same, or there are none"))?,
            Rule::Inflection => {
                let found = inflection(&sorted, peers, SEED);
                found.ok_or(none("no threshold makes failing over worth while"))?.latency
            }
            Rule::P95 => at(0.95).ok_or(none("there are none"))?,
            Rule::P99 => at(0.99).ok_or(none("there are none"))?,
            Rule::Relative => {
                let reads: Vec<_> = reads.iter().map(|r| (r.latency, r.pages, r.load)).collect();
                let found = relative(&reads);
                let (expected, times) = found.ok_or(none("all take as long as expected"))?;
                return Ok(Self::Relative { expected, times });
            }
        };
        Ok(Self::Threshold { latency })
    }

    /// Whether a read was slow.
    #[must_use]
    pub fn is_slow_read(&self, read: &Read) -> bool {
        self.is_slow(read.latency, read.pages, read.load)
    }
}

/// The latencies of all reads and writes of recordings that were answered with
/// their data, ascending.
#[must_use]
pub fn data_latencies(recordings: &[&[Recorded]]) -> Vec<Nanos> {
    let all = recordings.iter().flat_map(|recorded| recorded.iter());
    let data = all.filter(|r| r.data && matches!(r.request.op, Op::Read | Op::Write));
    let mut latencies: Vec<Nanos> = data.map(Recorded::latency).collect();
    latencies.sort_unstable();
    latencies
}
