//! How long a read takes at least, by its size.

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

/// Which of the reads of a size the floor is at: so many in a hundred are faster.
const PERCENT: usize = 10;
/// Reads that a size must have, to say something.
const ENOUGH: usize = 20;
/// Sizes, by powers of two.
const SIZES: usize = 16;

/// The latency of a read that meets an idle drive, by its 4 KiB pages: a line
/// from each size that was learnt to the next. What comes on top of it is what a
/// predictor has to say, and it is the same kind of number for all sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Floor(Vec<(u32, u32)>);

impl Floor {
    /// Learns it from reads: latencies, and pages. A larger read never takes less.
    pub(crate) fn learn(reads: impl Iterator<Item = (Nanos, u32)>) -> Self {
        let mut sizes: [Vec<(u64, u32)>; SIZES] = Default::default();
        for (latency, pages) in reads {
            let size = pages.max(1).ilog2() as usize;
            sizes[size.min(SIZES - 1)].push((latency.0, pages));
        }
        let mut points: Vec<(u32, u32)> = Vec::new();
        for mut reads in sizes.into_iter().filter(|reads| reads.len() >= ENOUGH) {
            let pages = reads.iter().map(|read| u64::from(read.1)).sum::<u64>();
            let pages = (pages / reads.len() as u64) as u32;
            let place = reads.len() * PERCENT / 100;
            let latency = reads.select_nth_unstable(place).1.0;
            let latency = u32::try_from(latency).unwrap_or(u32::MAX);
            points.push((pages, latency.max(points.last().map_or(0, |point| point.1))));
        }
        Self(points)
    }

    /// The floor of a read of so many pages; of sizes beyond those known, that of
    /// the nearest.
    #[must_use]
    pub fn latency(&self, pages: u32) -> Nanos {
        let after = self.0.partition_point(|point| point.0 <= pages);
        let nanos = match (after.checked_sub(1).map(|i| self.0[i]), self.0.get(after)) {
            (None, None) => 0,
            (Some((_, latency)), None) => latency,
            (None, Some(&(_, latency))) => latency,
            (Some((less, low)), Some(&(more, high))) => {
                let (along, whole) = (u64::from(pages - less), u64::from(more - less));
                low + (u64::from(high - low) * along / whole) as u32
            }
        };
        Nanos(nanos.into())
    }

    /// Whether it is one that could have been learnt.
    pub(crate) fn is_valid(&self) -> bool {
        self.0.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_between_sizes() {
        // One page 80 µs, then 5 µs a page; every third read is hindered.
        let read = |i: u32| {
            let pages = [1, 2, 6, 24][i as usize % 4];
            let late = if i.is_multiple_of(3) { 900 } else { 0 };
            (Nanos::from_micros((75 + 5 * pages + late).into()), pages)
        };
        let floor = Floor::learn((0..1200).map(read));
        assert!(floor.is_valid());
        for (pages, micros) in [(0, 80), (1, 80), (2, 85), (4, 95), (15, 150), (24, 195), (99, 195)]
        {
            assert_eq!(floor.latency(pages), Nanos::from_micros(micros), "{pages}");
        }
        assert_eq!(Floor::learn(std::iter::empty()).latency(7), Nanos::ZERO);
    }
}
