//! An evaluation: predictors are trained by a protocol, or given as models, and scored on the
//! same reads.

use trimtab_io::Nanos;
use trimtab_predict::{Forecast, Label, LabelRule, Predictor, PredictorKind, Recorded, Trained};

use crate::error::Error;
use crate::evaluate::{Score, forecasts, forecasts_of, score};
use crate::importance::{Importance, importance};
use crate::label::{self, LabelInputs, data_latencies};
use crate::options::TrainingOptions;
use crate::pretrained::{PretrainedModel, labels, unseen};
use crate::protocol::Protocol;
use crate::reads::{Read, reads};
use crate::recording::Recording;
use crate::set::TrainingSet;
use crate::train::train;

/// A recording divided into reads to train on and reads to evaluate on.
#[derive(Debug)]
pub struct Evaluation<'a> {
    recorded: &'a [Recorded],
    source: Source<'a>,
    reads: Vec<Read>,
    /// One for all predictors, or one for each model.
    labels: Vec<Label>,
}

/// Where the predictors come from.
#[derive(Debug)]
enum Source<'a> {
    Sets(Vec<TrainingSet<'a>>),
    Models(&'a [PretrainedModel]),
}

/// A predictor's result.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Its figures.
    pub score: Score,
    /// The importance of each feature, if it is `trimtab`.
    pub importance: Vec<Importance>,
    /// Its forecast of each of the evaluation's [`reads`](Evaluation::reads).
    pub forecasts: Vec<Forecast>,
}

/// What an evaluation does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvaluationStep<'a> {
    /// It trains a predictor.
    Training {
        /// Which.
        kind: PredictorKind,
        /// The number of the step, and of steps; 0 before the first.
        step: usize,
        /// See `step`.
        steps: usize,
    },
    /// It scores a predictor, or the model in this file.
    Scoring(&'a str),
}

impl<'a> Evaluation<'a> {
    /// An evaluation of models on the reads of a recording that none of them was trained on. Each
    /// is evaluated by the label that it was trained on; or all by one label, that of `rule`: the
    /// knee of the recording, or another if all models were trained on it.
    ///
    /// # Errors
    /// No reads are left, or the models were not trained on one label, by this rule.
    ///
    /// # Panics
    /// If there are no models.
    pub fn of_models(
        models: &'a [PretrainedModel],
        rule: Option<LabelRule>,
        recording: &'a Recording,
    ) -> Result<Self, Error> {
        assert!(!models.is_empty(), "there are models");
        let recorded = &recording.recorded[..];
        let reads = unseen(models, recording)?;
        let labels = labels(models, rule, recorded)?;
        Ok(Self { recorded, source: Source::Models(models), reads, labels })
    }

    /// An evaluation on the recording of this index. [`Protocol::LeaveOneOut`] trains on the
    /// others. `peers` are recordings of the other drives, for [`LabelRule::Cost`] and
    /// [`LabelRule::Inflection`]; `failover` is what going to one of these takes, for the former.
    ///
    /// # Errors
    /// The latencies do not divide into fast and slow; or one recording is left out, and there is
    /// no other.
    ///
    /// # Panics
    /// If there is no such recording, or the protocol is [`Protocol::Models`].
    pub fn by_protocol(
        protocol: Protocol,
        rule: LabelRule,
        recordings: &'a [Recording],
        index: usize,
        peers: &[Recording],
        failover: Nanos,
    ) -> Result<Self, Error> {
        let recorded = &recordings[index].recorded[..];
        let all = reads(recorded);
        let (sets, evaluated) = match protocol {
            Protocol::TimeForward => {
                let (past, future) = all.split_at(all.len() / 2);
                (vec![TrainingSet { recorded, reads: past.to_vec() }], future.to_vec())
            }
            Protocol::Leaky => {
                // Each read is on one of the sides, by a hash of its index.
                let is_past = |read: &Read| {
                    (read.index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0
                };
                let (past, future) = all.into_iter().partition(is_past);
                (vec![TrainingSet { recorded, reads: past }], future)
            }
            Protocol::LeaveOneOut => {
                if recordings.len() < 2 {
                    return Err(Error::OneRecording);
                }
                let others = recordings.iter().enumerate().filter(|(i, _)| *i != index);
                (others.map(|(_, other)| TrainingSet::whole(&other.recorded)).collect(), all)
            }
            Protocol::Models => panic!("models are evaluated by Evaluation::of_models"),
        };
        let timed = recordings[index].on_its_clock(peers);
        let peers: Vec<Vec<Nanos>> = peers.iter().map(Recording::read_latencies).collect();
        let peers: Vec<&[Nanos]> = peers.iter().map(Vec::as_slice).collect();
        let all = data_latencies(&[recorded]);
        let options = TrainingOptions { failover, ..TrainingOptions::default() };
        let inputs =
            LabelInputs { sets: &sets, all: &all, peers: &peers, timed: &timed, options: &options };
        let labels = vec![label::make(rule, &inputs)?.label];
        Ok(Self { recorded, source: Source::Sets(sets), reads: evaluated, labels })
    }

    /// The label; `None` if the models are evaluated by labels that differ.
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        let (first, others) = self.labels.split_first()?;
        others.iter().all(|other| other == first).then_some(first)
    }

    /// The label that the predictor of this number is evaluated by.
    #[must_use]
    pub fn label_of(&self, predictor: usize) -> &Label {
        self.labels.get(predictor).unwrap_or(&self.labels[0])
    }

    /// The reads to evaluate on.
    #[must_use]
    pub fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// The number of reads trained on; `None` for models, each of which records its own.
    #[must_use]
    pub fn trained_on(&self) -> Option<usize> {
        match &self.source {
            Source::Sets(all) => {
                let most = TrainingOptions::default().samples;
                Some(all.iter().map(|set| set.reads.len().min(most)).sum())
            }
            Source::Models(_) => None,
        }
    }

    /// The share of slow reads by a label among the reads to evaluate on.
    #[must_use]
    pub fn slow_share(&self, label: &Label) -> f64 {
        let slow = self.reads.iter().filter(|read| read.is_slow(label)).count();
        slow as f64 / self.reads.len().max(1) as f64
    }

    /// Trains every predictor and evaluates it, or evaluates the models, in their order. The
    /// callback gets each step before it is taken.
    ///
    /// # Errors
    /// There are too few reads to train on, or too few of a class.
    pub fn run(
        &self,
        seed: u64,
        mut progress: impl FnMut(EvaluationStep<'_>),
    ) -> Result<Vec<Evaluated>, Error> {
        let sets = match &self.source {
            Source::Models(models) => {
                let one = |(pretrained, label): (&PretrainedModel, &Label)| {
                    progress(EvaluationStep::Scoring(&pretrained.file));
                    self.evaluated(&pretrained.model.trained, label, seed)
                };
                return Ok(models.iter().zip(&self.labels).map(one).collect());
            }
            Source::Sets(sets) => sets,
        };
        // Nothing steered reads in a recording.
        let options = TrainingOptions { seed, steered: 0.0, ..TrainingOptions::default() };
        let label = &self.labels[0];
        let one = |kind: PredictorKind| {
            progress(EvaluationStep::Training { kind, step: 0, steps: 0 });
            let trained = train(kind, sets, label, &options, |step, steps| {
                progress(EvaluationStep::Training { kind, step, steps });
            })?;
            progress(EvaluationStep::Scoring(kind.name()));
            Ok(self.evaluated(&trained, label, seed))
        };
        PredictorKind::ALL.into_iter().map(one).collect()
    }

    /// Evaluates a predictor that needs no training, in its initial state, by the label of the
    /// first.
    #[must_use]
    pub fn of_predictor(&self, predictor: Box<dyn Predictor>) -> Evaluated {
        let name = predictor.name();
        let forecasts = forecasts_of(predictor, self.recorded, &self.reads);
        let score = score(name, &forecasts, self.recorded, &self.reads, &self.labels[0]);
        Evaluated { score, importance: Vec::new(), forecasts: forecasts.all }
    }

    fn evaluated(&self, trained: &Trained, label: &Label, seed: u64) -> Evaluated {
        let Self { recorded, reads, .. } = self;
        let forecasts = forecasts(trained, recorded, reads);
        let score = score(trained.kind().name(), &forecasts, recorded, reads, label);
        let importance = match trained {
            Trained::Trimtab(model) => importance(model, recorded, reads, label, seed),
            _ => Vec::new(),
        };
        Evaluated { score, importance, forecasts: forecasts.all }
    }
}
