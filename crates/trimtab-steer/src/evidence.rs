//! What differences have shown: their mean, and how certain it is.

/// What is kept of the differences with each one: a hundred say what lately means.
const KEPT: f64 = 0.99;
/// The least deviation of a difference, as a share of the mean, and in ns. A few equal ones are not
/// certainty.
const LEAST_DEVIATION: f64 = 0.03;
const LEAST_NANOS: f64 = 1.0;

/// Decaying sums of differences, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    pairs: f64,
    sum: f64,
    squares: f64,
}

impl Evidence {
    pub(crate) const NONE: Self = Self { pairs: 0.0, sum: 0.0, squares: 0.0 };

    /// Takes the difference of a pair, ns.
    pub(crate) fn record(&mut self, difference: f64) {
        self.pairs = KEPT * self.pairs + 1.0;
        self.sum = KEPT * self.sum + difference;
        self.squares = KEPT * self.squares + difference * difference;
    }

    /// The number of pairs that count, up to a hundred.
    pub(crate) const fn pairs(&self) -> f64 {
        self.pairs
    }

    /// The mean difference in standard errors; 0 without pairs.
    pub(crate) fn mean_in_errors(&self) -> f64 {
        if self.pairs == 0.0 {
            return 0.0;
        }
        let mean = self.sum / self.pairs;
        let deviation = (self.squares / self.pairs - mean * mean).max(0.0).sqrt();
        let deviation = deviation.max(LEAST_DEVIATION * mean.abs()).max(LEAST_NANOS);
        mean * self.pairs.sqrt() / deviation
    }
}

#[cfg(test)]
mod tests {
    use trimtab_io::SplitMix64;

    use super::*;

    /// Differences within 1 ms of this mean, evenly.
    fn mean_in_errors(differences: u32, mean: f64) -> f64 {
        let mut random = SplitMix64::new(1);
        let mut evidence = Evidence::NONE;
        for _ in 0..differences {
            let share = random.next() as f64 / u64::MAX as f64;
            evidence.record(mean + 1e6 * (2.0 * share - 1.0));
        }
        evidence.mean_in_errors()
    }

    #[test]
    fn the_mean_is_certain_with_many_differences_or_large_ones() {
        assert_eq!(mean_in_errors(0, 1e6), 0.0);
        let (few, many) = (mean_in_errors(10, 3e5), mean_in_errors(1_000, 3e5));
        // They deviate by 1 ms / √3, and the last hundred count.
        assert!((4.0..6.5).contains(&many) && few.abs() < many, "{few} {many}");
        assert!(mean_in_errors(1_000, -3e5) < -3.0 && mean_in_errors(10, 1e7) > 20.0);
    }

    #[test]
    fn equal_differences_are_no_certainty() {
        let mut evidence = Evidence::NONE;
        (0..4).for_each(|_| evidence.record(5.0));
        assert!(evidence.mean_in_errors() < 20.0);
    }
}
