//! Latency distributions that can be subtracted: what came between two looks.

use serde::{Deserialize, Serialize};
use trimtab_io::{LatencyHistogram, Nanos, PERCENTILES};

use crate::figures::Latencies;

/// Latencies by buckets, 16 for each doubling, since an array's start. The difference of two is what
/// came between them, which percentiles since the start do not tell.
///
/// As JSON, and in memory, pairs in rising order: the longest latency of a bucket, ns, and how many it
/// has, which is not 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Buckets(Vec<(u64, u64)>);

/// The power of two of the buckets for each doubling: a latency is known to within a sixteenth.
const FINE: u32 = 4;

/// The longest latency that is in one bucket with this one.
const fn longest(latency: u64) -> u64 {
    let coarse = (latency | 1).ilog2().saturating_sub(FINE);
    latency | ((1 << coarse) - 1)
}

impl From<&LatencyHistogram> for Buckets {
    fn from(all: &LatencyHistogram) -> Self {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (latency, count) in all.buckets() {
            let longest = longest(latency.0);
            match buckets.last_mut() {
                Some((last, counted)) if *last == longest => *counted += count,
                _ => buckets.push((longest, count)),
            }
        }
        Self(buckets)
    }
}

impl Buckets {
    /// What came since `earlier`, of the same array. If that is of another one, or of a server before
    /// this one, what has fewer counts as nothing.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut before = earlier.0.iter().copied().peekable();
        let more = self.0.iter().filter_map(|&(longest, count)| {
            while before.next_if(|&(of, _)| of < longest).is_some() {}
            let was = before.next_if(|&(of, _)| of == longest).map_or(0, |(_, was)| was);
            (count > was).then(|| (longest, count - was))
        });
        Self(more.collect())
    }

    /// How many latencies there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// The latency that the share `q` (0 to 1) of them does not exceed, up to 6.25% too long; `None`
    /// without any.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let rank = (q * self.count() as f64).ceil() as u64;
        let mut seen = 0;
        let mut reached = self.0.iter().filter(|(_, count)| {
            seen += count;
            seen >= rank
        });
        reached.next().map(|&(longest, _)| Nanos(longest))
    }

    /// The percentiles for which there are enough, up to 6.25% too long.
    #[must_use]
    pub fn latencies(&self) -> Latencies {
        let count = self.count();
        let percentile = |name| {
            let kind = PERCENTILES.iter().find(|kind| kind.name == name);
            let share = kind.filter(|kind| kind.supported_by(count))?.share();
            self.quantile(share).map(Nanos::as_micros_f64)
        };
        Latencies {
            count,
            p50_us: percentile("p50"),
            p99_us: percentile("p99"),
            p999_us: percentile("p99.9"),
            max_us: self.quantile(1.0).map(Nanos::as_micros_f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(latencies: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        histogram.extend(latencies.iter().copied().map(Nanos));
        histogram
    }

    proptest! {
        #[test]
        fn the_difference_is_what_came_between(
            before in prop::collection::vec(1_u64..1_000_000_000_000, 0..200),
            after in prop::collection::vec(1_u64..1_000_000_000_000, 0..200),
        ) {
            let all: Vec<u64> = before.iter().chain(&after).copied().collect();
            let since = Buckets::from(&of(&all)).since(&Buckets::from(&of(&before)));
            prop_assert_eq!(&since, &Buckets::from(&of(&after)));
            prop_assert_eq!(since.count(), after.len() as u64);
        }

        #[test]
        fn quantiles_are_at_most_a_sixteenth_too_long(
            mut latencies in prop::collection::vec(1_u64..1_000_000_000_000, 1..200),
            q in 0.0..=1.0_f64,
        ) {
            let got = Buckets::from(&of(&latencies)).quantile(q).unwrap().0 as f64;
            latencies.sort_unstable();
            let rank = (q * latencies.len() as f64).ceil().max(1.0) as usize;
            let exact = latencies[rank - 1] as f64;
            // The histogram behind it adds less than 1%.
            prop_assert!((exact..=exact * 1.0725 + 1.0).contains(&got), "{got} for {exact}");
        }
    }

    #[test]
    fn a_percentile_needs_enough_latencies() {
        let few = Buckets::from(&of(&[50_000; 999])).latencies();
        assert_eq!((few.count, few.p50_us.is_some(), few.p99_us), (999, true, None));
        let enough = Buckets::from(&of(&[50_000; 1000])).latencies();
        assert!(enough.p99_us.is_some_and(|p99| (50.0..53.2).contains(&p99)), "{enough:?}");
        assert_eq!(Buckets::default().latencies(), Latencies::default());
    }

    #[test]
    fn another_array_counts_as_new() {
        let [few, many] = [[70; 3].as_slice(), &[70; 5]].map(|all| Buckets::from(&of(all)));
        assert_eq!(few.since(&many), Buckets::default());
        assert_eq!(serde_json::to_string(&many).unwrap(), "[[71,5]]");
    }
}
