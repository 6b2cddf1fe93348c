//! Slow for what it is.

use serde::{Deserialize, Serialize};
use trimtab_io::Nanos;

use super::knee::knee;

/// Classes of sizes and loads: by powers of two.
const SIZES: usize = 12;
const LOADS: usize = 14;
/// What a class has to hold, to be believed in full.
const ENOUGH: f64 = 30.0;

/// The latency to expect of a read, by its size and by what is in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Expected(Vec<[u64; LOADS]>);

fn class(pages: u32, classes: usize) -> usize {
    // 0: nothing; 1: one page; 2: two or three; 3: four to seven …
    ((u32::BITS - pages.leading_zeros()) as usize).min(classes - 1)
}

impl Expected {
    /// The latency to expect of a read of so many 4 KiB pages, when so many
    /// others are in flight.
    #[must_use]
    pub fn latency(&self, pages: u32, load: u32) -> Nanos {
        let row = class(pages, SIZES).min(self.0.len().saturating_sub(1));
        Nanos(self.0.get(row).map_or(0, |row| row[class(load, LOADS)]))
    }

    /// Learns it: the median of each class of size and load, drawn towards that
    /// of its size where the class is small, and never less at a greater load or
    /// of a greater size.
    fn learn(reads: &[(Nanos, u32, u32)]) -> Self {
        let mut classes = vec![vec![Vec::new(); LOADS]; SIZES];
        for &(latency, pages, load) in reads {
            classes[class(pages, SIZES)][class(load, LOADS)].push(latency.0);
        }
        let all = median(reads.iter().map(|read| read.0.0).collect()).unwrap_or(0.0);
        let mut table = vec![[0; LOADS]; SIZES];
        for (size, loads) in classes.into_iter().enumerate() {
            let of_size = drawn(loads.concat(), all);
            for (load, latencies) in loads.into_iter().enumerate() {
                let left = if load > 0 { table[size][load - 1] } else { 0 };
                let above = if size > 0 { table[size - 1][load] } else { 0 };
                // A light load is not expected to take as long as all loads do.
                let prior = if left > 0 { left as f64 } else { of_size };
                table[size][load] = (drawn(latencies, prior) as u64).max(left).max(above);
            }
        }
        Self(table)
    }
}

/// The median, drawn towards `prior` by so much as samples lack.
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

/// A label that is not fooled by size and load: a large read takes longer, and so
/// does one that comes when much is in flight, and neither says that the drive
/// is busy with itself. What is slow is what takes so much longer than the
/// median of its like that the ratio is beyond the [`knee`](super::knee()) of all
/// ratios. `None` if there is no knee.
///
/// `reads` are latencies with 4 KiB pages: of the request, and in flight before.
#[must_use]
pub fn relative(reads: &[(Nanos, u32, u32)]) -> Option<(Expected, f64)> {
    let expected = Expected::learn(reads);
    let ratio = |&(latency, pages, load): &(Nanos, u32, u32)| {
        // In thousandths; where nothing is expected everything is.
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
    use crate::Label;

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
    fn large_is_not_slow() {
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
        // One threshold for all cannot tell them apart.
        let mut sorted: Vec<Nanos> = reads.iter().map(|read| read.0).collect();
        sorted.sort_unstable();
        let plain = Label::Threshold { latency: knee(&sorted).unwrap() };
        let slow = |pages: u32| {
            let of_size = reads.iter().filter(|read| read.1 == pages);
            of_size.clone().filter(|r| plain.is_slow(r.0, r.1, r.2)).count() as f64
                / of_size.count() as f64
        };
        assert!(slow(64) > 3.0 * slow(1), "{} {}", slow(64), slow(1));
    }
}
