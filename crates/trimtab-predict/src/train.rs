//! From recordings to a predictor.

use std::ops::ControlFlow;
use std::sync::Arc;

use trimtab_io::Nanos;
use trimtab_learn::Rows;
use trimtab_learn::boost::{self, Objective};
use trimtab_learn::calibrate::{Table, isotonic};
use trimtab_learn::forest::IntegerForest;

use crate::dataset::{Read, digits, features, reads};
use crate::floor::Floor;
use crate::heuristic::Limits;
use crate::history::Recorded;
use crate::learned::{Knowledge, WAIT_TICK};
use crate::model::{Kind, Trained};
use crate::units::{self, UnitFunction};
use crate::watch::FEATURES;
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
    /// The most trees of the forest, and leaves of a tree.
    pub trees: usize,
    /// See `trees`.
    pub leaves: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { samples: 200_000, seed: 1, cost: 2.0, trees: 64, leaves: 8 }
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
            let features: Vec<_> = lessons
                .iter()
                .flat_map(|lesson| features(lesson.recorded, &lesson.wanted(), &functions))
                .collect();
            progress(1, 2 + PARTS);
            let floor = Floor::learn(all.iter().map(|read| (read.latency, read.pages)));
            let samples = Samples { features: &features, reads: &all, slow: &slow, floor: &floor };
            learned(functions, samples, options, progress).map_err(failed)
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
#[derive(Clone, Copy)]
struct Samples<'a> {
    features: &'a [[i32; FEATURES]],
    reads: &'a [Read],
    slow: &'a [bool],
    floor: &'a Floor,
}

/// The two forests, of some of the samples.
struct Forests {
    late: Option<IntegerForest>,
    wait: IntegerForest,
}

impl Samples<'_> {
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
        let features: Vec<_> = chosen.iter().map(|&i| self.features[i]).collect();
        let late: Vec<f32> = chosen.iter().map(|&i| f32::from(u8::from(self.slow[i]))).collect();
        // Twice as long is one more, but for what is little beside the floor: what
        // tells two idle drives apart counts as well as what tells two busy ones.
        let unit = (self.floor.latency(1).0 as f32 / 4.0).max(1000.0);
        let log = |excess: Nanos| libm::log2f(1.0 + excess.0 as f32 / unit);
        let waits: Vec<f32> = chosen.iter().map(|&i| log(self.excess(i))).collect();
        let two_classes = late.iter().any(|&l| l != late[0]);
        let logistic = || forest(&features, &late, Objective::Logistic, options);
        Ok(Forests {
            late: two_classes.then(logistic).transpose()?,
            wait: forest(&features, &waits, Objective::Squared, options)?,
        })
    }
}

fn learned(
    functions: Vec<UnitFunction>,
    samples: Samples<'_>,
    options: &Options,
    mut progress: impl FnMut(usize, usize),
) -> Result<Trained, trimtab_learn::Error> {
    // Scores of samples from trees that have not seen them, nor their
    // neighbours in time.
    let count = samples.reads.len();
    let part_of = |i: usize| i * PARTS * STRETCHES / count % PARTS;
    let (mut late, mut waits) = (vec![0; count], vec![0; count]);
    for part in 0..PARTS {
        let forests = samples.forests(|i| part_of(i) != part, options)?;
        for i in (0..count).filter(|&i| part_of(i) == part) {
            let features = &samples.features[i];
            late[i] = forests.late.as_ref().map_or(0, |forest| forest.score(features));
            waits[i] = forests.wait.score(features);
        }
        progress(2 + part, 2 + PARTS);
    }
    let probability = isotonic(&late, samples.slow)?;
    let excesses: Vec<Nanos> = (0..count).map(|i| samples.excess(i)).collect();
    let wait = mean_waits(&waits, &excesses)?;
    // Refusing is right from the probability on at which both mistakes cost the
    // same: p × cost = 1 − p.
    let even = (65536.0 / (1.0 + options.cost)) as i32;
    let refuse_from = probability.first_score_with(even).unwrap_or(i32::MAX);
    let forests = samples.forests(|_| true, options)?;
    progress(2 + PARTS, 2 + PARTS);
    Ok(Trained::Trimtab(Arc::new(Knowledge {
        functions,
        forest: forests.late.expect("there are enough of both classes"),
        probability,
        floor: samples.floor.clone(),
        wait_forest: forests.wait,
        wait,
        refuse_from,
    })))
}

fn forest(
    features: &[[i32; FEATURES]],
    targets: &[f32],
    objective: Objective,
    options: &Options,
) -> Result<IntegerForest, trimtab_learn::Error> {
    let options = boost::Options {
        objective,
        trees: options.trees,
        leaves: options.leaves,
        learning_rate: 0.1,
        // Neighbours in time are alike: a leaf needs more than it seems.
        min_samples: (targets.len() / 200).max(20),
        l2: 5.0,
        row_share: 0.5,
        feature_share: 0.5,
        seed: options.seed,
        ..boost::Options::default()
    };
    let rows = Rows::new(features.as_flattened(), FEATURES)?;
    let data = boost::Data::new(rows, targets, &[], &options)?;
    let model = boost::train(&data, None, &options, |_| ControlFlow::Continue(()))?;
    IntegerForest::new(&model.forest, 16)
}

/// The mean wait by score, in ticks of [`WAIT_TICK`], rising.
fn mean_waits(scores: &[i32], waits: &[Nanos]) -> Result<Table, trimtab_learn::Error> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by_key(|&i| (scores[i], i));
    // Pools of neighbours whose means rise: a pool that is not above the one
    // before is one with it.
    let mut pools: Vec<(i32, u64, u64)> = Vec::new();
    for same in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        let sum = same.iter().map(|&i| waits[i].0).sum();
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
