//! From a recording to a model: what is slow, what tells it beforehand, and a card
//! that says what it was learnt from.

use trimtab_io::Nanos;

use crate::label::{data_latencies, inflection};
use crate::train::{Lesson, Options, train};
use crate::{
    Error, Kind, Label, Model, Read, Recorded, Rule, Training, evaluate, fingerprint, reads,
};

/// What shall be learnt, and from what.
#[derive(Clone, Copy, Debug)]
pub struct Teaching<'a> {
    /// Which predictor.
    pub kind: Kind,
    /// The rule that says what is slow.
    pub rule: Rule,
    /// The recording's name, for people.
    pub name: &'a str,
    /// The recording, in order of arrival.
    pub recorded: &'a [Recorded],
    /// Which of its reads are learnt from; what came after the last of them is not
    /// there yet.
    pub past: &'a [Read],
    /// The read latencies of the other drives, each ascending, for
    /// [`Rule::Inflection`]. Without them the drive is its own peer.
    pub peers: &'a [&'a [Nanos]],
    /// How to train.
    pub options: &'a Options,
}

/// A model, and the latencies that it was taught by, ascending.
#[derive(Debug)]
pub struct Taught {
    /// The model.
    pub model: Model,
    /// The latencies of all the reads that it could learn from.
    pub latencies: Vec<Nanos>,
}

impl Teaching<'_> {
    /// Makes a label, trains, and judges. `progress` is told what is going on, in
    /// steps out of steps.
    ///
    /// # Errors
    /// There is too little to learn from, or the latencies do not divide into fast
    /// and slow.
    pub fn run(&self, progress: impl FnMut(usize, usize)) -> Result<Taught, Error> {
        let Self { kind, rule, recorded, past, peers, options, .. } = *self;
        let seen = past.last().map_or(0, |read| read.index + 1);
        let label = Label::make(rule, past, &data_latencies(&[&recorded[..seen]]), peers)?;
        let lesson = Lesson { recorded, reads: past.to_vec() };
        let trained = train(kind, &[lesson], &label, options, progress)?;
        let score = evaluate(&trained, recorded, past, &label);
        let mut latencies: Vec<Nanos> = past.iter().map(|read| read.latency).collect();
        latencies.sort_unstable();
        let training = Training {
            trace: self.name.to_owned(),
            fingerprint: fingerprint(recorded),
            reads: past.len().min(options.samples),
            slow: past.iter().filter(|read| label.is_slow_read(read)).count(),
            until: past.last().map_or(Nanos::ZERO, |read| recorded[read.index].request.arrival),
            inflection_percentile: inflection(&latencies, peers, 1).map(|found| found.percentile),
            false_submit_rate: score.false_submit_rate,
            seed: options.seed,
        };
        Ok(Taught { model: Model::new(trained, rule, label, training), latencies })
    }
}

impl Model {
    /// Learns from all reads of a recording what this model had learnt from another:
    /// the same predictor, the same rule for what is slow. `name` is the recording's,
    /// for people.
    ///
    /// # Errors
    /// As [`Teaching::run`].
    pub fn again(&self, name: &str, recorded: &[Recorded]) -> Result<Self, Error> {
        let teaching = Teaching {
            kind: self.card.predictor,
            rule: self.card.rule,
            name,
            recorded,
            past: &reads(recorded),
            peers: &[],
            options: &Options { seed: self.card.training.seed, ..Options::default() },
        };
        Ok(teaching.run(|_, _| {})?.model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{data_model, recording};

    #[test]
    fn learning_the_same_again_gives_the_same() {
        let recorded = recording();
        for kind in [Kind::HeurSim, Kind::Trimtab] {
            let first = data_model(kind, &recorded);
            let second = first.again("recording", &recorded).unwrap();
            assert_eq!(first.to_files().unwrap(), second.to_files().unwrap());
        }
    }

    #[test]
    fn too_little_is_an_error() {
        let recorded = recording();
        let model = data_model(Kind::HeurSim, &recorded);
        let error = model.again("few", &recorded[..500]).unwrap_err();
        assert!(error.to_string().contains("at least 1000 are needed"), "{error}");
    }
}
