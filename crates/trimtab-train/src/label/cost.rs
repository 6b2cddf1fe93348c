//! The threshold from which refusing pays.

use std::cmp::Reverse;

use trimtab_io::Nanos;
use trimtab_learn::boost::Objective;
use trimtab_predict::{Label, PredictorKind, RefusalCost};

use super::elsewhere::Elsewhere;
use super::make::{LabelInputs, MadeLabel};
use crate::base_latency;
use crate::error::Error;
use crate::forests::{PARTS, STRETCHES, Samples, grow};
use crate::options::TrainingOptions;
use crate::reads::{Read, latencies};
use crate::set::TrainingSet;
use crate::train::{LEAST_OF_CLASS, LEAST_READS, past_reads};
use crate::units;

/// A read's latency counts up to so many times the break-even latency: one that waits for longer
/// is hedged, or times out, and a few of them must not decide.
const MOST: f64 = 64.0;
/// A read loses at most so many times the mean break-even latency by being moved: where another
/// drive turns out to be late the read is hedged, and how late that one is says nothing of this one.
const MOST_LOST: f64 = 2.0;

/// Makes the label. The cross-validation is that of training: each read is predicted by trees that
/// have seen neither it nor its neighbours in time.
pub(super) fn cost(inputs: &LabelInputs<'_>) -> Result<MadeLabel, Error> {
    let LabelInputs { sets, peers, timed, options, .. } = *inputs;
    let (sets, reads) = past_reads(sets, options);
    let own = latencies(&reads);
    if own.len() < LEAST_READS {
        let reason = format!("{} reads do not tell, at least {LEAST_READS} are needed", own.len());
        return Ok(MadeLabel { label: Label::Never { reason }, cost: None });
    }
    let myself = [own.as_slice()];
    let peers = if peers.is_empty() { &myself } else { peers };
    // Of several recordings it is not known which of their times are the same.
    let timed = if sets.len() == 1 { timed } else { &[] };
    let elsewhere = Elsewhere::new(peers, timed, options.failover);
    let break_even = |elsewhere: f64| Nanos(options.failover.0 + elsewhere as u64);
    let at = |read: &Read| match sets.as_slice() {
        [set] => break_even(elsewhere.at(set.recorded[read.index].request.arrival)),
        _ => break_even(elsewhere.over_all()),
    };
    let each: Vec<Nanos> = reads.iter().map(at).collect();
    let break_even = break_even(elsewhere.over_all());
    let most_lost = -MOST_LOST * break_even.0 as f64;
    let mut gains = gains(&reads, &each, options.failover);
    gains.iter_mut().for_each(|gain| *gain = gain.max(most_lost));
    let most = mean(gains.iter().map(|gain| gain.max(0.0)));
    let slower = gains.iter().filter(|gain| **gain > 0.0).count();
    let percent = 100.0 * slower as f64 / gains.len() as f64;
    let cost = |gain| RefusalCost { failover: options.failover, break_even, most, gain };
    let never = |gain: f64, why: &str| {
        let reason = format!(
            "a read elsewhere takes {break_even}, failover included; here {percent:.2}% take \
             longer, {why}"
        );
        Ok(MadeLabel { label: Label::Never { reason }, cost: Some(cost(gain)) })
    };
    let least = options.inference.0 as f64;
    if slower < LEAST_OF_CLASS || most < least {
        return never(0.0, "which costs less than predicting it");
    }
    let past: Vec<_> = sets.iter().map(TrainingSet::past).collect();
    let functions = units::find(&past).functions;
    let nothing = Label::Never { reason: String::new() };
    let plain = TrainingOptions { steered: 0.0, ..*options };
    let samples = Samples::new(&sets, &functions, reads, &nothing, &plain);
    let scores = scores(&samples, &gains, &plain)
        .map_err(|source| Error::Learn { predictor: PredictorKind::Trimtab.name(), source })?;
    let refused = refused(&samples, &scores, &gains);
    let (gain, pays) = gain(&refused, &gains, least);
    if !pays {
        return never(gain, "but not predictably enough to gain by refusing them");
    }
    let latency = dividing(&samples, &refused, &own, least_late(&each, &refused));
    Ok(MadeLabel { label: Label::Threshold { latency }, cost: Some(cost(gain)) })
}

fn mean(of: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = of.len().max(1);
    of.sum::<f64>() / count as f64
}

/// What each read would gain by being moved, ns, where it breaks even at this latency; negative if
/// it would lose. A large read takes longer elsewhere as well: its break-even latency is higher by
/// what its size costs here.
fn gains(reads: &[Read], break_even: &[Nanos], failover: Nanos) -> Vec<f64> {
    let by_size = base_latency::learn_median(reads.iter().map(|read| (read.latency, read.pages)));
    let of_size = |read: &Read| by_size.latency(read.pages).0 as f64;
    let usual = mean(reads.iter().map(of_size));
    let gain = |(read, break_even): (&Read, &Nanos)| {
        let elsewhere = break_even.0 as f64 + of_size(read) - usual;
        (read.latency.0 as f64).min(MOST * break_even.0 as f64) - elsewhere.max(failover.0 as f64)
    };
    reads.iter().zip(break_even).map(gain).collect()
}

/// A score for each read, from a forest that has not seen it: higher if it is better moved. The
/// forest is trained on whether a read gains, weighted by what is at stake (cost-sensitive
/// learning by example-dependent weights: Zadrozny, Langford and Abe, ICDM'03), so that a tail
/// counts by what it costs and latencies near break-even hardly at all.
fn scores(
    samples: &Samples,
    gains: &[f64],
    options: &TrainingOptions,
) -> Result<Vec<i32>, trimtab_learn::Error> {
    let stake = mean(gains.iter().map(|gain| gain.abs())).max(1.0);
    let mut scores = vec![0; gains.len()];
    for part in 0..PARTS {
        let others: Vec<usize> = (0..gains.len()).filter(|&i| samples.part[i] != part).collect();
        let targets: Vec<f32> = others.iter().map(|&i| f32::from(gains[i] > 0.0)).collect();
        let weights: Vec<f32> = others.iter().map(|&i| (gains[i].abs() / stake) as f32).collect();
        if !are_of_both(&targets, &weights) {
            continue;
        }
        let features: Vec<_> = others.iter().map(|&i| samples.features[i]).collect();
        let forest = grow(&features, &targets, &weights, Objective::Logistic, options)?;
        for i in (0..gains.len()).filter(|&i| samples.part[i] == part) {
            scores[i] = forest.score(&samples.features[i]);
        }
    }
    Ok(scores)
}

/// Whether both kinds of reads count, so that there is something to learn: what neither gains nor loses
/// has no weight.
fn are_of_both(targets: &[f32], weights: &[f32]) -> bool {
    let all: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    let gain: f64 = targets.iter().zip(weights).map(|(&t, &w)| f64::from(t) * f64::from(w)).sum();
    gain > 0.0 && gain < all
}

/// Which reads would be refused: those of each part from the score from which refusing would have
/// gained most in the other parts.
fn refused(samples: &Samples, scores: &[i32], gains: &[f64]) -> Vec<bool> {
    let mut refused = vec![false; scores.len()];
    for part in 0..PARTS {
        let from = best_score(scores, gains, |i| samples.part[i] != part);
        let Some(from) = from else { continue };
        for i in (0..scores.len()).filter(|&i| samples.part[i] == part) {
            refused[i] = scores[i] >= from;
        }
    }
    refused
}

/// The score from which refusing gains most in the selected samples; `None` if it gains from none.
fn best_score(scores: &[i32], gains: &[f64], is: impl Fn(usize) -> bool) -> Option<i32> {
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| is(i)).collect();
    order.sort_unstable_by_key(|&i| (Reverse(scores[i]), i));
    let (mut sum, mut best, mut from) = (0.0, 0.0, None);
    for same in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
        sum += same.iter().map(|&i| gains[i]).sum::<f64>();
        if sum > best {
            (best, from) = (sum, Some(scores[same[0]]));
        }
    }
    from
}

/// The mean gain per read, and whether it is sure to exceed `least`: by a standard error, and not
/// by the best stretch of time alone. More is not asked: gains are rare and large, losses small.
fn gain(refused: &[bool], gains: &[f64], least: f64) -> (f64, bool) {
    let stretches = PARTS * STRETCHES;
    let mut sums = vec![0.0; stretches];
    for (i, gain) in gains.iter().enumerate().filter(|(i, _)| refused[*i]) {
        sums[i * stretches / gains.len()] += gain;
    }
    let (each, all) = (gains.len() as f64 / stretches as f64, stretches as f64);
    let means: Vec<f64> = sums.iter().map(|sum| sum / each).collect();
    let gain = mean(means.iter().copied());
    let spread = means.iter().map(|one| (one - gain) * (one - gain)).sum::<f64>();
    let error = (spread / (all * (all - 1.0))).sqrt();
    let best = means.iter().copied().fold(0.0, f64::max);
    (gain, gain - error.max(best / all) >= least)
}

/// The median of the latencies at which the refused reads break even: a read that is faster is not
/// late.
fn least_late(break_even: &[Nanos], refused: &[bool]) -> Nanos {
    let of_refused = break_even.iter().zip(refused).filter(|(_, refused)| **refused);
    let mut all: Vec<Nanos> = of_refused.map(|(break_even, _)| *break_even).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

/// The latency that best divides the refused reads from the others: with the greatest
/// correlation of the two divisions (Matthews, 1975). It is at least break-even, and leaves
/// enough reads on either side to train on.
fn dividing(samples: &Samples, refused: &[bool], own: &[Nanos], break_even: Nanos) -> Nanos {
    let mut all: Vec<(Nanos, bool)> =
        samples.reads.iter().zip(refused).map(|(read, &refused)| (read.latency, refused)).collect();
    all.sort_unstable();
    let (n, late) = (all.len() as f64, all.iter().filter(|one| one.1).count() as f64);
    let few = 2 * LEAST_OF_CLASS;
    let most = own[own.len() - 1 - few];
    let least = own[few.max(own.len() / 1000)].max(break_even).min(most);
    let (mut fast, mut missed) = (0.0, 0.0);
    let mut best = (f64::NEG_INFINITY, least);
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        fast += same.len() as f64;
        missed += same.iter().filter(|one| one.1).count() as f64;
        // Times the root of late × (n − late), which is the same for all.
        let covariance = fast * late - n * missed;
        let correlation = covariance / (fast * (n - fast)).sqrt();
        if (least..=most).contains(&same[0].0) && correlation > best.0 {
            best = (correlation, same[0].0);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_neither_gain_nor_lose_are_not_learned_from() {
        assert!(are_of_both(&[1.0, 0.0], &[1.0, 0.5]));
        assert!(!are_of_both(&[1.0, 1.0, 0.0], &[1.0, 0.5, 0.0]), "all others gain");
        assert!(!are_of_both(&[0.0, 0.0], &[1.0, 0.5]), "none gains");
        assert!(!are_of_both(&[1.0], &[1.0]) && !are_of_both(&[0.0], &[0.0]));
        assert!(!are_of_both(&[], &[]));
    }
}
