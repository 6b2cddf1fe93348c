//! Where a distribution bends.

use trimtab_io::Nanos;

/// Latencies beyond this share determine the tail's length, not its start.
const BODY: f64 = 0.97;

/// The latency where the distribution bends: with all latencies up to the 97th
/// percentile scaled to 0–1, the one at which the CDF lies farthest above the
/// diagonal (Satopää et al., *Kneedle*, 2011, without its smoothing). `None`
/// without latencies, or if all are the same.
///
/// `sorted` are all latencies, ascending.
#[must_use]
pub fn knee(sorted: &[Nanos]) -> Option<Nanos> {
    let most = *sorted.get(rank(sorted.len(), BODY)?)?;
    let body = &sorted[..sorted.partition_point(|&latency| latency <= most)];
    let (least, range) = (body[0].0, most.0 - body[0].0);
    if range == 0 {
        return None;
    }
    // Height above the diagonal, (i + 1) / n − (latency − least) / range, times
    // n × range: so that it is exact. Of equal latencies the last has the CDF's
    // value; the first of equal heights is taken.
    let n = body.len() as i128;
    let height = |i: usize| (i as i128 + 1) * i128::from(range) - i128::from(body[i].0 - least) * n;
    let best = (0..body.len()).rev().max_by_key(|&i| height(i))?;
    Some(body[best])
}

/// As [`knee`], of a histogram: `counts` are latencies, ascending, with their counts.
#[must_use]
pub fn knee_of_counts(counts: &[(Nanos, u64)]) -> Option<Nanos> {
    knee_up_to(counts, BODY)
}

/// As [`knee_of_counts`] with the whole tail: where the tail begins if less than 3% of the
/// latencies are in it.
#[must_use]
pub fn knee_of_all_counts(counts: &[(Nanos, u64)]) -> Option<Nanos> {
    knee_up_to(counts, 1.0)
}

fn knee_up_to(counts: &[(Nanos, u64)], share: f64) -> Option<Nanos> {
    let total: u64 = counts.iter().map(|&(_, count)| count).sum();
    let rank = rank(usize::try_from(total).ok()?, share)? as u64;
    let mut below = 0;
    let cumulative = counts.iter().map(|&(latency, count)| {
        below += count;
        (latency, below)
    });
    let cumulative: Vec<(Nanos, u64)> = cumulative.collect();
    let end = cumulative.partition_point(|&(_, below)| below <= rank);
    let body = &cumulative[..=end.min(cumulative.len() - 1)];
    let (&(least, _), &(most, n)) = (body.first()?, body.last()?);
    let range = most.0 - least.0;
    if range == 0 {
        return None;
    }
    let height = |&(latency, below): &(Nanos, u64)| {
        i128::from(below) * i128::from(range) - i128::from(latency.0 - least.0) * i128::from(n)
    };
    body.iter().rev().max_by_key(|at| height(at)).map(|&(latency, _)| latency)
}

/// The index of a share's latency among `count` ascending ones: the nearest rank.
pub(super) fn rank(count: usize, share: f64) -> Option<usize> {
    let rank = (count as f64 * share).ceil() as usize;
    Some(rank.clamp(1, count.max(1)) - 1).filter(|_| count > 0)
}

/// Which share of the latencies is at most `latency`, in percent.
#[must_use]
pub fn percentile_of(sorted: &[Nanos], latency: Nanos) -> f64 {
    let below = sorted.partition_point(|&l| l <= latency);
    100.0 * below as f64 / sorted.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knee_is_where_the_tail_begins() {
        // Nine of ten from 100 to 190, the others far out.
        let mut latencies: Vec<Nanos> = (0..900).map(|i| Nanos(100 + i / 10)).collect();
        latencies.extend((0..100).map(|i| Nanos(1000 + 10 * i)));
        assert_eq!(knee(&latencies), Some(Nanos(189)));
        assert!((percentile_of(&latencies, Nanos(189)) - 90.0).abs() < 1e-9);
    }

    #[test]
    fn histogram_has_the_knee_of_its_latencies() {
        let mut state = 1_u64;
        for n in [1, 2, 7, 400, 5_000] {
            let mut latencies: Vec<Nanos> = (0..n)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let x = state >> 40;
                    Nanos(if x.is_multiple_of(20) { x % 5_000 } else { 90 + x % 40 })
                })
                .collect();
            latencies.sort_unstable();
            let counts: Vec<_> =
                latencies.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64)).collect();
            assert_eq!(knee_of_counts(&counts), knee(&latencies), "{n}");
        }
        assert_eq!(knee_of_counts(&[]), None);
        assert_eq!(knee_of_counts(&[(Nanos(7), 20)]), None);
    }

    #[test]
    fn whole_tail_knee_finds_a_short_tail() {
        let mut counts: Vec<_> = (100..150).map(|ns| (Nanos(ns), 20)).collect();
        counts.extend([(Nanos(5_000), 5), (Nanos(5_100), 5)]);
        assert!(knee_of_counts(&counts).unwrap() < Nanos(149));
        assert_eq!(knee_of_all_counts(&counts), Some(Nanos(149)));
    }

    #[test]
    fn equal_latencies_have_no_knee() {
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&[Nanos(7); 20]), None);
    }
}
