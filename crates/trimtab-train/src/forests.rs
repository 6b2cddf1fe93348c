//! Training the forests of `trimtab`.
//!
//! Gradient boosting (Friedman, *Greedy function approximation: a gradient boosting machine*,
//! Annals of Statistics, 2001; stochastic, 2002) on the features of reads. Samples are divided
//! into parts, so that each gets a score from trees that have seen neither it nor its
//! neighbours in time; from these scores come the tables of probability (isotonic regression)
//! and of expected latency. docs/predictors.md has the arithmetic.

mod grow;
mod samples;

use trimtab_io::Nanos;
use trimtab_learn::calibrate::{Table, isotonic};
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{Forecast, ForestModel, Label, UnseenScore, WAIT_TICK};

pub(crate) use self::grow::{FRACTION_BITS, grow};
pub(crate) use self::samples::{PARTS, STRETCHES, Samples};
use crate::never::no_trees;
use crate::options::TrainingOptions;
use crate::reads::Read;
use crate::set::TrainingSet;

/// Scores of samples from trees that have seen neither them nor their neighbours in time.
struct UnseenScores {
    late: Vec<i32>,
    wait: Vec<i32>,
    fast: Vec<i32>,
}

/// Trains the forests and their tables. `reads` are those of all sets, in order. Also returns the
/// forecasts of these reads by trees that have not seen them.
pub(crate) fn train(
    functions: Vec<UnitFunction>,
    sets: &[TrainingSet<'_>],
    reads: Vec<Read>,
    label: &Label,
    options: &TrainingOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<(ForestModel, Vec<Forecast>), trimtab_learn::Error> {
    // Those of steered histories come after them.
    let recorded = reads.len();
    let samples = &Samples::new(sets, &functions, reads, label, options);
    progress(1, 2 + PARTS);
    let count = samples.reads.len();
    let zeroes = || vec![0; count];
    let mut scores = UnseenScores { late: zeroes(), wait: zeroes(), fast: zeroes() };
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
    // Refuse from the probability at which both errors cost the same: p × cost = 1 − p.
    let even = (65536.0 / (1.0 + options.cost)) as i32;
    let refuse_from = probability.first_score_with(even).unwrap_or(i32::MAX);
    let wait = mean_waits(samples, &scores.wait, |_| true)?;
    let fast = mean_waits(samples, &scores.fast, |i| !samples.slow[i])?;
    let false_submits = (0..count).filter(|&i| samples.slow[i] && scores.late[i] < refuse_from);
    let (sum, number) = false_submits
        .fold((0, 0), |(sum, number), i| (sum + samples.reads[i].latency.0, number + 1));
    let forests = samples.forests(|_| true, options)?;
    progress(2 + PARTS, 2 + PARTS);
    let model = ForestModel {
        functions,
        // Of one class only if nothing is slow.
        forest: forests.late.map_or_else(no_trees, Ok)?,
        probability,
        refuse_from,
        base_latency: samples.base_latency.clone(),
        wait_forest: forests.wait,
        wait,
        fast_forest: forests.fast,
        fast,
        late: Nanos(sum / number.max(1)),
    };
    let unseen = (0..recorded).map(|i| {
        let UnseenScores { late, fast, wait } = &scores;
        let scores = UnseenScore { late: late[i], fast: fast[i], wait: wait[i] };
        model.forecast_of_scores(samples.reads[i].pages, scores)
    });
    let unseen = unseen.collect();
    Ok((model, unseen))
}

/// The mean excess over the base latency by score, in ticks of [`WAIT_TICK`], rising, from the
/// selected samples.
fn mean_waits(
    samples: &Samples,
    scores: &[i32],
    is: impl Fn(usize) -> bool,
) -> Result<Table, trimtab_learn::Error> {
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| is(i)).collect();
    order.sort_by_key(|&i| (scores[i], i));
    // Pool adjacent violators: a pool whose mean is not above the one before joins it.
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
