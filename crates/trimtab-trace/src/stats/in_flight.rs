//! Queue depth at arrival.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trimtab_io::{DeviceId, LatencyHistogram, Nanos, PERCENTILES};

use super::report::{DepthClass, QueueDepth};

/// Maximum number of tracked requests, 16 bytes each. A trace with more is broken or has broken
/// clocks, and must not take all memory.
const MAX: usize = 1 << 20;
/// Depth classes up to that of [`MAX`].
const CLASSES: usize = MAX.ilog2() as usize + 2;

/// Requests in flight by device, and the depths at arrival.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Completion times, the next one on top. One heap for all devices, so that idle devices hold
    /// nothing.
    completions: BinaryHeap<Reverse<(Nanos, DeviceId)>>,
    /// Current depth, by device number.
    depth: Vec<u32>,
    /// Of depths; a latency histogram takes any integer.
    seen: LatencyHistogram,
    sum: u128,
    /// Arrivals by depth class: 0, 1, 2–3, …
    classes: [u64; CLASSES],
    untracked: u64,
}

impl InFlight {
    pub(super) fn add(&mut self, device: DeviceId, now: Nanos, complete: Option<Nanos>) {
        while let Some(&Reverse((at, other))) = self.completions.peek() {
            if at > now {
                break;
            }
            self.completions.pop();
            self.depth[other.0 as usize] -= 1;
        }
        let index = device.0 as usize;
        if index >= self.depth.len() {
            self.depth.resize(index + 1, 0);
        }
        let depth = self.depth[index];
        self.seen.record(Nanos(depth.into()));
        self.sum += u128::from(depth);
        self.classes[class(depth)] += 1;

        let Some(complete) = complete.filter(|&at| at > now) else { return };
        if self.completions.len() == MAX {
            self.untracked += 1;
            return;
        }
        self.depth[index] += 1;
        self.completions.push(Reverse((complete, device)));
    }

    pub(super) fn figures(&self) -> QueueDepth {
        let arrivals = self.seen.count();
        let percentile = |name| {
            let kind = PERCENTILES.iter().find(|p| p.name == name)?;
            kind.supported_by(arrivals).then(|| self.seen.quantile(kind.share()))?.map(|d| d.0)
        };
        let used = self.classes.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
        let classes = (0..).zip(&self.classes[..used]).map(|(class, &n)| DepthClass {
            from: min_depth_of(class),
            to: min_depth_of(class + 1) - 1,
            share: n as f64 / arrivals as f64,
        });
        QueueDepth {
            mean: self.sum as f64 / arrivals as f64,
            p50: percentile("p50"),
            p90: percentile("p90"),
            p99: percentile("p99"),
            max: self.seen.max().unwrap_or_default().0,
            classes: classes.collect(),
            untracked: self.untracked,
        }
    }
}

/// 0 for 0, 1 for 1, 2 for 2–3, 3 for 4–7, …: the bit length.
const fn class(depth: u32) -> usize {
    (u32::BITS - depth.leading_zeros()) as usize
}

/// The smallest depth of a class.
const fn min_depth_of(class: u32) -> u64 {
    match class {
        0 => 0,
        _ => 1 << (class - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        for (depth, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4)] {
            assert_eq!(class(depth), expected);
        }
        assert_eq!((0..5).map(min_depth_of).collect::<Vec<_>>(), [0, 1, 2, 4, 8]);
    }

    #[test]
    fn incomplete_requests_are_bounded() {
        let mut in_flight = InFlight::default();
        for i in 0..MAX as u64 + 10 {
            in_flight.add(DeviceId(0), Nanos(i), Some(Nanos::MAX));
        }
        assert_eq!(in_flight.completions.len(), MAX);
        let figures = in_flight.figures();
        assert_eq!(figures.untracked, 10);
        assert_eq!(figures.max, MAX as u64);
    }
}
