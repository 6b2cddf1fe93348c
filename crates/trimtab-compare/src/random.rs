//! Strategies compared on arrays that nobody tuned for: a series of arrays drawn at random.
//!
//! Each array is a scenario of its own, with drives, workloads and costs drawn from a documented
//! space ([`random_array`]), and is compared as any other, with one seed. A [`SeriesSummary`] then
//! answers, over all arrays: where is a strategy worse than reading the primary replica, with
//! confidence, and how far is it from the best one?
//!
//! # What is worse
//!
//! Strategies serve the same reads, so their latencies are compared read by read. A strategy is
//! worse than `base` in a figure (mean, p99, p99.9) if it exceeds it by more than [`MARGIN`] and
//! by more than [`LEAST`], with confidence: the standard error of the difference comes from a
//! bootstrap over blocks of consecutive reads (Künsch, 1989), because neighbouring reads share
//! their drive's stalls. The one-sided p-values of all arrays and figures are corrected by the
//! method of Holm (1979).

mod draw;
mod drive;
mod event;
mod mix;
mod paired;
mod recorded;
mod summary;
mod throughput;

pub use draw::{RandomArray, Traits, random_array};
pub use paired::{Paired, holm};
pub use recorded::Recording;
pub use summary::{SeriesSummary, Standing, StrategySummary};

use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use trimtab_io::{Nanos, Op, derived_seed};
use trimtab_sim::parallel;

use crate::error::Error;
use crate::figures::Figures;
use crate::prepare::prepare;
use crate::simulated::phase_two_of_each_read;
use crate::spec::{Comparison, Entry};
use crate::trainer::Trainer;
use paired::{Statistic, exceeds, paired};

/// The figures in which strategies are compared, by their keys.
pub const FIGURES: [&str; 3] = ["mean_ns", "p99_ns", "p99.9_ns"];
const STATISTICS: [Statistic; 3] =
    [Statistic::Mean, Statistic::Quantile(0.99), Statistic::Quantile(0.999)];

/// A difference of less than this share of `base` is none.
pub const MARGIN: f64 = 0.02;
/// A difference of less than this is none.
pub const LEAST: Nanos = Nanos::from_micros(2);
/// The level of the tests.
pub const LEVEL: f64 = 0.01;
/// A strategy is about as good as another up to this share.
pub const TIE: f64 = 0.05;

/// What is run on each array.
#[derive(Clone, Debug)]
pub struct SeriesOptions {
    /// The number of arrays.
    pub arrays: u64,
    /// The number of the first one.
    pub first: u64,
    /// The seed of the series.
    pub seed: u64,
    /// Recordings, one of which some of the arrays replay.
    pub recordings: Vec<Recording>,
    /// The rows: strategies as entries of a scenario, in TOML. `base` is the first, the last is
    /// the one that is judged.
    pub rows: Vec<String>,
    /// Lines of TOML for each scenario, such as `tuning.margin = 0.1`.
    pub settings: String,
    /// Threads, each with an array of its own.
    pub threads: usize,
    /// No array is begun after this time.
    pub until: Option<Instant>,
}

impl SeriesOptions {
    /// The array of this number.
    ///
    /// # Errors
    /// As [`random_array`].
    pub fn array(&self, number: u64) -> Result<RandomArray, trimtab_sim::Error> {
        random_array(self.seed, number, &self.recordings)
    }
}

/// The result on one array.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayResult {
    /// Its number.
    pub number: u64,
    /// What was drawn.
    pub traits: Traits,
    /// Reads that were judged.
    pub reads: u64,
    /// By strategy.
    pub figures: Vec<Figures>,
    /// The judged strategy against `base`, for each of [`FIGURES`].
    pub against_base: Vec<Paired>,
}

/// An array of a series cannot be compared.
#[derive(Debug, thiserror::Error)]
#[error("array {number}: {source}")]
pub struct ArrayError {
    /// Its number.
    pub number: u64,
    /// Why not.
    pub source: Error,
}

/// A series.
#[derive(Debug)]
pub struct Series {
    /// The arrays that were compared, by number.
    pub results: Vec<ArrayResult>,
    /// Those that could not be, by number.
    pub failed: Vec<ArrayError>,
    /// Whether there are no others: the time may have ended it.
    pub all_tried: bool,
}

/// Runs a series. `done` is called after each array, in any order.
///
/// An array that cannot be compared does not end the others.
pub fn run_series(
    options: &SeriesOptions,
    trainer: &dyn Trainer,
    done: &(dyn Fn(&Result<ArrayResult, ArrayError>) + Sync),
) -> Series {
    let tried = parallel::map(options.threads, options.arrays as usize, |array| {
        if options.until.is_some_and(|until| Instant::now() >= until) {
            return None;
        }
        let number = options.first + array as u64;
        let result =
            run_array(options, number, trainer).map_err(|source| ArrayError { number, source });
        done(&result);
        Some(result)
    });
    let all_tried = tried.iter().all(Option::is_some);
    let (mut results, mut failed) = (Vec::new(), Vec::new());
    for array in tried.into_iter().flatten() {
        match array {
            Ok(result) => results.push(result),
            Err(error) => failed.push(error),
        }
    }
    Series { results, failed, all_tried }
}

/// As a random array is written, with as many replicas as one may have: what does not fit it fits none. To draw
/// one takes a second.
const LARGEST: &str = r#"
seeds = [1]
phase_one = { reads = 1 }
phase_two = { reads = 1 }
correlated_bursts = true
refusal_samples = 0
costs.failover_us = 0

[[device]]
count = 8
profile = "femu"
workload = { read_share = 1, sizes = [{ bytes = 4096, weight = 1 }], offsets = { kind = "uniform" }, arrivals = { kind = "poisson", iops = 1 } }
"#;

/// The rows of a series.
///
/// # Errors
/// A row or a setting is not valid, as in a scenario.
pub fn rows(options: &SeriesOptions) -> Result<Vec<Entry>, Error> {
    let text = with_rows(options, LARGEST);
    Ok(Comparison::parse(&text, Path::new(""))?.entries)
}

/// The scenario of an array, with the series' rows.
#[must_use]
pub fn scenario(options: &SeriesOptions, array: &RandomArray) -> String {
    with_rows(options, &array.text)
}

fn with_rows(options: &SeriesOptions, text: &str) -> String {
    format!("strategies = [{}]\n{}{text}", options.rows.join(", "), options.settings)
}

fn run_array(
    options: &SeriesOptions,
    number: u64,
    trainer: &dyn Trainer,
) -> Result<ArrayResult, Error> {
    let array = options.array(number)?;
    let comparison = Comparison::parse(&scenario(options, &array), Path::new(""))?;
    let seed = comparison.seeds[0];
    let prepared = prepare(&comparison, seed, trainer, 1, &|_, _, _| ())?;
    let reads = |each: Vec<Nanos>| -> Vec<Nanos> {
        let requests = prepared.ready.requests.iter().zip(each);
        requests.filter(|(io, _)| io.op == Op::Read).map(|(_, latency)| latency).collect()
    };
    let (mut figures, mut base, mut judged) = (Vec::new(), Vec::new(), Vec::new());
    for entry in &comparison.entries {
        let (of_entry, each) = phase_two_of_each_read(&comparison, &prepared, entry)?;
        figures.push(of_entry.figures);
        if figures.len() == 1 {
            base = reads(each);
        } else if figures.len() == comparison.entries.len() {
            judged = reads(each);
        }
    }
    let against_base = STATISTICS.iter().zip(0..).map(|(&statistic, test)| {
        let seed = derived_seed(seed, test);
        if judged.is_empty() {
            paired(&base, &base, statistic, seed)
        } else {
            paired(&base, &judged, statistic, seed)
        }
    });
    let against_base = against_base.collect();
    Ok(ArrayResult {
        number,
        traits: array.traits,
        reads: base.len() as u64,
        figures,
        against_base,
    })
}
