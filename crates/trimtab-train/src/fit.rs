//! Blocks of forecasts and outcomes, by which a model is judged (see [`FitReference`]).
//!
//! [`FitReference`]: trimtab_predict::FitReference

use trimtab_predict::{FIT_MEASURES, FitBlocks, Forecast, Label, fit_measures};

use crate::reads::Read;

/// The measures of the blocks of reads. The forecasts are those of the last of the reads.
pub(crate) fn fit_blocks(
    forecasts: &[Forecast],
    reads: &[Read],
    label: &Label,
) -> Vec<[f64; FIT_MEASURES]> {
    let reads = &reads[reads.len() - forecasts.len()..];
    let mut blocks = FitBlocks::default();
    let measures = reads.iter().zip(forecasts).map(|(read, forecast)| {
        let threshold = label.limit_ns(read.pages, read.load);
        fit_measures(forecast, read.latency, read.is_slow(label), threshold)
    });
    measures.filter_map(|measures| blocks.add(measures)).collect()
}
