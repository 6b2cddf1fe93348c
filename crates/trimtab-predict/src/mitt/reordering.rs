//! What serving requests in another order than that of sending saves.

use trimtab_io::Nanos;

/// The recent ratio of service times to those that were predicted when the requests were sent, one
/// after the other, at most 1: a scheduler or a disk that sorts them by place has shorter seeks. The
/// more it has to choose from, the shorter: the ratio is learned by how many wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reordering {
    by_waiting: [Ratio; Self::CLASSES],
}

/// Sums over recent requests, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Ratio {
    predicted: u64,
    actual: u64,
}

impl Reordering {
    /// One waits, two or three, four to seven, and so on; more than 63 are like 63.
    const CLASSES: usize = 7;
    /// A request loses half of its influence after 44 others.
    const WEIGHT: u64 = 64;
    /// As long as less is known than this, ns, nothing is scaled.
    const LEAST: u64 = 1_000_000;

    fn class(waiting: usize) -> usize {
        (waiting.max(1).ilog2() as usize).min(Self::CLASSES - 1)
    }

    /// A request was served in `actual` while so many waited, itself included; when it was sent
    /// `predicted` was expected.
    pub(super) fn learn(&mut self, waiting: usize, predicted: Nanos, actual: Nanos) {
        let most = u64::MAX / (4 * Self::WEIGHT);
        let ratio = &mut self.by_waiting[Self::class(waiting)];
        ratio.predicted = ratio.predicted - ratio.predicted / Self::WEIGHT + predicted.0.min(most);
        ratio.actual = ratio.actual - ratio.actual / Self::WEIGHT + actual.0.min(most);
    }

    /// The predicted time of so many requests that wait, as it will be.
    pub(super) fn scaled(&self, waiting: usize, time: Nanos) -> Nanos {
        // Of a queue longer than any so far, as of the longest that is known.
        let up_to = &self.by_waiting[..=Self::class(waiting)];
        let Some(ratio) = up_to.iter().rev().find(|ratio| ratio.predicted >= Self::LEAST) else {
            return time;
        };
        let actual = ratio.actual.min(ratio.predicted);
        let scaled = u128::from(time.0) * u128::from(actual) / u128::from(ratio.predicted);
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_recent_ratio() {
        let mut reordering = Reordering::default();
        assert_eq!(reordering.scaled(8, Nanos(1000)), Nanos(1000));
        (0..500).for_each(|_| reordering.learn(8, Nanos(10_000_000), Nanos(4_000_000)));
        assert!(reordering.scaled(8, Nanos(1000)).0.abs_diff(400) <= 1);
        // Longer queues are as those, shorter ones are not known.
        assert_eq!(reordering.scaled(500, Nanos(1000)), reordering.scaled(15, Nanos(1000)));
        assert_eq!(reordering.scaled(7, Nanos(1000)), Nanos(1000));
        (0..500).for_each(|_| reordering.learn(9, Nanos(10_000_000), Nanos(10_000_000)));
        assert!(reordering.scaled(8, Nanos(1000)).0.abs_diff(1000) <= 2);
    }
}
