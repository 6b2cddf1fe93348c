//! Slow relative to reads of the same size at the same load.

use trimtab_io::Nanos;
use trimtab_predict::expected::{ExpectedLatency, LOAD_CLASSES, SIZE_CLASSES, class};

use super::knee::knee;

/// Samples of the prior in the median of each class.
const ENOUGH: f64 = 30.0;

/// Learns the latency to expect of each class of size and load: the median, drawn towards
/// that of its size where samples are few, and never falling with load or size.
fn learn(reads: &[(Nanos, u32, u32)]) -> ExpectedLatency {
    let mut classes = vec![vec![Vec::new(); LOAD_CLASSES]; SIZE_CLASSES];
    for &(latency, pages, load) in reads {
        classes[class(pages, SIZE_CLASSES)][class(load, LOAD_CLASSES)].push(latency.0);
    }
    let all = median(reads.iter().map(|read| read.0.0).collect()).unwrap_or(0.0);
    let mut table = vec![[0; LOAD_CLASSES]; SIZE_CLASSES];
    for (size, loads) in classes.into_iter().enumerate() {
        let of_size = drawn(loads.concat(), all);
        for (load, latencies) in loads.into_iter().enumerate() {
            let left = if load > 0 { table[size][load - 1] } else { 0 };
            let above = if size > 0 { table[size - 1][load] } else { 0 };
            // The prior is the next lighter load, not the mean over all loads.
            let prior = if left > 0 { left as f64 } else { of_size };
            table[size][load] = (drawn(latencies, prior) as u64).max(left).max(above);
        }
    }
    ExpectedLatency::new(table)
}

/// The median, drawn towards `prior` where samples are few.
fn drawn(latencies: Vec<u64>, prior: f64) -> f64 {
    let count = latencies.len() as f64;
    match median(latencies) {
        None => prior,
        Some(median) => (median * count + prior * ENOUGH) / (count + ENOUGH),
    }
}

fn median(mut latencies: Vec<u64>) -> Option<f64> {
    if latencies.is_empty() {
        return None;
    }
    let middle = latencies.len() / 2;
    Some(*latencies.select_nth_unstable(middle).1 as f64)
}

/// A label that accounts for size and load. A large read takes longer, and so does one at a
/// high load; neither shows that the drive is internally busy. A read is slow if the ratio of
/// its latency to the median of its class exceeds the [`knee`](super::knee()) of all ratios.
/// `None` if there is no knee.
///
/// `reads` are latencies with 4 KiB pages: those of the request, and those in flight before.
#[must_use]
pub fn relative(reads: &[(Nanos, u32, u32)]) -> Option<(ExpectedLatency, f64)> {
    let expected = learn(reads);
    let ratio = |&(latency, pages, load): &(Nanos, u32, u32)| {
        // In thousandths.
        Nanos(latency.0.saturating_mul(1000) / expected.latency(pages, load).0.max(1))
    };
    let mut ratios: Vec<Nanos> = reads.iter().map(ratio).collect();
    ratios.sort_unstable();
    let times = knee(&ratios)?.0 as f64 / 1000.0;
    Some((expected, times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_predict::Label;

    /// Reads of 1 to 64 pages, 10 µs a page, at loads of 0 to 127, 1 µs each; one
    /// of twenty takes five times as long.
    fn reads() -> Vec<(Nanos, u32, u32)> {
        let one = |i: u32| {
            let (pages, load) = (1 << (i % 7), i * 37 % 128);
            let fair = u64::from(80 + 10 * pages + load) + u64::from(i * 31 % 17);
            let slow = i % 20 == 13;
            (Nanos::from_micros(if slow { 5 * fair } else { fair }), pages, load)
        };
        (0..20_000).map(one).collect()
    }

    #[test]
    fn size_alone_is_not_slow() {
        let reads = reads();
        let (expected, times) = relative(&reads).unwrap();
        let label = Label::Relative { expected, times };
        let truth = |i: usize| i % 20 == 13;
        let right = reads
            .iter()
            .enumerate()
            .filter(|(i, read)| label.is_slow(read.0, read.1, read.2) == truth(*i));
        let share = right.count() as f64 / reads.len() as f64;
        assert!(share > 0.98, "{share}");
        // One threshold for all cannot separate them.
        let mut sorted: Vec<Nanos> = reads.iter().map(|read| read.0).collect();
        sorted.sort_unstable();
        let absolute = Label::Threshold { latency: knee(&sorted).unwrap() };
        let slow = |pages: u32| {
            let of_size = reads.iter().filter(|read| read.1 == pages);
            of_size.clone().filter(|r| absolute.is_slow(r.0, r.1, r.2)).count() as f64
                / of_size.count() as f64
        };
        assert!(slow(64) > 3.0 * slow(1), "{} {}", slow(64), slow(1));
    }
}
