//! What serving requests in another order than that of sending saves.

use trimtab_io::Nanos;

/// The recent ratio of service times to those that were predicted when the requests were sent, one
/// after the other, at most 1: a scheduler or a disk that sorts them by place has shorter seeks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reordering {
    /// Sums over recent requests, ns.
    predicted: u64,
    actual: u64,
}

impl Reordering {
    /// A request loses half of its influence after 44 others.
    const WEIGHT: u64 = 64;
    /// As long as less is known than this, ns, nothing is scaled.
    const LEAST: u64 = 1_000_000;

    /// A request took `actual`; when it was sent `predicted` was expected.
    pub(super) fn learn(&mut self, predicted: Nanos, actual: Nanos) {
        let most = u64::MAX / (4 * Self::WEIGHT);
        self.predicted = self.predicted - self.predicted / Self::WEIGHT + predicted.0.min(most);
        self.actual = self.actual - self.actual / Self::WEIGHT + actual.0.min(most);
    }

    /// A predicted time of requests that wait, as it will be.
    pub(super) fn scaled(&self, time: Nanos) -> Nanos {
        if self.predicted < Self::LEAST {
            return time;
        }
        let actual = self.actual.min(self.predicted);
        let scaled = u128::from(time.0) * u128::from(actual) / u128::from(self.predicted);
        Nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_follow_the_recent_ratio() {
        let mut reordering = Reordering::default();
        assert_eq!(reordering.scaled(Nanos(1000)), Nanos(1000));
        (0..500).for_each(|_| reordering.learn(Nanos(10_000_000), Nanos(4_000_000)));
        assert!(reordering.scaled(Nanos(1000)).0.abs_diff(400) <= 1);
        (0..500).for_each(|_| reordering.learn(Nanos(10_000_000), Nanos(10_000_000)));
        assert!(reordering.scaled(Nanos(1000)).0.abs_diff(1000) <= 2);
    }
}
