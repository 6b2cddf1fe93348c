//! From recordings to a predictor.

use std::ops::ControlFlow;
use std::sync::Arc;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use trimtab_io::Nanos;
use trimtab_learn::Rows;
use trimtab_learn::boost::{self, Objective};
use trimtab_learn::calibrate::{Table, isotonic};
use trimtab_learn::forest::IntegerForest;

use crate::dataset::{Read, digits, features, reads, steered_features};
use crate::floor::Floor;
use crate::heuristic::Limits;
use crate::history::Recorded;
use crate::learned::{Knowledge, WAIT_TICK};
use crate::model::{Kind, Trained};
use crate::state::FEATURES;
use crate::units::{self, UnitFunction};
use crate::{Error, Label, linnos};

/// Reads that it takes, and of each class.
const LEAST_READS: usize = 1000;
const LEAST_OF_CLASS: usize = 20;

/// In how many parts the samples are divided, so that each has a score from trees
/// that have not seen it; and of how many stretches of time a part consists:
/// long enough that few samples have neighbours elsewhere, and so many that
/// every part has seen the whole recording's ups and downs.
const PARTS: usize = 4;
const STRETCHES: usize = 8;

/// How wide the border between fast and slow is to whoever learns to tell them apart, as a
/// share of the distance between the quartiles of the latencies' logarithms.
const BORDER: f64 = 0.25;

/// Of a score. The scores of all forests of one kind are looked up in one table, so it is a
/// constant; and leaves of less than 8, as they are, fit 16 bits, which decides faster.
const FRACTION_BITS: u32 = 12;

/// How to train.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Reads that are learnt from, at most: the last so many of each recording.
    pub samples: usize,
    /// From which random numbers come.
    pub seed: u64,
    /// How many fast reads may be refused for each slow one that is not sent:
    /// what a slow answer costs, in failovers. `trimtab` refuses accordingly.
    pub cost: f64,
    /// The most trees of a forest, and leaves of a tree. 32 trees of 8 leaves are asked at
    /// once by AVX-512; twice as many are worth 0.002 of AUC, or nothing.
    pub trees: usize,
    /// See `trees`.
    pub leaves: usize,
    /// So many more samples, as a share of the reads, `trimtab` learns from as if
    /// other reads had gone to other drives. Who steers by a predictor changes
    /// what it sees: a drive that is avoided has no latest latencies.
    pub steered: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { samples: 200_000, seed: 1, cost: 2.0, trees: 32, leaves: 8, steered: 0.25 }
    }
}

/// A recording to learn from, and which of its reads.
#[derive(Clone, Debug)]
pub struct Lesson<'a> {
    /// The recording, in order of arrival.
    pub recorded: &'a [Recorded],
    /// Its reads, as [`reads`](crate::reads) gives them, that are learnt from.
    pub reads: Vec<Read>,
}

impl<'a> Lesson<'a> {
    /// All reads of a recording.
    #[must_use]
    pub fn whole(recorded: &'a [Recorded]) -> Self {
        Self { recorded, reads: reads(recorded) }
    }

    /// Marks its reads among the recording's requests.
    fn wanted(&self) -> Vec<bool> {
        let mut wanted = vec![false; self.recorded.len()];
        self.reads.iter().for_each(|read| wanted[read.index] = true);
        wanted
    }

    /// What of the recording there was when the last of its reads was answered
    /// or sent: what units may be looked for in.
    fn seen(&self) -> &'a [Recorded] {
        &self.recorded[..self.reads.last().map_or(0, |read| read.index + 1)]
    }
}

/// Trains a predictor on recordings of a drive, or of like drives. `progress` is
/// told what is going on, in steps out of steps.
///
/// # Errors
/// If there is too little to learn from.
pub fn train(
    kind: Kind,
    lessons: &[Lesson<'_>],
    label: &Label,
    options: &Options,
    mut progress: impl FnMut(usize, usize),
) -> Result<Trained, Error> {
    let lessons: Vec<Lesson<'_>> = lessons.iter().map(|lesson| latest(lesson, options)).collect();
    let all: Vec<Read> = lessons.iter().flat_map(|lesson| lesson.reads.iter().copied()).collect();
    let slow: Vec<bool> = all.iter().map(|read| label.is_slow_read(read)).collect();
    enough("reads to train on", all.len(), LEAST_READS)?;
    let count = slow.iter().filter(|slow| **slow).count();
    enough("slow reads to train on", count, LEAST_OF_CLASS)?;
    enough("fast reads to train on", all.len() - count, LEAST_OF_CLASS)?;
    let failed = |source| Error::Learn { predictor: kind.name(), source };
    match kind {
        Kind::HeurSim => Ok(Trained::HeurSim(limits(&all, &slow, label))),
        Kind::HeurAdv => Ok(Trained::HeurAdv(limits(&all, &slow, label))),
        Kind::Linnos => {
            let digits: Vec<_> = lessons
                .iter()
                .flat_map(|lesson| digits(lesson.recorded, &lesson.wanted()))
                .collect();
            let slow: Vec<u8> = slow.iter().map(|&slow| slow.into()).collect();
            let network = linnos::train(&digits, &slow, options.seed, progress);
            network.map(Trained::Linnos).map_err(failed)
        }
        Kind::Trimtab => {
            let seen: Vec<&[Recorded]> = lessons.iter().map(Lesson::seen).collect();
            let functions = units::find(&seen).functions;
            let samples = Samples::new(&lessons, &functions, all, label, options);
            progress(1, 2 + PARTS);
            learned(functions, &samples, options, progress).map_err(failed)
        }
    }
}

fn enough(what: &'static str, found: usize, needed: usize) -> Result<(), Error> {
    if found < needed { Err(Error::TooFew { what, found, needed }) } else { Ok(()) }
}

/// Only the last of a recording's reads, if there are more than wanted.
fn latest<'a>(lesson: &Lesson<'a>, options: &Options) -> Lesson<'a> {
    let from = lesson.reads.len().saturating_sub(options.samples);
    Lesson { recorded: lesson.recorded, reads: lesson.reads[from..].to_vec() }
}

/// What the heuristics go by (LinnOS, §5.3): the distribution of the queue's
/// length, cut at the percentile at which latencies become slow.
fn limits(reads: &[Read], slow: &[bool], label: &Label) -> Limits {
    let mut lengths: Vec<u32> = reads.iter().map(|read| read.queue).collect();
    lengths.sort_unstable();
    let fast = slow.iter().filter(|slow| !**slow).count();
    let at = |rank: usize| lengths[rank.min(lengths.len() - 1)] as usize;
    Limits {
        slow: label.threshold(),
        high: at(fast.saturating_sub(1)),
        median: at(lengths.len() / 2),
        low: at(lengths.len() / 4),
    }
}

/// What our predictor learns from.
struct Samples {
    features: Vec<[i32; FEATURES]>,
    reads: Vec<Read>,
    slow: Vec<bool>,
    /// How slow, from 0 to 1: see [`lateness`].
    lateness: Vec<f32>,
    /// Which part of the recordings each belongs to.
    part: Vec<usize>,
    floor: Floor,
}

/// The three forests, of some of the samples.
struct Forests {
    late: Option<IntegerForest>,
    wait: IntegerForest,
    fast: IntegerForest,
}

impl Samples {
    fn new(
        lessons: &[Lesson<'_>],
        functions: &[UnitFunction],
        mut reads: Vec<Read>,
        label: &Label,
        options: &Options,
    ) -> Self {
        let count = reads.len();
        let floor = Floor::learn(reads.iter().map(|read| (read.latency, read.pages)));
        let of = |lesson: &Lesson<'_>| features(lesson.recorded, &lesson.wanted(), functions);
        let mut features: Vec<_> = lessons.iter().flat_map(of).collect();
        let mut part: Vec<_> = (0..count).map(|i| i * PARTS * STRETCHES / count % PARTS).collect();
        if options.steered > 0.0 {
            let steered = lessons.iter().flat_map(|lesson| {
                steered_features(lesson.recorded, &lesson.wanted(), functions, options.seed)
            });
            let mut random = Pcg64::seed_from_u64(options.seed);
            for (i, steered) in steered.enumerate() {
                if random.random_bool(options.steered.min(1.0)) {
                    features.push(steered);
                    reads.push(reads[i]);
                    part.push(part[i]);
                }
            }
        }
        let slow = reads.iter().map(|read| label.is_slow_read(read)).collect();
        let lateness = lateness(&reads, label);
        Self { features, reads, slow, lateness, part, floor }
    }

    /// What a read took beyond the floor.
    fn excess(&self, i: usize) -> Nanos {
        let read = &self.reads[i];
        read.latency.since(self.floor.latency(read.pages))
    }

    /// Trains on those that are chosen. Where all of these are of one class,
    /// nothing can be said about being late.
    fn forests(
        &self,
        is: impl Fn(usize) -> bool,
        options: &Options,
    ) -> Result<Forests, trimtab_learn::Error> {
        let chosen: Vec<usize> = (0..self.reads.len()).filter(|&i| is(i)).collect();
        let late = |&i: &usize| self.lateness[i];
        // Twice as long is one more, but for what is little beside the floor: what
        // tells two idle drives apart counts as well as what tells two busy ones.
        let unit = (self.floor.latency(1).0 as f32 / 4.0).max(1000.0);
        let wait = |&i: &usize| libm::log2f(1.0 + self.excess(i).0 as f32 / unit);
        let forest = |of: &[usize], target: &dyn Fn(&usize) -> f32, objective| {
            let features: Vec<_> = of.iter().map(|&i| self.features[i]).collect();
            let targets: Vec<f32> = of.iter().map(target).collect();
            forest(&features, &targets, objective, options)
        };
        let fast: Vec<usize> = chosen.iter().copied().filter(|&i| !self.slow[i]).collect();
        let two_classes = !fast.is_empty() && fast.len() < chosen.len();
        let logistic = || forest(&chosen, &late, Objective::Logistic);
        Ok(Forests {
            late: two_classes.then(logistic).transpose()?,
            wait: forest(&chosen, &wait, Objective::Squared)?,
            fast: forest(if fast.is_empty() { &chosen } else { &fast }, &wait, Objective::Squared)?,
        })
    }
}

/// How slow reads are, from 0 to 1: half at the label's limit, and to either side of it a
/// logistic curve over the logarithm of the latency. That one read missed the limit by a
/// hair and another took ten times as long is worth knowing: the rarer slow reads are, the
/// more is learnt from those that nearly were.
fn lateness(reads: &[Read], label: &Label) -> Vec<f32> {
    let log = |ns: f64| libm::log(ns.max(1.0));
    let mut logs: Vec<f64> = reads.iter().map(|read| log(read.latency.0 as f64)).collect();
    logs.sort_unstable_by(f64::total_cmp);
    let quartile = |i: usize| logs.get(i * logs.len() / 4).copied().unwrap_or_default();
    // Where latencies are all the same there is no border to speak of.
    let border = (BORDER * (quartile(3) - quartile(1))).max(1e-3);
    let one = |read: &Read| {
        let beyond = log(read.latency.0 as f64) - log(label.limit_ns(read.pages, read.load));
        (1.0 / (1.0 + libm::exp(-beyond / border))) as f32
    };
    reads.iter().map(one).collect()
}

/// Scores of samples from trees that have not seen them, nor their neighbours in
/// time.
struct Unseen {
    late: Vec<i32>,
    wait: Vec<i32>,
    fast: Vec<i32>,
}

fn learned(
    functions: Vec<UnitFunction>,
    samples: &Samples,
    options: &Options,
    mut progress: impl FnMut(usize, usize),
) -> Result<Trained, trimtab_learn::Error> {
    let count = samples.reads.len();
    let zeroes = || vec![0; count];
    let mut scores = Unseen { late: zeroes(), wait: zeroes(), fast: zeroes() };
    for part in 0..PARTS {
        let forests = samples.forests(|i| samples.part[i] != part, options)?;
        for i in (0..count).filter(|&i| samples.part[i] == part) {
            let features = &samples.features[i];
            scores.late[i] = forests.late.as_ref().map_or(0, |forest| forest.score(features));
            scores.wait[i] = forests.wait.score(features);
            scores.fast[i] = forests.fast.score(features);
        }
        progress(2 + part, 2 + PARTS);
    }
    let probability = isotonic(&scores.late, &samples.slow)?;
    // Refusing is right from the probability on at which both mistakes cost the
    // same: p × cost = 1 − p.
    let even = (65536.0 / (1.0 + options.cost)) as i32;
    let refuse_from = probability.first_score_with(even).unwrap_or(i32::MAX);
    let wait = mean_waits(samples, &scores.wait, |_| true)?;
    let fast = mean_waits(samples, &scores.fast, |i| !samples.slow[i])?;
    let false_submits = (0..count).filter(|&i| samples.slow[i] && scores.late[i] < refuse_from);
    let (sum, number) = false_submits
        .fold((0, 0), |(sum, number), i| (sum + samples.reads[i].latency.0, number + 1));
    let forests = samples.forests(|_| true, options)?;
    progress(2 + PARTS, 2 + PARTS);
    Ok(Trained::Trimtab(Arc::new(Knowledge {
        functions,
        forest: forests.late.expect("there are enough of both classes"),
        probability,
        refuse_from,
        floor: samples.floor.clone(),
        wait_forest: forests.wait,
        wait,
        fast_forest: forests.fast,
        fast,
        late: Nanos(sum / number.max(1)),
    })))
}

fn forest(
    features: &[[i32; FEATURES]],
    targets: &[f32],
    objective: Objective,
    options: &Options,
) -> Result<IntegerForest, trimtab_learn::Error> {
    let learning_rate = match objective {
        Objective::Logistic => 0.1,
        Objective::Squared => 0.2,
    };
    let options = boost::BoostOptions {
        objective,
        trees: options.trees,
        leaves: options.leaves,
        learning_rate,
        // Neighbours in time are alike: a leaf needs more than it seems.
        min_samples: (targets.len() / 200).max(20),
        l2: 5.0,
        row_share: 0.5,
        feature_share: 0.5,
        seed: options.seed,
        ..boost::BoostOptions::default()
    };
    let rows = Rows::new(features.as_flattened(), FEATURES)?;
    let data = boost::Data::new(rows, targets, &[], &options)?;
    let model = boost::train(&data, None, &options, |_| ControlFlow::Continue(()))?;
    Ok(IntegerForest::new(&model.forest, FRACTION_BITS)?.rounded())
}

/// The mean of what comes on top of the floor by score, in ticks of [`WAIT_TICK`],
/// rising, from some of the samples.
fn mean_waits(
    samples: &Samples,
    scores: &[i32],
    is: impl Fn(usize) -> bool,
) -> Result<Table, trimtab_learn::Error> {
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| is(i)).collect();
    order.sort_by_key(|&i| (scores[i], i));
    // Pools of neighbours whose means rise: a pool that is not above the one
    // before is one with it.
    let mut pools: Vec<(i32, u64, u64)> = Vec::new();
    for same in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let sum = same.iter().map(|&i| samples.excess(i).0).sum();
        let mut pool = (scores[same[0]], sum, same.len() as u64);
        while let Some(before) = pools.pop_if(|before| before.1 / before.2 >= pool.1 / pool.2) {
            pool = (before.0, before.1 + pool.1, before.2 + pool.2);
        }
        pools.push(pool);
    }
    let ticks = |pool: &(i32, u64, u64)| pool.1 / pool.2 / WAIT_TICK.0;
    let values = pools.iter().map(|pool| i32::try_from(ticks(pool)).unwrap_or(i32::MAX));
    Table::new(pools[1..].iter().map(|pool| pool.0).collect(), values.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_half_at_the_limit_and_rises() {
        let label = Label::Threshold { latency: Nanos::from_micros(400) };
        let read = |us: u64| Read {
            index: 0,
            latency: Nanos::from_micros(us),
            pages: 1,
            load: 0,
            queue: 0,
        };
        let reads = [50, 100, 200, 399, 400, 401, 800, 100_000].map(read);
        let found = lateness(&reads, &label);
        assert!(found.is_sorted(), "{found:?}");
        assert_eq!(found[4], 0.5);
        assert!(found[0] < 0.01 && found[7] > 0.99, "{found:?}");
        // Where all take as long, a little more is late all the same.
        let alike = [read(400), read(400), read(400), read(400), read(410)];
        assert!(lateness(&alike, &label)[4] > 0.99);
        assert!(lateness(&[], &label).is_empty());
    }
}
