//! The figures of a comparison.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use trimtab_io::{LatencyHistogram, Nanos, P75, PERCENTILES, PercentileKind};
use trimtab_steer::Counts;
use trimtab_steer::driver::{ArrayFigures, DecisionScore};

use crate::prepare::{Learnt, Ready};
use crate::spec::groups::Group;
use crate::spec::{Comparison, Entry};

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its key in JSON, with the unit.
    pub key: &'static str,
    /// Its name in a table.
    pub name: &'static str,
    /// Whether it is a time, in ns; otherwise it is in percent.
    pub is_time: bool,
}

const fn time(key: &'static str, name: &'static str) -> Measure {
    Measure { key, name, is_time: true }
}

const fn percent(key: &'static str, name: &'static str) -> Measure {
    Measure { key, name, is_time: false }
}

/// The columns of the table, in their order.
pub const MEASURES: [Measure; 12] = [
    time("mean_ns", "mean"),
    time("p50_ns", "p50"),
    time("p75_ns", "p75"),
    time("p80_ns", "p80"),
    time("p90_ns", "p90"),
    time("p95_ns", "p95"),
    time("p99_ns", "p99"),
    time("p99.9_ns", "p99.9"),
    time("p99.99_ns", "p99.99"),
    percent("extra_io_percent", "extra I/O"),
    percent("false_submit_percent", "false submits"),
    percent("false_revoke_percent", "false revokes"),
];

/// The percentiles among [`MEASURES`], in ascending order.
fn percentiles() -> impl Iterator<Item = PercentileKind> {
    let [p50, rest @ ..] = PERCENTILES;
    [p50, P75].into_iter().chain(rest)
}

/// A value for each of [`MEASURES`]; `None` if too few samples support it, or if the measure
/// does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures(pub [Option<f64>; MEASURES.len()]);

impl Figures {
    /// The figures of one run.
    #[must_use]
    pub fn of(run: &ArrayFigures) -> Self {
        let Self(mut figures) = Self::of_latencies(&run.reads);
        let percent = |share: f64| 100.0 * share;
        figures[9] = Some(percent(run.counts.extra_share()));
        figures[10] = run.score.false_submit_rate().map(percent);
        figures[11] = run.score.false_revoke_rate().map(percent);
        Self(figures)
    }

    /// The mean and the percentiles of some reads.
    fn of_latencies(reads: &LatencyHistogram) -> Self {
        let mut figures = [None; MEASURES.len()];
        figures[0] = reads.mean().map(|mean| mean.0 as f64);
        for (figure, kind) in figures[1..].iter_mut().zip(percentiles()) {
            let value = kind.supported_by(reads.count()).then(|| reads.quantile(kind.share()));
            *figure = value.flatten().map(|value| value.0 as f64);
        }
        Self(figures)
    }

    /// The value of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<f64> {
        let place = MEASURES.iter().position(|measure| measure.key == key)?;
        self.0[place]
    }

    /// For each measure, the value that `pick` selects from its values in ascending order;
    /// `None` if one of them is missing.
    fn across(all: &[Self], pick: impl Fn(&[f64]) -> f64) -> Self {
        let of = |place: usize| {
            let values: Option<Vec<f64>> = all.iter().map(|figures| figures.0[place]).collect();
            let mut values = values.filter(|values| !values.is_empty())?;
            values.sort_unstable_by(f64::total_cmp);
            Some(pick(&values))
        };
        Self(std::array::from_fn(of))
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (measure, value) in MEASURES.iter().zip(self.0) {
            if let Some(value) = value {
                map.serialize_entry(measure.key, &value)?;
            }
        }
        map.end()
    }
}

/// The median of values in ascending order; for an even number, the mean of the middle two.
///
/// # Panics
/// There are none.
#[must_use]
pub fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    }
}

/// One strategy with one seed, in one turn.
#[derive(Clone, Debug, Serialize)]
pub struct SeedFigures {
    /// The seed.
    pub seed: u64,
    /// The number of its turn, from 0.
    pub turn: u32,
    /// Completed reads; each is a sample.
    pub reads: u64,
    /// The charge for each decision.
    pub inference_ns: Nanos,
    /// The values.
    #[serde(flatten)]
    pub figures: Figures,
    /// The longest latency.
    pub max_ns: Nanos,
    /// Reads that no drive could serve.
    pub errors: u64,
    /// Requests sent to drives for the reads.
    pub sent: u64,
    /// Those of them that were probes.
    pub probes: u64,
    /// Requests taken back.
    pub cancelled: u64,
    /// Reads sent because they were predicted to be fast; the sample of the false
    /// submits.
    pub submitted: u64,
    /// Times that a drive was refused.
    pub refused: u64,
    /// Refused reads that were sampled: the sample of the false revokes.
    pub refused_sampled: u64,
}

impl SeedFigures {
    pub(crate) fn new(seed: u64, inference: Nanos, run: &ArrayFigures) -> Self {
        let Counts { sent, probes, cancelled, .. } = run.counts;
        let DecisionScore { submitted, refused, sampled, .. } = run.score;
        Self {
            seed,
            turn: 0,
            reads: run.reads.count(),
            inference_ns: inference,
            figures: Figures::of(run),
            max_ns: run.reads.max().unwrap_or_default(),
            errors: run.errors,
            sent,
            probes,
            cancelled,
            submitted,
            refused,
            refused_sampled: sampled,
        }
    }
}

/// One row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct StrategyReport {
    /// Its name in the scenario.
    pub name: String,
    /// Which strategy it is.
    pub strategy: &'static str,
    /// Medians over the seeds and their turns.
    pub median: Figures,
    /// The lowest and
    pub lowest: Figures,
    /// the highest of any seed.
    pub highest: Figures,
    /// Each seed, and each turn of it, if there are several.
    pub seeds: Vec<SeedFigures>,
    /// Of the users of each group, if there are groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupFigures>,
    /// The latencies of all seeds together,
    #[serde(skip)]
    pub latencies: LatencyHistogram,
    /// and of each of `seeds`.
    #[serde(skip)]
    pub turns: Vec<LatencyHistogram>,
}

/// The reads of a group's users under one strategy.
#[derive(Clone, Debug, Serialize)]
pub struct GroupFigures {
    /// The group's name.
    pub group: String,
    /// Medians over the seeds and their turns; times only.
    pub median: Figures,
    /// Each seed, and each turn of it.
    pub seeds: Vec<Figures>,
    /// Its drives.
    #[serde(skip)]
    drives: Vec<usize>,
}

impl GroupFigures {
    fn new(group: &Group) -> Self {
        let (median, seeds) = (Figures::default(), Vec::new());
        Self { group: group.name.clone(), median, seeds, drives: group.drives.clone() }
    }

    fn add(&mut self, run: &ArrayFigures) {
        let mut reads = LatencyHistogram::new();
        self.drives.iter().for_each(|&drive| reads.merge(&run.replicas[drive].reads));
        self.seeds.push(Figures::of_latencies(&reads));
    }
}

/// One drive with one seed: its figures from phase one.
#[derive(Clone, Debug, Serialize)]
pub struct DriveFacts {
    /// Its name.
    pub device: String,
    /// Reads of phase one.
    pub reads: u64,
    /// Reads of its workload in phase two.
    pub reads_phase_two: u64,
    /// The latency from which on reads are slow; `None` if no latency makes failing over
    /// worthwhile.
    pub inflection_ns: Option<Nanos>,
    /// The percentile of phase one's reads that this is.
    pub inflection_percentile: Option<f64>,
    /// Whether it was found among drives like this one, because no latency makes failing over
    /// to the others worthwhile.
    pub inflection_alone: bool,
    /// Why predictors on this drive never refuse a read, by predictor; the others may.
    pub never_refuses: std::collections::BTreeMap<&'static str, String>,
    /// The latency from which on a read is late by each of the others.
    pub late_ns: std::collections::BTreeMap<&'static str, Nanos>,
    /// The false submits of each predictor in training.
    pub training_false_submit_percent: std::collections::BTreeMap<&'static str, f64>,
    /// The inflection point after the workload had changed, if it did.
    pub changed: Option<Inflection>,
}

/// The threshold of slow on a drive.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Inflection {
    /// The latency, if there is one.
    pub inflection_ns: Option<Nanos>,
    /// The percentile of the recording's reads that this is.
    pub inflection_percentile: Option<f64>,
    /// As in [`DriveFacts`].
    pub inflection_alone: bool,
}

impl Inflection {
    fn of(learnt: &Learnt, drive: usize) -> Self {
        let Some(slow) = learnt.slow_from[drive] else {
            let (inflection_ns, inflection_percentile) = (None, None);
            return Self { inflection_ns, inflection_percentile, inflection_alone: false };
        };
        let reads = &learnt.history[drive].reads;
        let upto = reads.buckets().take_while(|(latency, _)| *latency <= slow.latency);
        let fast: u64 = upto.map(|(_, count)| count).sum();
        Self {
            inflection_ns: Some(slow.latency),
            inflection_percentile: Some(100.0 * fast as f64 / reads.count().max(1) as f64),
            inflection_alone: slow.alone,
        }
    }
}

impl DriveFacts {
    pub(crate) fn new(name: &str, ready: &Ready, number: usize) -> Self {
        let Learnt { history, predictors, .. } = &ready.learnt;
        let Inflection { inflection_ns, inflection_percentile, inflection_alone } =
            Inflection::of(&ready.learnt, number);
        let later = ready.requests.iter();
        let later = later.filter(|io| io.primary.index() == number && io.is_steered());
        let rates = predictors.iter().map(|(&predictor, trainees)| {
            (predictor, 100.0 * trainees.history[number].false_submit_rate)
        });
        let never = predictors.iter().filter_map(|(&predictor, trainees)| {
            Some((predictor, trainees.never[number].clone()?))
        });
        let late = predictors.iter().filter(|(_, trainees)| trainees.never[number].is_none());
        let late = late.map(|(&predictor, trainees)| (predictor, trainees.thresholds[number]));
        Self {
            device: name.to_owned(),
            reads: history[number].reads.count(),
            reads_phase_two: later.count() as u64,
            inflection_ns,
            inflection_percentile,
            inflection_alone,
            never_refuses: never.collect(),
            late_ns: late.collect(),
            training_false_submit_percent: rates.collect(),
            changed: ready.again.as_ref().map(|again| Inflection::of(again, number)),
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The seeds.
    pub seeds: Vec<u64>,
    /// For each seed, the drives.
    pub drives: Vec<Vec<DriveFacts>>,
    /// Reads of a user's request: if more than one, latencies are those of user requests.
    pub parallel: u32,
    /// The charge for a failover, beside the inference.
    pub failover_ns: Nanos,
    /// In the order of the scenario.
    pub strategies: Vec<StrategyReport>,
}

impl Report {
    pub(crate) fn new(comparison: &Comparison) -> Self {
        let named = comparison.groups.iter().filter(|group| !group.name.is_empty());
        let empty = |entry: &Entry| StrategyReport {
            name: entry.name.clone(),
            strategy: entry.kind.name(),
            median: Figures::default(),
            lowest: Figures::default(),
            highest: Figures::default(),
            seeds: Vec::new(),
            groups: named.clone().map(GroupFigures::new).collect(),
            latencies: LatencyHistogram::new(),
            turns: Vec::new(),
        };
        Self {
            seeds: Vec::new(),
            drives: Vec::new(),
            parallel: comparison.parallel,
            failover_ns: comparison.failover,
            strategies: comparison.entries.iter().map(empty).collect(),
        }
    }

    pub(crate) fn add_seed(&mut self, seed: u64, drives: Vec<DriveFacts>) {
        self.seeds.push(seed);
        self.drives.push(drives);
    }

    /// Adds one turn of phase two, for the seed added last.
    pub(crate) fn add_turn(&mut self, turn: u32, figures: Vec<(SeedFigures, ArrayFigures)>) {
        for (row, (figures, run)) in self.strategies.iter_mut().zip(figures) {
            row.seeds.push(SeedFigures { turn, ..figures });
            row.groups.iter_mut().for_each(|group| group.add(&run));
            row.latencies.merge(&run.reads);
            row.turns.push(run.reads);
        }
    }

    pub(crate) fn finish(&mut self) {
        for row in &mut self.strategies {
            let all: Vec<_> = row.seeds.iter().map(|seed| seed.figures).collect();
            row.median = Figures::across(&all, median);
            row.lowest = Figures::across(&all, |sorted| sorted[0]);
            row.highest = Figures::across(&all, |sorted| sorted[sorted.len() - 1]);
            for group in &mut row.groups {
                group.median = Figures::across(&group.seeds, median);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let figures = |mean: f64, p50: Option<f64>| {
            let mut all = [None; MEASURES.len()];
            (all[0], all[1]) = (Some(mean), p50);
            Figures(all)
        };
        let all = [figures(3.0, Some(1.0)), figures(1.0, None), figures(8.0, Some(2.0))];
        assert_eq!(Figures::across(&all, median).get("mean_ns"), Some(3.0));
        assert_eq!(Figures::across(&all, median).get("p50_ns"), None);
        assert_eq!(Figures::across(&all[..2], median).get("mean_ns"), Some(2.0));
        assert_eq!(Figures::across(&[], median), Figures::default());
    }

    #[test]
    fn column_names_match_percentiles() {
        for (measure, kind) in MEASURES[1..].iter().zip(percentiles()) {
            assert_eq!(measure.name, kind.name);
        }
        assert_eq!(percentiles().count() + 4, MEASURES.len());
    }

    #[test]
    fn percentiles_need_samples() {
        let mut run = ArrayFigures::default();
        run.reads.extend((1..1000).map(Nanos));
        let figures = Figures::of(&run);
        assert!((figures.get("p75_ns").unwrap() - 750.0).abs() < 7.5);
        assert!(figures.get("p95_ns").is_some() && figures.get("p99_ns").is_none());
        assert_eq!(figures.get("false_submit_percent"), None);
    }
}
