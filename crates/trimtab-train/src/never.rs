//! Predictors that never refuse, for drives on which no threshold pays.
//!
//! Such a predictor admits every read, so that a drive with it is read as without any. Where
//! there is enough to learn from, `trimtab` still forecasts latencies: replicas that hardly vary
//! may be unlike each other, and a queue makes any drive slower.

use trimtab_io::Nanos;
use trimtab_learn::calibrate::Table;
use trimtab_learn::forest::IntegerForest;
use trimtab_learn::integer::LinnOs;
use trimtab_learn::tree::Forest;
use trimtab_predict::{
    BaseLatency, DIGITS, FEATURES, Forecast, ForestModel, HeuristicLimits, Label, PredictorKind,
    Trained,
};

use crate::error::Error;
use crate::forests::{self, FRACTION_BITS};
use crate::options::TrainingOptions;
use crate::reads::latencies;
use crate::set::TrainingSet;
use crate::train::{LEAST_READS, past_reads};
use crate::units;

/// Trains a predictor that never refuses: every verdict is [`Fast`](trimtab_predict::Verdict).
/// It takes any number of reads, also none. With too few to train on, `trimtab` forecasts the
/// median latency.
///
/// # Errors
/// The learning library fails.
pub fn train_never(
    kind: PredictorKind,
    sets: &[TrainingSet<'_>],
    options: &TrainingOptions,
    progress: impl FnMut(usize, usize),
) -> Result<Trained, Error> {
    Ok(never_and_forecast(kind, sets, options, progress)?.0)
}

/// As [`train_never`], and the forecasts for the last reads by trees that have not seen them.
pub(crate) fn never_and_forecast(
    kind: PredictorKind,
    sets: &[TrainingSet<'_>],
    options: &TrainingOptions,
    progress: impl FnMut(usize, usize),
) -> Result<(Trained, Option<Vec<Forecast>>), Error> {
    let failed = |source| Error::Learn { predictor: kind.name(), source };
    match kind {
        PredictorKind::HeurSim => Ok((Trained::HeurSim(limits()), None)),
        PredictorKind::HeurAdv => Ok((Trained::HeurAdv(limits()), None)),
        PredictorKind::Linnos => Ok((Trained::Linnos(network().map_err(failed)?), None)),
        PredictorKind::Trimtab => {
            let (sets, reads) = past_reads(sets, options);
            if reads.len() < LEAST_READS {
                let sorted = latencies(&reads);
                let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
                return Ok((constant(median).map_err(failed)?.into(), None));
            }
            let past: Vec<_> = sets.iter().map(TrainingSet::past).collect();
            let (functions, label) = (units::find(&past).functions, nothing_is_slow());
            let model = forests::train(functions, &sets, reads, &label, options, progress);
            let (model, unseen) = model.map_err(failed)?;
            Ok((model.into(), Some(unseen)))
        }
        PredictorKind::MittState => Err(Error::Untrained { predictor: kind.name() }),
    }
}

const fn nothing_is_slow() -> Label {
    Label::Never { reason: String::new() }
}

/// A queue is never so long, and no read so late.
fn limits() -> HeuristicLimits {
    let endless = u32::MAX as usize;
    HeuristicLimits { slow: Nanos::MAX, high: endless, median: endless, low: endless }
}

/// A network whose first output, for fast, is always the greater one.
fn network() -> Result<std::sync::Arc<LinnOs>, trimtab_learn::Error> {
    const HIDDEN: usize = 256;
    let (first, second) = (vec![0; DIGITS * HIDDEN], vec![0; 2 * HIDDEN]);
    Ok(LinnOs::new(&first, &[0; HIDDEN], &second, [1_000_000, 0])?.into())
}

/// Forests without trees: each read takes `latency`.
fn constant(latency: Nanos) -> Result<ForestModel, trimtab_learn::Error> {
    let forest = no_trees()?;
    let zero = || Table::new([].into(), [0].into());
    let point = (1, u32::try_from(latency.0).unwrap_or(u32::MAX));
    Ok(ForestModel {
        functions: Vec::new(),
        forest: forest.clone(),
        probability: zero()?,
        base_latency: BaseLatency::new(vec![point]).expect("one point rises"),
        wait_forest: forest.clone(),
        wait: zero()?,
        fast_forest: forest,
        fast: zero()?,
        late: Nanos::ZERO,
        refuse_from: i32::MAX,
    })
}

/// A forest whose score is always 0.
pub(crate) fn no_trees() -> Result<IntegerForest, trimtab_learn::Error> {
    IntegerForest::new(&Forest::new(FEATURES, 0.0, Vec::new())?, FRACTION_BITS)
}

#[cfg(test)]
mod tests {
    use trimtab_predict::{Model, Verdict};

    use super::*;
    use crate::evaluate::forecasts;
    use crate::reads::reads;
    use crate::testing::{model_of, recording};

    #[test]
    fn no_read_is_refused_and_the_files_hold_the_reason() {
        let recorded = recording();
        for count in [recorded.len(), 300, 1, 0] {
            let part = &recorded[..count];
            let set = [TrainingSet::whole(part)];
            for kind in PredictorKind::ALL {
                let options = TrainingOptions::default();
                let trained = train_never(kind, &set, &options, |_, _| {}).unwrap();
                let mut card = model_of(kind, &recorded).card;
                card.label = Label::Never { reason: "nothing to gain".to_owned() };
                let model = Model::new(trained, card.rule, card.label, card.training);
                let (tensors, text) = model.to_files().unwrap();
                let Ok(read) = Model::from_files(&tensors, &text) else { panic!("{kind:?}") };
                assert_eq!(read.card.label.never(), Some("nothing to gain"));
                let all = forecasts(&read.trained, &recorded, &reads(&recorded)).all;
                assert!(all.iter().all(|f| f.verdict == Verdict::Fast), "{kind:?} of {count}");
                let waits = all.iter().filter_map(|forecast| forecast.wait);
                let expected = if kind == PredictorKind::Trimtab { all.len() } else { 0 };
                assert_eq!(waits.count(), expected, "{kind:?}");
                if kind == PredictorKind::Trimtab && count < LEAST_READS {
                    let sorted = latencies(&reads(part));
                    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
                    assert!(all.iter().all(|f| f.wait == Some(median)), "{median} of {count}");
                }
            }
        }
    }
}
