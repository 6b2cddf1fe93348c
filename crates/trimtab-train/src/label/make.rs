//! A label from a recording.

use trimtab_io::{Nanos, Op};
use trimtab_predict::{Label, LabelRule, Recorded};

use super::inflection::inflection;
use super::knee::{knee, rank};
use super::relative::relative;
use crate::error::Error;
use crate::reads::{Read, latencies};

/// The seed of the inflection point's simulation.
const SEED: u64 = 1;

/// Makes a label by a rule. `reads` are the reads to go by; `all` the latencies of reads and
/// writes together, for [`LabelRule::Knee`]; `peers` the read latencies of the other drives,
/// for [`LabelRule::Inflection`]. The latter two are ascending.
///
/// # Errors
/// The latencies do not divide into fast and slow.
pub fn make(
    rule: LabelRule,
    reads: &[Read],
    all: &[Nanos],
    peers: &[&[Nanos]],
) -> Result<Label, Error> {
    let none = |why| Error::NoLabel { rule: rule.name(), why };
    let sorted = latencies(reads);
    let at = |share| rank(sorted.len(), share).map(|rank| sorted[rank]);
    let latency = match rule {
        LabelRule::Knee => knee(all).ok_or(none("all of them are the same, or there are none"))?,
        LabelRule::Inflection => {
            let found = inflection(&sorted, peers, SEED);
            found.ok_or(none("no threshold makes failing over worthwhile"))?.latency
        }
        LabelRule::P95 => at(0.95).ok_or(none("there are none"))?,
        LabelRule::P99 => at(0.99).ok_or(none("there are none"))?,
        LabelRule::Relative => {
            let reads: Vec<_> = reads.iter().map(|r| (r.latency, r.pages, r.load)).collect();
            let found = relative(&reads);
            let (expected, times) = found.ok_or(none("all take as long as expected"))?;
            return Ok(Label::Relative { expected, times });
        }
    };
    Ok(Label::Threshold { latency })
}

/// The latencies of all reads and writes of recordings that completed with their data,
/// ascending.
#[must_use]
pub fn data_latencies(recordings: &[&[Recorded]]) -> Vec<Nanos> {
    let all = recordings.iter().flat_map(|recorded| recorded.iter());
    let data = all.filter(|r| r.data && matches!(r.request.op, Op::Read | Op::Write));
    let mut latencies: Vec<Nanos> = data.map(Recorded::latency).collect();
    latencies.sort_unstable();
    latencies
}
