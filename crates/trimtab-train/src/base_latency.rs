//! Learning the base latency: that of a read on an idle drive, by size.

use trimtab_io::Nanos;
use trimtab_predict::BaseLatency;

/// The percentile of the latencies of a size that is its base latency.
const PERCENT: usize = 10;
/// The fewest reads of a size that count.
const ENOUGH: usize = 20;
/// Sizes, by powers of two.
const SIZES: usize = 16;

/// Learns the base latency from reads: latencies and 4 KiB pages. It never falls with size.
pub(crate) fn learn(reads: impl Iterator<Item = (Nanos, u32)>) -> BaseLatency {
    by_size(reads, |reads| {
        let rank = reads.len() * PERCENT / 100;
        reads.select_nth_unstable(rank).1.0
    })
}

/// The median latency by size, instead of that of an idle drive.
pub(crate) fn learn_median(reads: impl Iterator<Item = (Nanos, u32)>) -> BaseLatency {
    by_size(reads, |reads| reads.select_nth_unstable(reads.len() / 2).1.0)
}

fn by_size(
    reads: impl Iterator<Item = (Nanos, u32)>,
    of: impl Fn(&mut [(u64, u32)]) -> u64,
) -> BaseLatency {
    let mut sizes: [Vec<(u64, u32)>; SIZES] = Default::default();
    for (latency, pages) in reads {
        let size = pages.max(1).ilog2() as usize;
        sizes[size.min(SIZES - 1)].push((latency.0, pages));
    }
    let mut points: Vec<(u32, u32)> = Vec::new();
    for mut reads in sizes.into_iter().filter(|reads| reads.len() >= ENOUGH) {
        let pages = reads.iter().map(|read| u64::from(read.1)).sum::<u64>();
        let pages = (pages / reads.len() as u64) as u32;
        let latency = of(&mut reads);
        let latency = u32::try_from(latency).unwrap_or(u32::MAX);
        points.push((pages, latency.max(points.last().map_or(0, |point| point.1))));
    }
    BaseLatency::new(points).expect("sizes rise, and latencies do not fall")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_latency_is_that_of_unhindered_reads() {
        // One page 80 µs, then 5 µs a page; every third read is hindered.
        let read = |i: u32| {
            let pages = [1, 2, 6, 24][i as usize % 4];
            let late = if i.is_multiple_of(3) { 900 } else { 0 };
            (Nanos::from_micros((75 + 5 * pages + late).into()), pages)
        };
        let base = learn((0..1200).map(read));
        for (pages, micros) in [(0, 80), (1, 80), (2, 85), (4, 95), (15, 150), (24, 195), (99, 195)]
        {
            assert_eq!(base.latency(pages), Nanos::from_micros(micros), "{pages}");
        }
        assert_eq!(learn(std::iter::empty()).latency(7), Nanos::ZERO);
    }
}
