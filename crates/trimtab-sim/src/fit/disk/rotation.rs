//! Finds the speed of a disk's spindle by reads of its own choice.
//!
//! Reads of one track end whole revolutions apart, but for the angle between their sectors
//! (spindle.rs), which the rate of a long read tells. Each is below the one before, since the buffer
//! holds what follows a read, and a read far away lies between, which makes the number of
//! revolutions irregular.

use std::f64::consts::TAU;

use trimtab_io::{Nanos, mix64};

use super::spindle::{FASTEST, SLOWEST};

/// Reads of one track, and bytes between them.
const NEAR: usize = 64;
const STEP: u64 = 4096;
/// The long read, and the one before it, from whose end it goes on.
const LONG: u64 = 8 << 20;
const BEFORE: u64 = 1 << 20;
/// A read that takes less is from the buffer.
const HIT: Nanos = Nanos::from_micros(500);
/// The score below which a speed is not believed: 1 is agreement of all, 0 is chance.
const LEAST_SCORE: f64 = 0.6;

/// A state machine that proposes reads and is told when they ended.
#[derive(Clone, Debug)]
pub struct RotationProbe {
    capacity: u64,
    seed: u64,
    reads: usize,
    /// Time of the long read, µs.
    long: f64,
    /// When each read of the track ended, µs; `None` if it came from the buffer.
    ends: Vec<Option<f64>>,
}

impl RotationProbe {
    /// Length of its longest read, bytes.
    pub const LONGEST_BYTES: u64 = LONG;

    /// A probe of a disk of `capacity` bytes.
    ///
    /// # Panics
    /// The disk is smaller than 1 GiB.
    #[must_use]
    pub fn new(capacity: u64, seed: u64) -> Self {
        assert!(capacity >= 1 << 30, "{capacity} bytes");
        Self { capacity, seed, reads: 0, long: 0.0, ends: Vec::with_capacity(NEAR) }
    }

    /// The first byte and the length of the next read; `None` when it is done. Reads must follow one
    /// another, and not be answered from the host's memory.
    #[must_use]
    pub fn propose(&self) -> Option<(u64, u64)> {
        if self.ends.len() == NEAR {
            return None;
        }
        let draw = mix64(self.seed ^ mix64(self.reads as u64));
        let near = self.capacity / 4 / STEP * STEP;
        Some(match self.reads {
            0 => (near, BEFORE),
            1 => (near + BEFORE, LONG),
            n if n % 2 == 1 => (near - (1 + self.ends.len() as u64) * STEP, STEP),
            // Never near the track.
            _ => ((self.capacity / 2 + draw % (self.capacity / 2 - STEP)) / STEP * STEP, STEP),
        })
    }

    /// Takes when the read proposed last ended, on any clock, and how long it took.
    pub fn measured(&mut self, end: Nanos, took: Nanos) {
        if self.reads == 1 {
            self.long = took.as_micros_f64();
        } else if self.reads % 2 == 1 && self.ends.len() < NEAR {
            self.ends.push((took >= HIT).then(|| end.as_micros_f64()));
        }
        self.reads += 1;
    }

    /// Times between reads of the track, `apart` of them apart, that the same sector would have
    /// had, µs.
    fn differences(&self, apart: usize) -> Vec<f64> {
        let sectors = self.long * (STEP * apart as u64) as f64 / LONG as f64;
        let pairs = self.ends.iter().zip(self.ends.iter().skip(apart));
        pairs.filter_map(|(one, other)| Some((*other)? - (*one)? + sectors)).collect()
    }

    /// The speed, revolutions per minute. `None` if the reads' ends do not agree on one: the buffer
    /// holds what precedes a read too, other requests disturbed, or it is no disk.
    #[must_use]
    pub fn rpm(&self) -> Option<f64> {
        let first = self.differences(1);
        if first.len() < NEAR / 2 {
            return None;
        }
        let (shortest, longest) = (60e6 / FASTEST, 60e6 / SLOWEST);
        let mut period = shortest;
        let all = std::iter::from_fn(|| {
            period += step(&first, period);
            (period < longest).then_some(period)
        });
        let mut found = best(&first, all);
        // Whole revolutions are also whole halves of revolutions. So the longest period counts.
        for times in [2.0, 3.0, 4.0] {
            let longer = around(&first, found.0 * times);
            if longer.1 > 0.9 * found.1 && longer.0 < longest {
                found = longer;
                break;
            }
        }
        if found.1 < LEAST_SCORE {
            return None;
        }
        for apart in [2, 4, 8, 16, 32] {
            let further = around(&self.differences(apart), found.0);
            // Over longer times the spindle's speed may drift.
            if further.1 < 0.8 * found.1 {
                break;
            }
            found = further;
        }
        Some(60e6 / found.0)
    }
}

/// Step of a search over the period: a small angle over the longest time between two reads.
fn step(differences: &[f64], period: f64) -> f64 {
    0.05 * period * period / differences.iter().copied().fold(period, f64::max)
}

/// The best of the periods near one.
fn around(differences: &[f64], period: f64) -> (f64, f64) {
    let step = step(differences, period);
    best(differences, (-7..=7).map(|i| period + f64::from(i) * step))
}

/// The period with the greatest score.
fn best(differences: &[f64], periods: impl Iterator<Item = f64>) -> (f64, f64) {
    let scored = periods.map(|period| (period, score(differences, period)));
    scored.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((1.0, 0.0))
}

/// How near the differences are to whole periods: the mean cosine of their angles.
fn score(differences: &[f64], period: f64) -> f64 {
    let cosines = differences.iter().map(|time| libm::cos(TAU * (time / period).fract()));
    cosines.sum::<f64>() / (differences.len() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use trimtab_device::{Disk, DiskProfile};
    use trimtab_io::{DeviceId, Op, Request, RequestId};

    use super::*;

    /// The speed found on a disk whose host sees ends that are up to `jitter` late.
    fn found(profile: &DiskProfile, seed: u64, jitter: Nanos) -> Option<f64> {
        let mut disk = Disk::new(profile, DeviceId(0), seed);
        let mut probe = RotationProbe::new(disk.capacity(), seed);
        let (mut now, mut draws) = (Nanos::ZERO, seed);
        while let Some((offset, length)) = probe.propose() {
            let read = Request::new(RequestId(0), DeviceId(0), now, Op::Read, offset, length);
            disk.submit(now, &read).unwrap();
            disk.advance_to_answer(Nanos(u64::MAX));
            let end = disk.served().next().unwrap().completion.complete;
            draws += 1;
            let end = end + Nanos(mix64(draws) % (jitter.0 + 1));
            probe.measured(end, end.since(now));
            now = end;
        }
        probe.rpm()
    }

    #[test]
    fn speed_is_found_within_a_thousandth_despite_jitter() {
        for rpm in [5400.0, 5900.0, 7200.0, 10_000.0, 15_000.0] {
            let mut profile = DiskProfile::builtin("disk-7200").unwrap();
            profile.disk.rpm = rpm;
            for seed in 1..=5 {
                let found = found(&profile, seed, Nanos::from_micros(200)).unwrap();
                assert!((found / rpm - 1.0).abs() < 1e-3, "{rpm} rpm, seed {seed}: {found}");
            }
        }
    }

    #[test]
    fn no_speed_is_found_where_there_is_none() {
        for seed in 1..=20 {
            let mut probe = RotationProbe::new(1 << 30, seed);
            let mut now = Nanos::ZERO;
            while probe.propose().is_some() {
                let took = Nanos(1_000_000 + mix64(seed ^ now.0) % 20_000_000);
                now += took;
                probe.measured(now, took);
            }
            assert_eq!(probe.rpm(), None, "seed {seed}");
        }
        // All from the buffer.
        let mut probe = RotationProbe::new(1 << 30, 1);
        while probe.propose().is_some() {
            probe.measured(Nanos::ZERO, Nanos::from_micros(100));
        }
        assert_eq!(probe.rpm(), None);
    }
}
