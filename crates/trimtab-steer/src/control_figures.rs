//! What the control group has measured: figures for the user, beside the tests of `control`.

use trimtab_io::{LatencyHistogram, Nanos};

/// The fewest pairs of which a p99 is one.
const LEAST_PAIRS: u64 = 1000;

/// What moving reads away from their primary replica gains, by the pairs of the control group:
/// moved reads that were sent to their primary as well. Probes of avoided replicas are no pairs,
/// and pairs that explore a move that is not made do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlFigures {
    /// Pairs of which both latencies are known, or known to be longer than any that counts.
    pub pairs: u64,
    /// The mean by which a moved read was faster than at its primary replica, ns; negative if it
    /// was slower. Failover and decisions are included; what a moved read delays is not. A
    /// difference counts up to the limit that the control group sets.
    pub mean_ns: f64,
    /// The standard error of the mean, ns, as if pairs were independent.
    pub error_ns: f64,
    /// The share of the moved reads that took longer than 99% of the same reads at their primary
    /// replica: 0.01 if moving does not change the tail, less if it gains. `None` with fewer than
    /// 1000 pairs, of which there is no p99.
    pub beyond_p99: Option<f64>,
}

/// The measurements behind [`ControlFigures`].
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pairs: u64,
    mean: f64,
    /// The sum of squared deviations (Welford, 1962).
    squares: f64,
    moved: LatencyHistogram,
    at_primary: LatencyHistogram,
}

impl Measured {
    pub(crate) fn new() -> Self {
        let (moved, at_primary) = (LatencyHistogram::new(), LatencyHistogram::new());
        Self { pairs: 0, mean: 0.0, squares: 0.0, moved, at_primary }
    }

    /// Takes the latencies of a moved read, of which differences count up to `clip`.
    pub(crate) fn pair(&mut self, moved: Nanos, at_primary: Nanos, clip: Nanos) {
        // The longer one counts up to the limit above the shorter one.
        let most = moved.min(at_primary).0.saturating_add(clip.0);
        let [moved, at_primary] = [moved, at_primary].map(|latency| Nanos(latency.0.min(most)));
        let gain = at_primary.0 as f64 - moved.0 as f64;
        self.pairs += 1;
        let before = gain - self.mean;
        self.mean += before / self.pairs as f64;
        self.squares += before * (gain - self.mean);
        self.moved.record(moved);
        self.at_primary.record(at_primary);
    }

    pub(crate) fn figures(&self) -> ControlFigures {
        let variance = self.squares / self.pairs.saturating_sub(1).max(1) as f64;
        ControlFigures {
            pairs: self.pairs,
            mean_ns: self.mean,
            error_ns: (variance / self.pairs.max(1) as f64).sqrt(),
            beyond_p99: self.beyond_p99(),
        }
    }

    fn beyond_p99(&self) -> Option<f64> {
        let p99 = self.at_primary.quantile(0.99).filter(|_| self.pairs >= LEAST_PAIRS)?;
        let beyond = self.moved.buckets().filter(|(latency, _)| *latency > p99);
        Some(beyond.map(|(_, count)| count).sum::<u64>() as f64 / self.pairs as f64)
    }
}

#[cfg(test)]
mod tests {
    use trimtab_io::RequestId;

    use super::*;
    use crate::control::ControlGroup;
    use crate::pair::Pair;
    use crate::question::Question;
    use crate::replica::Replica;

    const CLIP: Nanos = Nanos::from_micros(10_000);

    #[test]
    fn gain_has_mean_and_error() {
        let mut measured = Measured::new();
        for (at_primary, moved) in [(100, 90), (100, 110), (150, 100), (100, 150)] {
            measured.pair(Nanos(moved), Nanos(at_primary), CLIP);
        }
        let figures = measured.figures();
        assert_eq!((figures.pairs, figures.mean_ns, figures.beyond_p99), (4, 0.0, None));
        // The sample's deviation is sqrt(5200 / 3).
        assert!((figures.error_ns - (5200.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-9, "{figures:?}");
    }

    /// One read in twenty takes 5 ms at its primary; of the moved ones one in a thousand does, or
    /// one in ten.
    #[test]
    fn tail_is_compared_with_that_of_the_primary() {
        for (one_in, expected) in [(1000, 0.001), (10, 0.1)] {
            let mut measured = Measured::new();
            for i in 0..20_000_u64 {
                let us = |late: bool, late_us| Nanos::from_micros(if late { late_us } else { 100 });
                measured.pair(us(i % one_in == 0, 6_000), us(i % 20 == 1, 5_000), CLIP);
            }
            let share = measured.figures().beyond_p99.unwrap();
            assert!((share - expected).abs() < 1e-9, "{share}");
        }
    }

    #[test]
    fn differences_count_up_to_the_limit() {
        let mut measured = Measured::new();
        measured.pair(Nanos(100), Nanos::MAX, Nanos(50));
        measured.pair(Nanos::MAX, Nanos(100), Nanos(30));
        assert_eq!(measured.figures().mean_ns, 10.0);
    }

    /// A pair of a read that its primary is refused, with these latencies, µs.
    fn serve(control: &mut ControlGroup, read: u64, moved: u64, at_primary: Option<u64>) {
        let (read, arrival) = (RequestId(read), Nanos(read));
        control.begin(
            1.0,
            Pair {
                read,
                question: Question::Refused,
                arrival,
                primary: Replica(0),
                sides: [Replica(1), Replica(0)],
                clip: CLIP,
                unsent: CLIP,
                typical: Nanos::ZERO,
                toll: 0.0,
                took: [None; 2],
            },
        );
        control.completed(arrival + Nanos::from_micros(moved), read, Replica(1), true);
        match at_primary {
            Some(us) => control.completed(arrival + Nanos::from_micros(us), read, Replica(0), true),
            None => control.forget(read),
        }
    }

    #[test]
    fn moves_that_are_made_count_and_explored_or_unknown_ones_do_not() {
        let mut control = ControlGroup::new(CLIP, 1);
        (0..10).for_each(|i| serve(&mut control, i, 100, Some(300)));
        (10..20).for_each(|i| serve(&mut control, i, 100, None));
        let figures = control.figures();
        assert_eq!((figures.pairs, figures.mean_ns, figures.error_ns), (10, 200_000.0, 0.0));
        // The move is given up after some losses; what is explored then is no loss of a user.
        (20..2000).for_each(|i| serve(&mut control, i, 5_000, Some(100)));
        let figures = control.figures();
        assert!((11..50).contains(&figures.pairs), "{figures:?}");
    }
}
