//! What is trained on, and what is judged by.

use std::str::FromStr;

use anyhow::Result;
use serde::Serialize;
use trimtab_io::Nanos;
use trimtab_predict::label::data_latencies;
use trimtab_predict::{
    Importance, Kind, Label, Lesson, Options, Read, Recorded, Rule, Score, Trained, evaluate,
    importance, reads, train,
};

use super::models::Judge;
use crate::exit::BadInput;
use crate::learning::Recording;
use crate::progress::{Progress, during};

/// How past and future are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Protocol {
    TimeForward,
    LeaveOneOut,
    Leaky,
    /// Nothing is trained: models are given.
    Models,
}

impl Protocol {
    /// The word used in options, tables and JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::TimeForward => "time-forward",
            Self::LeaveOneOut => "leave-one-out",
            Self::Leaky => "leaky",
            Self::Models => "models",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "time-forward" => Ok(Self::TimeForward),
            "leave-one-out" => Ok(Self::LeaveOneOut),
            "leaky" => Ok(Self::Leaky),
            _ => Err("expected time-forward, leave-one-out or leaky".into()),
        }
    }
}

/// A recording divided.
pub(super) struct Judged<'a> {
    recorded: &'a [Recorded],
    teacher: Teacher<'a>,
    reads: Vec<Read>,
    label: Label,
}

/// Where what is judged comes from.
enum Teacher<'a> {
    Lessons(Vec<Lesson<'a>>),
    Models(&'a [Judge]),
}

impl<'a> Judged<'a> {
    /// What is left of a recording to judge models by.
    pub(super) fn by_models(
        models: &'a [Judge],
        rule: Rule,
        recording: &'a Recording,
    ) -> Result<Self> {
        let recorded = &recording.recorded[..];
        let reads = Judge::unseen(models, recording)?;
        let label = Judge::label(models, rule, recorded)?;
        Ok(Self { recorded, teacher: Teacher::Models(models), reads, label })
    }

    /// Divides the recording with this number; for `leave-one-out` the others are
    /// the lessons.
    pub(super) fn new(
        protocol: Protocol,
        rule: Rule,
        recordings: &'a [Recording],
        number: usize,
        peers: &[Recording],
    ) -> Result<Self> {
        let recorded = &recordings[number].recorded[..];
        let all = reads(recorded);
        let (lessons, judged) = match protocol {
            Protocol::TimeForward => {
                let (past, future) = all.split_at(all.len() / 2);
                (vec![Lesson { recorded, reads: past.to_vec() }], future.to_vec())
            }
            Protocol::Leaky => {
                // Every read is on one of the sides, by a hash of its number.
                let is_past = |read: &Read| {
                    (read.index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0
                };
                let (past, future) = all.into_iter().partition(is_past);
                (vec![Lesson { recorded, reads: past }], future)
            }
            Protocol::LeaveOneOut => {
                if recordings.len() < 2 {
                    let text = "leave-one-out takes at least two recordings, give more --trace";
                    return Err(BadInput(text.into()).into());
                }
                let others = recordings.iter().enumerate().filter(|(i, _)| *i != number);
                (others.map(|(_, other)| Lesson::whole(&other.recorded)).collect(), all)
            }
            Protocol::Models => unreachable!("models are not divided by"),
        };
        let past: Vec<Read> = lessons.iter().flat_map(|lesson| lesson.reads.clone()).collect();
        let peers: Vec<Vec<Nanos>> = peers.iter().map(read_latencies).collect();
        let peers: Vec<&[Nanos]> = peers.iter().map(Vec::as_slice).collect();
        let label = Label::make(rule, &past, &data_latencies(&[recorded]), &peers)?;
        Ok(Self { recorded, teacher: Teacher::Lessons(lessons), reads: judged, label })
    }

    pub(super) const fn label(&self) -> &Label {
        &self.label
    }

    /// The reads judged by.
    pub(super) fn reads(&self) -> &[Read] {
        &self.reads
    }

    /// How many reads were trained on, if it is known to all alike.
    pub(super) fn trained_on(&self) -> Option<usize> {
        match &self.teacher {
            Teacher::Lessons(all) => {
                let most = Options::default().samples;
                Some(all.iter().map(|lesson| lesson.reads.len().min(most)).sum())
            }
            Teacher::Models(_) => None,
        }
    }

    pub(super) fn slow_share(&self) -> f64 {
        let slow = self.reads.iter().filter(|read| self.label.is_slow_read(read)).count();
        slow as f64 / self.reads.len().max(1) as f64
    }

    /// Trains every predictor and judges it, or judges the models.
    pub(super) fn scores(&self, seed: u64) -> Result<Vec<(Score, Vec<Importance>)>> {
        let scored = |trained: &Trained| {
            let score = evaluate(trained, self.recorded, &self.reads, &self.label);
            let importance = match trained {
                Trained::Trimtab(known) => {
                    importance(known, self.recorded, &self.reads, &self.label, seed)
                }
                _ => Vec::new(),
            };
            (score, importance)
        };
        let score =
            |trained: &Trained, name: &str| during(&format!("scoring {name}"), || scored(trained));
        let lessons = match &self.teacher {
            Teacher::Models(models) => {
                return Ok(models
                    .iter()
                    .map(|judge| score(&judge.model.trained, judge.file()))
                    .collect());
            }
            Teacher::Lessons(lessons) => lessons,
        };
        // Nobody steers in a recording.
        let options = Options { seed, steered: 0.0, ..Options::default() };
        let one = |kind: Kind| {
            let mut progress = Progress::new();
            let trained = during(&format!("training {}", kind.name()), || {
                train(kind, lessons, &self.label, &options, |step, steps| {
                    progress.show(|_| format!("training {}: {step} of {steps}", kind.name()));
                })
            })?;
            drop(progress);
            Ok(score(&trained, kind.name()))
        };
        Kind::ALL.into_iter().map(one).collect()
    }
}

fn read_latencies(recording: &Recording) -> Vec<Nanos> {
    let reads = recording.recorded.iter().filter(|recorded| recorded.is_read());
    let mut latencies: Vec<Nanos> = reads.map(Recorded::latency).collect();
    latencies.sort_unstable();
    latencies
}
