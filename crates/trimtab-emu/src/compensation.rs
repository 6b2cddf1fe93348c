//! Latency compensation: how much earlier than the model says a drive answers.
//!
//! A program sees the drive and the path to it: block layer, loop device, FUSE, and two threads
//! that are woken up. Most of the path takes the same time for each request, and is taken off the
//! model's time. That time depends on the machine, on other load, and on how many requests are in
//! flight. So it is estimated by queue depth, and corrected while the drive is in use: from the
//! time between the block layer's tracepoints, less the model's time, for each read
//! ([`PathSample`]).
//!
//! The estimate is the tenth percentile of the path latency, not its mean: an early answer is worse
//! than a late one. It follows a shorter path at once and a longer one slowly. Where the path
//! varies by more than [`MAX_SPREAD`], requests wait for processors; the estimate does not follow
//! that.

use trimtab_io::Nanos;

use super::spec::MAX_COMPENSATION;

/// Depth buckets are powers of two: 1, 2, 3–4, 5–8, 9–16, 17–32, more.
const BUCKETS: usize = 7;
/// Reads per estimate.
const WINDOW: usize = 128;
/// The largest spread, from tenth percentile to median, of a path that is compensated.
const MAX_SPREAD: Nanos = Nanos::from_micros(30);
/// A rising estimate moves by 1/`STEP` of the difference with each window.
const STEP: u64 = 4;

/// One read's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathSample {
    /// Requests in flight when it arrived, itself included.
    pub(super) depth: usize,
    /// Latency beyond the model and the faults, in ns; negative if the answer was early.
    pub(super) beyond: i64,
    /// The compensation that was applied to it.
    pub(super) compensation: Nanos,
}

/// The path latency estimate, by depth. A plain state machine: samples in, compensation out.
#[derive(Clone, Debug)]
pub(super) struct Compensator {
    /// Set by the user, and then not corrected.
    fixed: Option<Nanos>,
    /// Used for depths without an estimate.
    initial: Nanos,
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    compensation: Option<Nanos>,
    /// Path latencies, in ns, since the last estimate.
    paths: Vec<i64>,
}

impl Compensator {
    /// Starts from `initial`.
    pub(super) fn new(initial: Nanos) -> Self {
        Self { fixed: None, initial: initial.min(MAX_COMPENSATION), buckets: Default::default() }
    }

    /// The same at all depths, and never corrected.
    pub(super) fn fixed(compensation: Nanos) -> Self {
        Self { fixed: Some(compensation), ..Self::new(compensation) }
    }

    pub(super) const fn is_fixed(&self) -> bool {
        self.fixed.is_some()
    }

    /// Starts anew from a measured estimate.
    pub(super) fn begin(&mut self, initial: Nanos) {
        if !self.is_fixed() {
            *self = Self::new(initial);
        }
    }

    /// The compensation for a request with `depth` in flight. A depth without an estimate uses the
    /// next lower one's: the path gets longer with depth, and too little is better than too much.
    pub(super) fn at_depth(&self, depth: usize) -> Nanos {
        let known =
            self.buckets[..=bucket(depth)].iter().rev().find_map(|bucket| bucket.compensation);
        self.fixed.or(known).unwrap_or(self.initial)
    }

    /// Learns from samples.
    pub(super) fn learn(&mut self, samples: impl IntoIterator<Item = PathSample>) {
        if self.is_fixed() {
            return;
        }
        for PathSample { depth, beyond, compensation } in samples {
            let before = self.at_depth(depth);
            let bucket = &mut self.buckets[bucket(depth)];
            bucket.paths.push(beyond + compensation.0 as i64);
            if bucket.paths.len() == WINDOW {
                bucket.compensation = Some(estimate(before, &mut bucket.paths));
                bucket.paths.clear();
            }
        }
    }
}

fn bucket(depth: usize) -> usize {
    (depth.max(1).next_power_of_two().trailing_zeros() as usize).min(BUCKETS - 1)
}

/// The new estimate, from a window of path latencies.
fn estimate(before: Nanos, paths: &mut [i64]) -> Nanos {
    paths.sort_unstable();
    let path = |part: usize| Nanos(paths[paths.len() / part].max(0) as u64);
    let (tenth, median) = (path(10), path(2));
    let found = tenth.min(MAX_COMPENSATION);
    if found <= before {
        found
    } else if median.since(tenth) > MAX_SPREAD {
        before
    } else {
        before + Nanos(found.since(before).0.div_ceil(STEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Nanos {
        Nanos::from_micros(us)
    }

    /// Reads at a depth over a path of this latency, plus up to `spread`.
    fn reads(of: &mut Compensator, depth: usize, path: Nanos, spread: Nanos, windows: usize) {
        for i in 0..WINDOW * windows {
            let compensation = of.at_depth(depth);
            let more = spread.0 as i64 * (i % 100) as i64 / 100;
            of.learn([PathSample {
                depth,
                beyond: path.0 as i64 + more - compensation.0 as i64,
                compensation,
            }]);
        }
    }

    #[test]
    fn estimate_falls_at_once_and_rises_in_steps() {
        // Estimated on a busy machine.
        let mut compensator = Compensator::new(us(120));
        reads(&mut compensator, 1, us(30), us(5), 1);
        assert!(
            (us(30)..us(32)).contains(&compensator.at_depth(1)),
            "{:?}",
            compensator.at_depth(1)
        );
        reads(&mut compensator, 1, us(60), us(5), 1);
        let first = compensator.at_depth(1);
        assert!((us(36)..us(40)).contains(&first), "{first}");
        reads(&mut compensator, 1, us(60), us(5), 20);
        assert!(
            (us(59)..us(61)).contains(&compensator.at_depth(1)),
            "{:?}",
            compensator.at_depth(1)
        );
    }

    #[test]
    fn depth_without_estimate_uses_the_next_lower_one() {
        let mut compensator = Compensator::new(us(20));
        reads(&mut compensator, 4, us(50), us(4), 30);
        assert_eq!((compensator.at_depth(1), compensator.at_depth(2)), (us(20), us(20)));
        assert_eq!(compensator.at_depth(3), compensator.at_depth(4));
        assert_eq!(compensator.at_depth(1_000), compensator.at_depth(4));
        assert!(compensator.at_depth(5) > us(45));
        reads(&mut compensator, 1, us(10), us(4), 1);
        assert!(compensator.at_depth(1) < us(11) && compensator.at_depth(4) > us(45));
    }

    #[test]
    fn saturation_and_excess_are_not_compensated() {
        let mut compensator = Compensator::new(us(20));
        reads(&mut compensator, 32, us(30), us(400), 50);
        assert_eq!(compensator.at_depth(32), us(20));
        // Capped, however long the path.
        reads(&mut compensator, 1, us(5_000), us(1), 100);
        assert_eq!(compensator.at_depth(1), MAX_COMPENSATION);
    }

    #[test]
    fn fixed_compensation_is_not_corrected() {
        let mut compensator = Compensator::fixed(us(40));
        reads(&mut compensator, 1, us(5), us(1), 10);
        compensator.begin(us(7));
        assert_eq!((compensator.at_depth(1), compensator.at_depth(99)), (us(40), us(40)));
    }
}
