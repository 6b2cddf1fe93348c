//! Fit: are a model's forecasts worth on a drive what they were worth in training?
//!
//! A single statistic cannot say. Slow reads come in bursts, so that the share of slow reads, a
//! percentile, or the calibration of an hour differ from those of another hour on the same drive
//! by far more than independent reads would. How far, the training's own recording tells: it is
//! cut into blocks of [`FIT_BLOCK`] reads, each is described by four [`FitMeasure`]s of forecasts
//! against outcomes, and mean and spread of these over the blocks are kept with the model, the
//! [`FitReference`]. A recording of today is cut in the same way. If the mean of a measure over
//! its blocks is farther from the training's than the spread explains, the model does not fit.
//!
//! The test is Welch's *t*-test of two samples of block means (B. L. Welch, Biometrika 34, 1947),
//! for each measure, at a level of 1% for all together (Bonferroni). Blocks of a busy hour
//! resemble each other, which a spread over blocks misses: it is taken from segments of several
//! blocks too, and the larger one counts ("batch means": Law, *Simulation Modeling and Analysis*,
//! §9.5.3). A difference without practical relevance ([`FitMeasure::tolerance`]) never counts,
//! however many reads there are.

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

use crate::predictor::Forecast;

/// Reads per block.
pub const FIT_BLOCK: usize = 50;

/// How many measures there are.
pub const FIT_MEASURES: usize = FitMeasure::ALL.len();

/// Segments of the training's blocks, between which the mean may vary.
const SEGMENTS: usize = 8;

/// Probability that a fitting model is called unfit, for each of two sides of each measure: 1%
/// together. The corresponding quantile of the normal distribution.
const NORMAL_LIMIT: f64 = 3.023;

/// Probabilities are kept this far from 0 and 1, where a single surprise would be infinite.
const LEAST_PROBABILITY: f64 = 0.005;

/// A latency counts as at most this many times longer or shorter than expected: e³.
const MOST_LOG_RATIO: f64 = 3.0;

/// What a block of reads is described by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FitMeasure {
    /// Mean of outcome − probability, the outcome being 1 for a slow read and 0 for another:
    /// are there as many slow reads as forecast?
    SlowReads,
    /// Mean of −ln(probability of what happened), less what the probabilities themselves expect
    /// of it, nats: are they the reads that were forecast to be slow?
    Surprise,
    /// Mean of ln(latency / expected latency): is the drive as fast as forecast?
    Latency,
    /// Mean of |ln(latency / expected latency)|: how well are latencies told apart?
    Error,
}

impl FitMeasure {
    /// All, in the order of arrays.
    pub const ALL: [Self; 4] = [Self::SlowReads, Self::Surprise, Self::Latency, Self::Error];

    /// A difference of this size has no practical relevance: 1.5% of the reads, 0.015 nats, 4% of
    /// the latency. The test adds it to the uncertainty as one standard error.
    #[must_use]
    pub const fn tolerance(self) -> f64 {
        match self {
            Self::SlowReads | Self::Surprise => 0.015,
            Self::Latency | Self::Error => 0.04,
        }
    }
}

/// The measures of a single read.
///
/// `threshold` takes the place of the expected latency if the predictor gives none, ns.
#[must_use]
pub fn fit_measures(
    forecast: &Forecast,
    latency: Nanos,
    slow: bool,
    threshold: f64,
) -> [f64; FIT_MEASURES] {
    let probability =
        f64::from(forecast.probability).clamp(LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY);
    let (ln, ln_not) = (libm::log(probability), libm::log(1.0 - probability));
    let expected = forecast.wait.map_or(threshold, |wait| wait.0 as f64);
    // An infinite threshold, where no read is slow, says nothing.
    let ratio = match expected.is_finite() {
        true => libm::log(latency.0.max(1) as f64 / expected.max(1.0)),
        false => 0.0,
    };
    let ratio = ratio.clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO);
    [
        f64::from(u8::from(slow)) - probability,
        if slow { -ln } else { -ln_not } + probability * ln + (1.0 - probability) * ln_not,
        ratio,
        ratio.abs(),
    ]
}

/// Divides reads into blocks, in the order in which they come. It allocates nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct FitBlocks {
    reads: usize,
    sums: [f64; FIT_MEASURES],
}

impl FitBlocks {
    /// Adds a read's measures; returns the means of the block that it completes.
    pub fn add(&mut self, measures: [f64; FIT_MEASURES]) -> Option<[f64; FIT_MEASURES]> {
        self.reads += 1;
        for (sum, measure) in self.sums.iter_mut().zip(measures) {
            *sum += measure;
        }
        (self.reads == FIT_BLOCK)
            .then(|| std::mem::take(self).sums.map(|sum| sum / FIT_BLOCK as f64))
    }
}

/// The measures of the reads that a model was trained on, from forecasts that had not seen them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FitReference {
    /// Blocks of [`FIT_BLOCK`] reads.
    pub blocks: usize,
    /// Mean over the blocks, by [`FitMeasure::ALL`].
    pub mean: [f64; FIT_MEASURES],
    /// Standard deviation of a block, if blocks were independent: from that of blocks, or of
    /// segments of several, whichever is larger.
    pub deviation: [f64; FIT_MEASURES],
}

impl FitReference {
    /// The fewest blocks: a spread needs more than two.
    pub const LEAST_BLOCKS: usize = 3;

    /// From blocks in the order of time; `None` if there are too few.
    #[must_use]
    pub fn new(blocks: &[[f64; FIT_MEASURES]]) -> Option<Self> {
        if blocks.len() < Self::LEAST_BLOCKS {
            return None;
        }
        let of = |measure: usize| -> Vec<f64> { blocks.iter().map(|b| b[measure]).collect() };
        let moments: [(f64, f64); FIT_MEASURES] = std::array::from_fn(|measure| {
            let values = of(measure);
            let (mean, variance) = moments(&values);
            // With two blocks or more in each, segments tell whether neighbours are alike.
            let variance = match values.len() >= 2 * SEGMENTS {
                true => {
                    let (at, per) = (values.len() / SEGMENTS, values.len() as f64);
                    let means: Vec<f64> = (0..SEGMENTS)
                        .map(|i| {
                            let end = if i + 1 == SEGMENTS { values.len() } else { (i + 1) * at };
                            moments(&values[i * at..end]).0
                        })
                        .collect();
                    variance.max(moments(&means).1 * per / SEGMENTS as f64)
                }
                false => variance,
            };
            (mean, variance.sqrt())
        });
        Some(Self {
            blocks: blocks.len(),
            mean: moments.map(|(mean, _)| mean),
            deviation: moments.map(|(_, deviation)| deviation),
        })
    }

    /// Tests the blocks of another recording; `None` if there are none.
    #[must_use]
    pub fn test(&self, blocks: &[[f64; FIT_MEASURES]]) -> Option<FitTest> {
        let first = blocks.first()?;
        let (now, then) = (blocks.len() as f64, self.blocks as f64);
        let mut found = FitTest {
            blocks: blocks.len(),
            mean: *first,
            errors: [0.0; FIT_MEASURES],
            limit: limit(then - 1.0),
        };
        for (i, measure) in FitMeasure::ALL.into_iter().enumerate() {
            found.mean[i] = blocks.iter().map(|block| block[i]).sum::<f64>() / now;
            let variance = self.deviation[i] * self.deviation[i] * (1.0 / now + 1.0 / then);
            let tolerance = measure.tolerance();
            let error = (variance + tolerance * tolerance).sqrt();
            found.errors[i] = (found.mean[i] - self.mean[i]) / error;
        }
        Some(found)
    }
}

/// The result of a test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FitTest {
    /// Blocks tested.
    pub blocks: usize,
    /// Mean over these blocks, by [`FitMeasure::ALL`].
    pub mean: [f64; FIT_MEASURES],
    /// Difference to the training's mean, in standard errors.
    pub errors: [f64; FIT_MEASURES],
    /// A model fits if no difference is larger than this, in standard errors.
    pub limit: f64,
}

impl FitTest {
    /// Whether the model fits.
    #[must_use]
    pub fn fits(&self) -> bool {
        self.errors.iter().all(|error| error.abs() <= self.limit)
    }

    /// The measure that is farthest off, and by how many standard errors.
    #[must_use]
    pub fn worst(&self) -> (FitMeasure, f64) {
        let all = FitMeasure::ALL.into_iter().zip(self.errors);
        all.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).expect("there are measures")
    }
}

/// Mean, and variance of a single value.
fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    (mean, squares / (count - 1.0).max(1.0))
}

/// The quantile of Student's *t* distribution that corresponds to [`NORMAL_LIMIT`]: the first
/// terms of its expansion in the degrees of freedom (Abramowitz and Stegun, 26.7.5).
fn limit(freedom: f64) -> f64 {
    let x = NORMAL_LIMIT;
    let (x3, x5) = (x.powi(3), x.powi(5));
    x + (x3 + x) / (4.0 * freedom) + (5.0 * x5 + 16.0 * x3 + 3.0 * x) / (96.0 * freedom * freedom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predictor::Verdict;

    fn random(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as f64 / (1 << 24) as f64
        }
    }

    /// Blocks of reads with probabilities up to 0.6 that come true as `truth` makes of them, and
    /// latencies of `factor` times the expected ones, half to twice as long.
    fn blocks(count: usize, seed: u64, truth: fn(f64) -> f64, factor: f64) -> Vec<[f64; 4]> {
        let (mut random, mut blocks, mut found) = (random(seed), FitBlocks::default(), Vec::new());
        while found.len() < count {
            let probability = 0.6 * random();
            let forecast = Forecast {
                verdict: Verdict::Fast,
                probability: probability as f32,
                wait: Some(Nanos(100_000)),
                fast: None,
            };
            let slow = random() < truth(probability);
            let latency = Nanos((100_000.0 * factor * (0.5 + 1.5 * random())) as u64);
            found.extend(blocks.add(fit_measures(&forecast, latency, slow, 1e6)));
        }
        found
    }

    #[test]
    fn calibrated_forecasts_fit_in_99_of_100_recordings() {
        let mut unfit = 0;
        for seed in 0..200 {
            let reference = FitReference::new(&blocks(200, seed, |p| p, 1.0)).unwrap();
            assert!(reference.mean[0].abs() < 0.03 && reference.mean[1].abs() < 0.03);
            let test = reference.test(&blocks(50, seed + 1000, |p| p, 1.0)).unwrap();
            unfit += u32::from(!test.fits());
        }
        assert!(unfit <= 4, "{unfit} of 200");
    }

    #[test]
    fn changes_do_not_fit() {
        let reference = FitReference::new(&blocks(200, 1, |p| p, 1.0)).unwrap();
        let worst = |blocks: &[[f64; 4]]| {
            let test = reference.test(blocks).unwrap();
            assert!(!test.fits(), "{test:?}");
            test.worst().0
        };
        // Nothing is slow any more; other reads are slow; all is a third slower.
        assert_eq!(worst(&blocks(20, 2, |_| 0.0, 1.0)), FitMeasure::SlowReads);
        assert_eq!(worst(&blocks(20, 3, |p| 0.6 - p, 1.0)), FitMeasure::Surprise);
        assert_eq!(worst(&blocks(20, 4, |p| p, 1.33)), FitMeasure::Latency);
    }

    #[test]
    fn irrelevant_differences_fit_however_many_reads() {
        let reference = FitReference::new(&blocks(200, 1, |p| p, 1.0)).unwrap();
        assert!(reference.test(&blocks(4000, 5, |p| p, 1.02)).unwrap().fits());
    }

    #[test]
    fn alike_neighbours_widen_the_spread() {
        let slowly = |i: usize| [if (i / 8).is_multiple_of(2) { 0.1 } else { -0.1 }; 4];
        let mixed = |i: usize| [if i.is_multiple_of(2) { 0.1 } else { -0.1 }; 4];
        let of = |value: fn(usize) -> [f64; 4]| {
            FitReference::new(&(0..64).map(value).collect::<Vec<_>>()).unwrap().deviation[0]
        };
        assert!(of(slowly) > 2.5 * of(mixed), "{} {}", of(slowly), of(mixed));
    }

    #[test]
    fn too_few_blocks_have_no_spread() {
        assert_eq!(FitReference::new(&[[0.0; 4]; 2]), None);
        let reference = FitReference::new(&[[0.0; 4]; 3]).unwrap();
        assert_eq!(reference.test(&[]), None);
        // Fewer blocks to learn the spread from leave more room.
        assert!(limit(2.0) > 6.0 && limit(12.0) < 3.9 && limit(1e6) < 3.03);
    }

    #[test]
    fn measures_are_finite_whatever_the_forecast() {
        for probability in [0.0, 1.0] {
            for (wait, threshold) in [(Some(Nanos(0)), 1.0), (None, f64::INFINITY)] {
                let forecast = Forecast { verdict: Verdict::Late, probability, wait, fast: None };
                for slow in [false, true] {
                    let found = fit_measures(&forecast, Nanos(0), slow, threshold);
                    assert!(found.iter().all(|x| x.is_finite()), "{found:?}");
                }
            }
        }
    }
}
