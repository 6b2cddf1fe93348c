//! What failing over would bring, from recordings alone.
//!
//! The drives' reads are divided in time, at the same moment where that can be told. From the earlier half come the
//! inflection points and the predictors; the later half is gone through as if
//! every block lay on all drives: a read that is refused takes the latency of
//! the peer's read that is nearest in time, so that slow periods which coincide
//! stay together. What failing over adds to the peers' load is not in it.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos};

use crate::dataset::{Read, reads};
use crate::history::{Recorded, replay};
use crate::label::{Inflection, inflection};
use crate::model::Kind;
use crate::predictor::Verdict;
use crate::train::{Lesson, Options, train};
use crate::watching::Watching;
use crate::{Error, Label};

/// What a failover costs (LinnOS, §5.1, without its inference).
const FAILOVER: Nanos = Nanos::from_micros(9);
/// A peer's read that is farther away in time says nothing about now.
const NEAR: Nanos = Nanos::from_millis(100);
/// How many of a drive's reads need a near one, for the clocks to be the same.
const SAME_CLOCK: f64 = 0.5;

/// What recordings of several drives let expect.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Whether the recordings are of the same time. If they are not, slow
    /// periods are taken to be independent, which flatters failing over.
    pub same_clock: bool,
    /// Drive by drive, in the order of the recordings.
    pub drives: Vec<DriveAdvice>,
    /// `coincide[i][j]`: of drive j's reads next in time to a slow read of drive
    /// i, the share that was slow. Compare it with j's `slow_share`.
    pub coincide: Vec<Vec<Option<f64>>>,
}

/// One drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveAdvice {
    /// Reads in its later half.
    pub reads: usize,
    /// Where failing over begins to pay, and its percentile; from the earlier
    /// half.
    pub inflection: Nanos,
    /// See `inflection`.
    pub inflection_percentile: f64,
    /// The share of the later half that was slower than that.
    pub slow_share: f64,
    /// As it was.
    pub before: Expected,
    /// With predictors such as ours, trained on the earlier half.
    pub likely: Expected,
    /// If every slow read were foreseen: no predictor does better.
    pub best: Expected,
    /// Of all reads, the share that would be sent elsewhere.
    pub refused: f64,
}

/// The latency of reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Their mean.
    pub mean: Nanos,
    /// Their p99, if there are enough of them for one.
    pub p99: Option<Nanos>,
}

/// A drive's later half.
struct Drive {
    found: Inflection,
    reads: Vec<Later>,
}

#[derive(Clone, Copy)]
struct Later {
    at: Nanos,
    latency: Nanos,
    slow: bool,
    refused: bool,
}

/// Goes through recordings of at least two drives, whose clocks count from the same
/// moment or not (`one_clock`). `progress` is told which is being learnt.
///
/// # Errors
/// There is but one drive, or a recording is too short to learn from.
pub fn advise(
    recordings: &[&[Recorded]],
    one_clock: bool,
    seed: u64,
    mut progress: impl FnMut(usize),
) -> Result<Advice, Error> {
    if recordings.len() < 2 {
        let (found, needed) = (recordings.len(), 2);
        return Err(Error::TooFew { what: "drives to fail over between", found, needed });
    }
    let all: Vec<Vec<Read>> = recordings.iter().map(|recorded| reads(recorded)).collect();
    let halves = halves(recordings, &all, one_clock);
    let earlier: Vec<Vec<Nanos>> =
        all.iter().zip(&halves).map(|(reads, &half)| latencies(&reads[..half])).collect();
    let mut drives = Vec::new();
    for (number, (recorded, reads)) in recordings.iter().zip(&all).enumerate() {
        progress(number);
        let others = earlier.iter().enumerate().filter(|(other, _)| *other != number);
        let peers: Vec<&[Nanos]> = others.map(|(_, peer)| peer.as_slice()).collect();
        let parts = reads.split_at(halves[number]);
        drives.push(drive(recorded, parts, &earlier[number], &peers, seed)?);
    }
    let near = |a: &Drive, b: &Drive| {
        let found = a.reads.iter().filter(|read| nearest(&b.reads, read.at).is_some()).count();
        found as f64 >= SAME_CLOCK * a.reads.len() as f64
    };
    let same_clock = one_clock && drives.iter().all(|a| drives.iter().all(|b| near(a, b)));
    let told = (0..drives.len()).map(|number| tell(&drives, number, same_clock, seed)).collect();
    let coincide = drives
        .iter()
        .map(|a| drives.iter().map(|b| same_clock.then(|| coincide(a, b)).flatten()).collect())
        .collect();
    Ok(Advice { same_clock, drives: told, coincide })
}

/// How many of each drive's reads are its earlier half: those before one moment for
/// all, so that the later halves are of the same time; where that leaves one of them
/// with next to nothing, half of them.
fn halves(recordings: &[&[Recorded]], all: &[Vec<Read>], one_clock: bool) -> Vec<usize> {
    let own = || all.iter().map(|reads| reads.len() / 2).collect();
    if !one_clock {
        return own();
    }
    let sent = |drive: usize, read: &Read| recordings[drive][read.index].request.arrival;
    let times = all.iter().enumerate();
    let mut times: Vec<Nanos> =
        times.flat_map(|(drive, reads)| reads.iter().map(move |read| sent(drive, read))).collect();
    times.sort_unstable();
    let Some(&middle) = times.get(times.len() / 2) else { return own() };
    let before = |(drive, reads): (usize, &Vec<Read>)| {
        reads.partition_point(|read| sent(drive, read) < middle)
    };
    let halves: Vec<usize> = all.iter().enumerate().map(before).collect();
    let is_fair = |(half, reads): (&usize, &Vec<Read>)| {
        10 * half >= reads.len() && 10 * half <= 9 * reads.len()
    };
    if halves.iter().zip(all).all(is_fair) { halves } else { own() }
}

fn latencies(reads: &[Read]) -> Vec<Nanos> {
    let mut latencies: Vec<Nanos> = reads.iter().map(|read| read.latency).collect();
    latencies.sort_unstable();
    latencies
}

/// Learns a drive's earlier half, and asks about its later one.
fn drive(
    recorded: &[Recorded],
    (past, future): (&[Read], &[Read]),
    earlier: &[Nanos],
    peers: &[&[Nanos]],
    seed: u64,
) -> Result<Drive, Error> {
    let none = Error::NoLabel {
        rule: "inflection point",
        why: "failing over would not pay; there may be too few slow reads",
    };
    let found = inflection(earlier, peers, seed).ok_or(none)?;
    let label = Label::Threshold { latency: found.latency };
    // What is told is told of the recordings, in which nobody steered.
    let options = Options { seed, steered: 0.0, ..Options::default() };
    let lesson = Lesson { recorded, reads: past.to_vec() };
    let trained = train(Kind::Trimtab, &[lesson], &label, &options, |_, _| {})?;
    let mut wanted = vec![false; recorded.len()];
    future.iter().for_each(|read| wanted[read.index] = true);
    let mut later = Vec::with_capacity(future.len());
    replay(recorded, &mut Watching(trained.predictor()), |i, predictor| {
        if wanted[i] {
            let request = &recorded[i].request;
            let forecast = predictor.0.predict(request.arrival, request);
            later.push(Later {
                at: request.arrival,
                latency: recorded[i].latency(),
                slow: recorded[i].latency() > found.latency,
                refused: forecast.verdict == Verdict::Late,
            });
        }
    });
    Ok(Drive { found, reads: later })
}

/// The read that was sent at the time nearest to this, if it is near.
fn nearest(reads: &[Later], at: Nanos) -> Option<&Later> {
    let next = reads.partition_point(|read| read.at < at);
    let around = &reads[next.saturating_sub(1)..(next + 1).min(reads.len())];
    let distance = |read: &&Later| read.at.0.abs_diff(at.0);
    around.iter().min_by_key(distance).filter(|read| distance(read) <= NEAR.0)
}

fn coincide(a: &Drive, b: &Drive) -> Option<f64> {
    let slow = a.reads.iter().filter(|read| read.slow);
    let (slow, all) = slow
        .filter_map(|read| nearest(&b.reads, read.at))
        .fold((0_u32, 0_u32), |(slow, all), read| (slow + u32::from(read.slow), all + 1));
    (all > 0).then(|| f64::from(slow) / f64::from(all))
}

fn tell(drives: &[Drive], number: usize, same_clock: bool, seed: u64) -> DriveAdvice {
    let drive = &drives[number];
    let mut random = Pcg64::seed_from_u64(seed ^ (number as u64) << 32);
    let mut with = |refused: fn(&Later) -> bool| {
        let mut histogram = LatencyHistogram::new();
        for read in &drive.reads {
            histogram.record(end(drives, number, read, refused, same_clock, &mut random));
        }
        expected(&histogram)
    };
    let share = |is: fn(&&Later) -> bool| {
        drive.reads.iter().filter(is).count() as f64 / drive.reads.len().max(1) as f64
    };
    DriveAdvice {
        reads: drive.reads.len(),
        inflection: drive.found.latency,
        inflection_percentile: drive.found.percentile,
        slow_share: share(|read| read.slow),
        before: with(|_| false),
        likely: with(|read| read.refused),
        best: with(|read| read.slow),
        refused: share(|read| read.refused),
    }
}

/// What a read takes when it goes from drive to drive until one does not refuse
/// it; the last one has to take it.
fn end(
    drives: &[Drive],
    home: usize,
    read: &Later,
    refused: fn(&Later) -> bool,
    same_clock: bool,
    random: &mut Pcg64,
) -> Nanos {
    let mut spent = Nanos::ZERO;
    let mut now = *read;
    let begin = random.random_range(..drives.len() - 1);
    for turn in 0..drives.len() - 1 {
        if !refused(&now) {
            break;
        }
        // The peers in turn, from one at random.
        let peer = (home + 1 + (begin + turn) % (drives.len() - 1)) % drives.len();
        let reads = &drives[peer].reads;
        let there = if same_clock { nearest(reads, read.at) } else { None };
        now = there.copied().unwrap_or_else(|| reads[random.random_range(..reads.len())]);
        spent += FAILOVER;
    }
    spent + now.latency
}

fn expected(histogram: &LatencyHistogram) -> Expected {
    let summary = histogram.summary();
    let p99 = summary.percentile("p99");
    Expected { mean: summary.mean.unwrap_or_default(), p99 }
}

#[cfg(test)]
mod tests;
