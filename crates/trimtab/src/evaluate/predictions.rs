//! The file of all forecasts and outcomes.

use std::path::Path;

use anyhow::Result;
use trimtab_predict::{Forecast, Label, Verdict};
use trimtab_trace::{Prediction, PredictionSource, PredictionWriter};
use trimtab_train::{Evaluated, Evaluation, PretrainedModel, Read, Recording};

use crate::output::{must_be_a_file, must_not_replace};

/// The file being written.
pub(super) struct Predictions(PredictionWriter);

impl Predictions {
    /// Begins the file, before minutes of training; none of the `inputs` is replaced.
    pub(super) fn create(out: &Path, inputs: &[&Path]) -> Result<Self> {
        must_be_a_file(out)?;
        must_not_replace(out, inputs)?;
        Ok(Self(PredictionWriter::create(out)?))
    }

    /// Appends the forecasts of all predictors on a recording. `models` are the given models,
    /// if there are any.
    pub(super) fn write(
        &mut self,
        recording: &Recording,
        evaluation: &Evaluation<'_>,
        evaluated: &[Evaluated],
        models: &[PretrainedModel],
    ) -> Result<()> {
        let prediction = |label: &Label, read: &Read, forecast: &Forecast| {
            let request = &recording.recorded[read.index].request;
            Prediction {
                arrival: request.arrival,
                offset: request.offset,
                length: request.length,
                latency: read.latency,
                threshold_ns: label.limit_ns(read.pages, read.load),
                score: forecast.probability,
                refused: forecast.verdict == Verdict::Late,
                forecast: forecast.wait,
            }
        };
        for (i, one) in evaluated.iter().enumerate() {
            let rows = evaluation.reads().iter().zip(&one.forecasts);
            let label = evaluation.label_of(i);
            let rows: Vec<Prediction> =
                rows.map(|(read, forecast)| prediction(label, read, forecast)).collect();
            let source = PredictionSource {
                recording: &recording.name,
                predictor: one.score.predictor,
                model: models.get(i).map(|model| model.file.as_str()),
            };
            self.0.write(source, &rows)?;
        }
        Ok(())
    }

    /// Completes the file.
    pub(super) fn finish(self) -> Result<()> {
        Ok(self.0.finish()?)
    }
}
