//! Advice: what would steering between drives gain, from recordings alone?
//!
//! The drives' reads are divided in time, at one moment for all drives where their clocks agree.
//! Inflection points and predictors come from the earlier half. The later half is evaluated as
//! if every block lay on all drives: a read that goes to a peer takes the latency of the peer's
//! read that is nearest in time, so that the correlation of slow periods is kept.
//!
//! Recordings tell how a drive was under the load that it had. Steering changes the load: a peer
//! gets reads, and a drive that is left has shorter queues. So a gain is known within bounds only:
//!
//! - **before**, the upper bound of the latency: what was recorded. A strategy that measures its
//!   gain against a control group stops where there is none.
//! - **best**, the lower bound: every read at the latency that the fastest of the drives had for
//!   reads of its size when nothing was in its way, the 1st percentile. No choice of drives, and
//!   no balance of load, makes a drive faster than that.
//! - **likely**, between the two: each read goes where the predictors expect it back first, and
//!   the slowest 3% are sent to the next drive as well. The load is taken to stay as recorded.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde::Serialize;
use trimtab_io::{LatencyHistogram, Nanos};
use trimtab_predict::{Label, PredictorKind, Recorded, Verdict};

use crate::error::Error;
use crate::evaluate::forecasts;
use crate::label::{Inflection, inflection};
use crate::options::TrainingOptions;
use crate::reads::{Read, latencies, reads};
use crate::set::TrainingSet;
use crate::train::train;

/// The cost of a failover (LinnOS, §5.1, without its inference).
const FAILOVER: Nanos = Nanos::from_micros(9);
/// The largest distance in time at which a peer's read counts as simultaneous.
const NEAR: Nanos = Nanos::from_millis(100);
/// The percentile of a drive's latencies that is its latency when nothing is in the way: few
/// enough reads that the best of eight replicas is not better, and enough to be no error.
const UNHINDERED: f64 = 0.01;
/// The fewest reads of a size for a percentile of their own.
const LEAST_OF_SIZE: usize = 1000;
/// Without an inflection point reads are slow beyond this share of them.
const SLOW_FROM: f64 = 0.97;
/// The share of reads that are sent to a second drive.
const HEDGED: f64 = 0.03;
/// The share of a drive's reads that need a simultaneous one for the clocks to agree.
const SAME_CLOCK: f64 = 0.5;

/// The expected gain of steering between several drives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Whether the recordings are of the same time. If not, slow periods are taken to be
    /// independent, which overestimates the gain.
    pub same_clock: bool,
    /// Drive by drive, in the order of the recordings.
    pub drives: Vec<DriveAdvice>,
    /// `coincide[i][j]`: of drive j's reads next in time to a slow read of drive
    /// i, the share that was slow. Compare it with j's `slow_share`.
    pub coincide: Vec<Vec<Option<f64>>>,
}

/// The expected gain on one drive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveAdvice {
    /// Reads in its later half.
    pub reads: usize,
    /// The inflection point, and its percentile, in the earlier half. `None` if failing over from
    /// late reads alone would not pay.
    pub inflection: Option<Nanos>,
    /// See `inflection`.
    pub inflection_percentile: Option<f64>,
    /// The share of the later half that was slower than that; without an inflection point than
    /// the 97th percentile of the earlier half.
    pub slow_share: f64,
    /// The latency without steering: the upper bound.
    pub before: ReadLatency,
    /// With the predictor `trimtab`, trained on the earlier half, if the load stays as it is.
    pub likely: ReadLatency,
    /// The lower bound, whatever steers the reads.
    pub best: ReadLatency,
    /// The share of reads that would be refused,
    pub refused: f64,
    /// and the share that would be served by another drive first.
    pub moved: f64,
}

/// The latency of reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadLatency {
    /// Their mean.
    pub mean: Nanos,
    /// Their p99, if there are enough of them for one.
    pub p99: Option<Nanos>,
}

/// A drive's later half.
struct Drive {
    found: Option<Inflection>,
    reads: Vec<Later>,
    unhindered: Unhindered,
}

#[derive(Clone, Copy)]
struct Later {
    at: Nanos,
    latency: Nanos,
    slow: bool,
    refused: bool,
    /// The latency that its drive's predictor expected.
    expected: Nanos,
    pages: u32,
}

/// The latency of a drive when nothing is in the way, by the size of the read.
struct Unhindered {
    any: Nanos,
    /// By powers of two of 4 KiB pages, where there are enough reads.
    by_size: [Option<Nanos>; 32],
}

impl Unhindered {
    fn new(reads: &[Read]) -> Self {
        let of = |reads: &mut dyn Iterator<Item = &Read>| {
            let mut latencies: Vec<Nanos> = reads.map(|read| read.latency).collect();
            latencies.sort_unstable();
            let at = latencies.get((latencies.len() as f64 * UNHINDERED) as usize).copied();
            (latencies.len(), at)
        };
        let by_size = std::array::from_fn(|size| {
            let (count, at) = of(&mut reads.iter().filter(|read| size_of(read.pages) == size));
            at.filter(|_| count >= LEAST_OF_SIZE)
        });
        Self { any: of(&mut reads.iter()).1.unwrap_or_default(), by_size }
    }

    fn latency(&self, pages: u32) -> Nanos {
        self.by_size[size_of(pages)].unwrap_or(self.any)
    }
}

/// The size of a read as a power of two of pages.
const fn size_of(pages: u32) -> usize {
    (u32::BITS - pages.saturating_sub(1).leading_zeros()) as usize % 32
}

/// Evaluates recordings of at least two drives. `one_clock`: whether their clocks have the
/// same origin. `progress` gets the index of the drive whose predictor is trained next.
///
/// # Errors
/// There is only one drive, or a recording is too short to train on.
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
    let advised =
        (0..drives.len()).map(|number| advise_drive(&drives, number, same_clock, seed)).collect();
    let coincide = drives
        .iter()
        .map(|a| drives.iter().map(|b| same_clock.then(|| coincide(a, b)).flatten()).collect())
        .collect();
    Ok(Advice { same_clock, drives: advised, coincide })
}

/// How many of each drive's reads are its earlier half: those before one moment for all drives,
/// so that the later halves are of the same time. If a half would have less than a tenth of a
/// drive's reads, each drive is divided on its own.
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

/// Trains on a drive's earlier half, and evaluates its later one.
fn drive(
    recorded: &[Recorded],
    (past, future): (&[Read], &[Read]),
    earlier: &[Nanos],
    peers: &[&[Nanos]],
    seed: u64,
) -> Result<Drive, Error> {
    let found = inflection(earlier, peers, seed);
    // The predictors are needed all the same: they say which drive is the faster one.
    let tail = || earlier.get((SLOW_FROM * earlier.len() as f64) as usize).copied();
    let latency = found.as_ref().map(|found| found.latency).or_else(tail).unwrap_or_default();
    let label = Label::Threshold { latency };
    // Nothing steered reads in a recording.
    let options = TrainingOptions { seed, steered: 0.0, ..TrainingOptions::default() };
    let set = TrainingSet { recorded, reads: past.to_vec() };
    let trained = train(PredictorKind::Trimtab, &[set], &label, &options, |_, _| {})?;
    let forecasts = forecasts(&trained, recorded, future).all;
    let later = future.iter().zip(forecasts).map(|(read, forecast)| Later {
        at: recorded[read.index].request.arrival,
        latency: read.latency,
        slow: read.latency > latency,
        refused: forecast.verdict == Verdict::Late,
        expected: forecast.wait.unwrap_or_default(),
        pages: read.pages,
    });
    let reads = later.collect();
    let all: Vec<Read> = past.iter().chain(future).copied().collect();
    Ok(Drive { found, reads, unhindered: Unhindered::new(&all) })
}

/// The read sent nearest to this time, if it is near enough.
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

fn advise_drive(drives: &[Drive], number: usize, same_clock: bool, seed: u64) -> DriveAdvice {
    let drive = &drives[number];
    let mut random = Pcg64::seed_from_u64(seed ^ (number as u64) << 32);
    let steered: Vec<Steered> = drive
        .reads
        .iter()
        .map(|read| steer(drives, number, read, same_clock, &mut random))
        .collect();
    let mut latencies: Vec<Nanos> = steered.iter().map(|read| read.latency).collect();
    latencies.sort_unstable();
    let late = ((1.0 - HEDGED) * latencies.len() as f64) as usize;
    let hedge_after = latencies.get(late).copied().unwrap_or(Nanos::MAX);
    let mut histograms: [LatencyHistogram; 3] = std::array::from_fn(|_| LatencyHistogram::new());
    let [before, likely, best] = &mut histograms;
    for (read, steered) in drive.reads.iter().zip(&steered) {
        before.record(read.latency);
        likely.record(match steered.latency > hedge_after {
            true => steered.latency.min(hedge_after + FAILOVER + steered.second),
            false => steered.latency,
        });
        let fastest = drives.iter().map(|drive| drive.unhindered.latency(read.pages)).min();
        // A read that was faster still was so where it was.
        best.record(fastest.unwrap_or_default().min(read.latency));
    }
    let [before, likely, best] = &histograms;
    // A strategy that gains nothing is left.
    let gains = likely.summary().mean < before.summary().mean;
    let likely = if gains { likely } else { before };
    let moved = steered.iter().filter(|read| gains && read.moved).count();
    let count = drive.reads.len().max(1) as f64;
    let share = |is: fn(&&Later) -> bool| drive.reads.iter().filter(is).count() as f64 / count;
    DriveAdvice {
        reads: drive.reads.len(),
        inflection: drive.found.as_ref().map(|found| found.latency),
        inflection_percentile: drive.found.as_ref().map(|found| found.percentile),
        slow_share: share(|read| read.slow),
        before: read_latency(before),
        likely: read_latency(likely),
        best: read_latency(best),
        refused: share(|read| read.refused),
        moved: moved as f64 / count,
    }
}

/// A read that went where it was expected back first.
struct Steered {
    latency: Nanos,
    /// The latency of the drive that was second.
    second: Nanos,
    moved: bool,
}

/// Sends a read to the drive whose predictor expects it back first.
fn steer(
    drives: &[Drive],
    primary: usize,
    read: &Later,
    same_clock: bool,
    random: &mut Pcg64,
) -> Steered {
    // The expected latency there, its cost included, and what became of it.
    let mut first = (read.expected, read.latency, false);
    let mut second: Option<(Nanos, Nanos)> = None;
    for (_, drive) in drives.iter().enumerate().filter(|(peer, _)| *peer != primary) {
        let reads = &drive.reads;
        let there = if same_clock { nearest(reads, read.at) } else { None };
        let there = there.copied().unwrap_or_else(|| reads[random.random_range(..reads.len())]);
        let (expected, latency) = (there.expected + FAILOVER, there.latency + FAILOVER);
        let other = match expected < first.0 {
            true => {
                let (expected, latency, _) = first;
                first = (there.expected + FAILOVER, there.latency + FAILOVER, true);
                (expected, latency)
            }
            false => (expected, latency),
        };
        if second.is_none_or(|(expected, _)| other.0 < expected) {
            second = Some(other);
        }
    }
    let second = second.map_or(Nanos::MAX, |(_, latency)| latency);
    Steered { latency: first.1, second, moved: first.2 }
}

fn read_latency(histogram: &LatencyHistogram) -> ReadLatency {
    let summary = histogram.summary();
    let p99 = summary.percentile("p99");
    ReadLatency { mean: summary.mean.unwrap_or_default(), p99 }
}

#[cfg(test)]
mod tests;
