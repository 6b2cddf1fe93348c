//! A label from a recording.

use trimtab_io::{Nanos, Op};
use trimtab_predict::{Label, LabelRule, Recorded, RefusalCost};

use super::cost::cost;
use super::elsewhere::TimedReads;
use super::inflection::inflection;
use super::knee::{knee, rank};
use super::relative::relative;
use crate::error::Error;
use crate::options::TrainingOptions;
use crate::reads::{Read, latencies};
use crate::set::TrainingSet;

/// The seed of the inflection point's simulation.
const SEED: u64 = 1;

/// What a label is made from.
#[derive(Clone, Copy, Debug)]
pub struct LabelInputs<'a> {
    /// The recordings, and the reads to go by.
    pub sets: &'a [TrainingSet<'a>],
    /// The latencies of reads and writes together, ascending, for [`LabelRule::Knee`].
    pub all: &'a [Nanos],
    /// The read latencies of the other drives, each ascending, for [`LabelRule::Cost`] and
    /// [`LabelRule::Inflection`]. Without them the drive is its own peer.
    pub peers: &'a [&'a [Nanos]],
    /// The reads of the other drives, if their clock is that of the one recording there is, for
    /// [`LabelRule::Cost`]: what they took at the same time says more than what they take in the
    /// mean.
    pub timed: &'a [TimedReads],
    /// How training will be done, for [`LabelRule::Cost`].
    pub options: &'a TrainingOptions,
}

/// A label, and what it weighed.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeLabel {
    /// The label.
    pub label: Label,
    /// Of [`LabelRule::Cost`], unless there are too few reads.
    pub cost: Option<RefusalCost>,
}

/// Makes a label by a rule: [`Label::Never`], with the reason, if the latencies do not divide
/// into fast and slow.
///
/// # Errors
/// The learning library fails.
pub fn make(rule: LabelRule, inputs: &LabelInputs<'_>) -> Result<MadeLabel, Error> {
    let LabelInputs { sets, all, peers, .. } = *inputs;
    if rule == LabelRule::Cost {
        return cost(inputs);
    }
    let reads: Vec<Read> = sets.iter().flat_map(|set| set.reads.iter().copied()).collect();
    let sorted = latencies(&reads);
    let at = |share| rank(sorted.len(), share).map(|rank| sorted[rank]);
    let threshold = |found: Option<Nanos>, why: &str| match found {
        Some(latency) => Label::Threshold { latency },
        None => Label::Never { reason: why.to_owned() },
    };
    let label = match rule {
        LabelRule::Cost => unreachable!("it has been made"),
        LabelRule::Knee => threshold(knee(all), "all latencies are the same, or there are none"),
        LabelRule::Inflection => threshold(
            inflection(&sorted, peers, SEED).map(|found| found.latency),
            "no threshold makes failing over worthwhile",
        ),
        LabelRule::P95 => threshold(at(0.95), "there are no reads"),
        LabelRule::P99 => threshold(at(0.99), "there are no reads"),
        LabelRule::Relative => {
            let reads: Vec<_> = reads.iter().map(|r| (r.latency, r.pages, r.load)).collect();
            let never = || Label::Never { reason: "all reads take as long as expected".to_owned() };
            let label = |(expected, times)| Label::Relative { expected, times };
            relative(&reads).map_or_else(never, label)
        }
    };
    Ok(MadeLabel { label, cost: None })
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
