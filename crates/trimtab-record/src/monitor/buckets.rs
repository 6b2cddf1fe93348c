//! Latency histogram with fixed buckets, so that counts can be added over time and over
//! machines.

use trimtab_io::Nanos;

/// The buckets' upper bounds: 10 µs to 10 s, each 2 or 2.5 times the previous one. Longer
/// latencies are in the last bucket, which is unbounded.
pub const BOUNDS: [Nanos; 19] = [
    Nanos::from_micros(10),
    Nanos::from_micros(20),
    Nanos::from_micros(50),
    Nanos::from_micros(100),
    Nanos::from_micros(200),
    Nanos::from_micros(500),
    Nanos::from_millis(1),
    Nanos::from_millis(2),
    Nanos::from_millis(5),
    Nanos::from_millis(10),
    Nanos::from_millis(20),
    Nanos::from_millis(50),
    Nanos::from_millis(100),
    Nanos::from_millis(200),
    Nanos::from_millis(500),
    Nanos::from_secs(1),
    Nanos::from_secs(2),
    Nanos::from_secs(5),
    Nanos::from_secs(10),
];

/// The number of latencies per bucket, and their sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct LatencyBuckets {
    counts: [u64; BOUNDS.len() + 1],
    sum: u128,
}

impl LatencyBuckets {
    /// Adds one latency.
    pub fn record(&mut self, latency: Nanos) {
        self.counts[BOUNDS.partition_point(|&bound| bound < latency)] += 1;
        self.sum += u128::from(latency.0);
    }

    /// For each bound, the number of latencies up to it.
    pub fn cumulative(&self) -> impl Iterator<Item = (Nanos, u64)> {
        BOUNDS.into_iter().zip(self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    /// The number of latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all latencies, in seconds.
    #[must_use]
    pub fn sum_seconds(&self) -> f64 {
        self.sum as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        let mut buckets = LatencyBuckets::default();
        let all = [Nanos(0), BOUNDS[0], Nanos(BOUNDS[0].0 + 1), BOUNDS[18], Nanos::from_secs(11)];
        all.into_iter().for_each(|latency| buckets.record(latency));
        let counts: Vec<u64> = buckets.cumulative().map(|(_, count)| count).collect();
        assert_eq!((counts[0], counts[1], counts[17], counts[18]), (2, 3, 3, 4));
        assert_eq!(buckets.count(), 5);
        assert!((buckets.sum_seconds() - 21.000_020_001).abs() < 1e-9);
        assert!(BOUNDS.is_sorted());
    }
}
