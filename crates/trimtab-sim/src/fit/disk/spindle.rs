//! The spindle's period, from when reads complete.
//!
//! A read from the platters ends when its last sector has passed the head, so the ends of two reads
//! on one track differ by whole revolutions and by the angle between their sectors. For the right
//! period (and time per sector) these differences have the same angle modulo the period, for a
//! wrong one any. The length of the mean of their unit vectors, the resultant of circular
//! statistics, is 1 or 0 (Mardia and Jupp, "Directional Statistics", §2.3). Pairs that are close in
//! time give a first value, and pairs further and further apart refine it.

use super::sample::Sample;

/// Speeds that are looked for, revolutions per minute.
pub(super) const SLOWEST: f64 = 3_500.0;
pub(super) const FASTEST: f64 = 16_000.0;
/// The resultant below which a period is not believed, and the fewest pairs for it.
const LEAST_RESULTANT: f64 = 0.5;
const LEAST_PAIRS: usize = 30;
/// Sectors between two reads that are likely on one track.
const NEAR: f64 = 60.0;

/// What is known of the spindle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spindle {
    /// One revolution, µs.
    pub(super) period: f64,
    /// One sector of 512 bytes, µs.
    pub(super) sector: f64,
    /// How well the ends of reads agree with it, 0 to 1.
    pub(super) resultant: f64,
    /// Pairs of reads behind it.
    pub(super) pairs: usize,
}

/// A read from the platters: when its first sector passed, but for a constant.
#[derive(Clone, Copy)]
struct Passed {
    index: usize,
    at: f64,
    sector: f64,
}

/// Two reads that are near each other: time and sectors between them.
struct Pair {
    time: f64,
    sectors: f64,
}

/// Finds the period. `misses` are the indices of reads from the platters, `bus` is the time of a
/// byte, µs.
pub(super) fn find(samples: &[Sample], misses: &[usize], bus: f64) -> Option<Spindle> {
    let mut passed: Vec<Passed> = misses
        .iter()
        .map(|&index| {
            let s = &samples[index];
            let at = s.issue + s.service - bus * s.length as f64;
            Passed { index, at, sector: s.offset as f64 / 512.0 }
        })
        .collect();
    passed.sort_by(|a, b| a.sector.total_cmp(&b.sector).then(a.index.cmp(&b.index)));
    let mut found: Option<Spindle> = None;
    for apart in [1, 3, 10, 30, 100, 300] {
        let pairs = pairs(&passed, apart);
        if pairs.len() < LEAST_PAIRS {
            continue;
        }
        let better = match found {
            None => coarse(&pairs),
            Some(before) => refine(&pairs, before),
        };
        // Over longer times the spindle's speed may drift.
        let keep = found.is_none_or(|before| better.resultant > 0.95 * before.resultant);
        if better.resultant >= LEAST_RESULTANT && keep {
            found = Some(better);
        }
    }
    found
}

/// Pairs of reads, near each other and at most `apart` requests from each other.
fn pairs(passed: &[Passed], apart: usize) -> Vec<Pair> {
    /// Neighbours in order of place that are looked at.
    const NEIGHBOURS: usize = 24;
    let mut pairs = Vec::new();
    for (i, one) in passed.iter().enumerate() {
        for other in passed[i + 1..].iter().take(NEIGHBOURS) {
            let sectors = other.sector - one.sector;
            if sectors > NEAR {
                break;
            }
            if one.index.abs_diff(other.index) <= apart {
                pairs.push(Pair { time: other.at - one.at, sectors });
            }
        }
    }
    pairs
}

fn resultant(pairs: &[Pair], period: f64, sector: f64) -> f64 {
    let (mut x, mut y) = (0.0, 0.0);
    for pair in pairs {
        let angle = ((pair.time - sector * pair.sectors) / period).fract();
        let (sin, cos) = libm::sincos(std::f64::consts::TAU * angle);
        (x, y) = (x + cos, y + sin);
    }
    libm::hypot(x, y) / pairs.len() as f64
}

/// Steps of the search over the period: a tenth of a revolution over the longest time between two
/// reads of a pair.
fn step(pairs: &[Pair], period: f64) -> f64 {
    let mut times: Vec<f64> = pairs.iter().map(|pair| pair.time.abs()).collect();
    let long = super::sample::quantile(&mut times, 0.9).unwrap_or(period).max(period);
    0.1 * period * period / long
}

fn best(pairs: &[Pair], periods: impl Iterator<Item = f64>, sectors: &[f64]) -> Spindle {
    let mut best = Spindle { period: 0.0, sector: 0.0, resultant: 0.0, pairs: pairs.len() };
    for period in periods {
        for &sector in sectors {
            let resultant = resultant(pairs, period, sector);
            if resultant > best.resultant {
                best = Spindle { period, sector, resultant, ..best };
            }
        }
    }
    best
}

fn coarse(pairs: &[Pair]) -> Spindle {
    let (mut period, longest) = (60e6 / FASTEST, 60e6 / SLOWEST);
    let periods = std::iter::from_fn(|| {
        period += step(pairs, period);
        (period < longest).then_some(period)
    });
    // From 4,000 sectors per track to 60.
    let sectors: Vec<f64> = (1..=70).map(|i| 2.0 * f64::from(i)).collect();
    refine(pairs, best(pairs, periods, &sectors))
}

fn refine(pairs: &[Pair], around: Spindle) -> Spindle {
    let step = step(pairs, around.period);
    let mut found = around;
    for (width, fine) in [(12, 1.0), (8, 0.25)] {
        let middle = found;
        let periods = (-width..=width).map(|i| middle.period + f64::from(i) * fine * step);
        let sectors: Vec<f64> =
            (-6..=6).map(|i| (middle.sector + f64::from(i) * 0.5 * fine).max(0.5)).collect();
        found = best(pairs, periods, &sectors);
    }
    found
}

/// The time of a sector in a part of the disk, for a known period: reads from `from` to `to`, bytes.
pub(super) fn sector_time(
    samples: &[Sample],
    misses: &[usize],
    bus: f64,
    spindle: &Spindle,
    (from, to): (u64, u64),
) -> Option<f64> {
    let here: Vec<usize> =
        misses.iter().copied().filter(|&i| (from..to).contains(&samples[i].offset)).collect();
    let mut passed: Vec<Passed> = here
        .iter()
        .map(|&index| {
            let s = &samples[index];
            let at = s.issue + s.service - bus * s.length as f64;
            Passed { index, at, sector: s.offset as f64 / 512.0 }
        })
        .collect();
    passed.sort_by(|a, b| a.sector.total_cmp(&b.sector).then(a.index.cmp(&b.index)));
    let pairs = pairs(&passed, 30);
    if pairs.len() < LEAST_PAIRS {
        return None;
    }
    let around: Vec<f64> =
        (-40..=40).map(|i| spindle.sector * (1.0 + f64::from(i) / 80.0)).collect();
    let found = best(&pairs, std::iter::once(spindle.period), &around);
    (found.resultant >= LEAST_RESULTANT).then_some(found.sector)
}
