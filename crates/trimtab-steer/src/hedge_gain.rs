//! What came of hedges, as a multiple of what was expected of them.
//!
//! What has taken so long takes as long again: that holds for latencies with a heavy tail, of
//! stalls, and is far too much for those of queues, which are as good as served when they are
//! hedged. Both attempts of a hedged read complete, so it is known by how much the duplicate was
//! sooner.

use trimtab_io::{Nanos, RequestId};
use trimtab_predict::Forecast;

use crate::replica::Replica;

/// Hedges in flight, and what came of those before.
#[derive(Clone, Debug)]
pub(crate) struct HedgeGain {
    /// Decaying sums of what was gained and of what was expected, ns.
    gained: f64,
    expected: f64,
    hedges: Vec<Hedge>,
}

/// A hedged read.
#[derive(Clone, Copy, Debug)]
struct Hedge {
    read: RequestId,
    duplicate: Replica,
    expected: f64,
    /// When the duplicate has completed the read.
    first: Option<Nanos>,
}

/// What the sums keep with each hedge.
const KEPT: f64 = 0.97;
/// So many hedges that keep what they promise are assumed at first.
const ASSUMED: f64 = 4.0;
/// A hedge gains at most so many times what was expected: a read that was stuck says little of
/// the next one.
const MOST: f64 = 8.0;
/// Hedges that are followed at once.
const FOLLOWED: usize = 64;

impl HedgeGain {
    pub(crate) fn new() -> Self {
        Self { gained: 0.0, expected: 0.0, hedges: Vec::with_capacity(FOLLOWED) }
    }

    /// What a hedge gains, as a multiple of what is expected of it.
    pub(crate) fn factor(&self) -> f64 {
        if self.expected > 0.0 { self.gained / self.expected } else { 1.0 }
    }

    /// The read is sent to this replica as well, and `expected` ns are to be gained by it.
    pub(crate) fn hedged(&mut self, now: Nanos, read: RequestId, to: Replica, expected: f64) {
        if self.expected == 0.0 {
            (self.gained, self.expected) = (ASSUMED * expected, ASSUMED * expected);
        }
        if self.hedges.len() == FOLLOWED {
            // The one in flight for longest has gained so much at least.
            let Hedge { first, expected, .. } = self.hedges.remove(0);
            self.learn(first.map_or(0.0, |first| now.since(first).0 as f64), expected);
        }
        self.hedges.push(Hedge { read, duplicate: to, expected, first: None });
    }

    /// The read has completed, on this replica.
    pub(crate) fn read_completed(&mut self, now: Nanos, read: RequestId, by: Replica) {
        let Some(at) = self.hedges.iter().position(|hedge| hedge.read == read) else { return };
        if self.hedges[at].duplicate == by {
            self.hedges[at].first = Some(now);
        } else {
            let expected = self.hedges.remove(at).expected;
            self.learn(0.0, expected);
        }
    }

    /// An attempt that is not the first one of its read has ended.
    pub(crate) fn completed(&mut self, now: Nanos, read: RequestId, replica: Replica) {
        let is_it = |hedge: &Hedge| hedge.read == read && hedge.duplicate != replica;
        let Some(at) = self.hedges.iter().position(is_it) else { return };
        if let Some(first) = self.hedges[at].first {
            let expected = self.hedges.remove(at).expected;
            self.learn(now.since(first).0 as f64, expected);
        }
    }

    fn learn(&mut self, gained: f64, expected: f64) {
        self.gained = KEPT * self.gained + gained.min(MOST * expected);
        self.expected = KEPT * self.expected + expected;
    }
}

/// By how much sooner the data is expected with a duplicate, ns: on a replica with this forecast,
/// for a read that has waited so long. What has taken so long takes as long again, as far as is
/// known. The duplicate never makes its own read later, so a replica that would be late counts as
/// no gain, not as a loss.
pub(crate) fn expected_gain(waited: Nanos, forecast: &Forecast) -> f64 {
    let left = waited.0 as f64;
    let probability = f64::from(forecast.probability).clamp(0.0, 1.0);
    let fast = forecast.fast.or(forecast.wait).unwrap_or_default().0 as f64;
    let mean = forecast.wait.map_or(fast, |wait| wait.0 as f64);
    let late = ((mean - (1.0 - probability) * fast) / probability.max(f64::MIN_POSITIVE)).max(fast);
    (1.0 - probability) * (left - fast).max(0.0) + probability * (left - late).max(0.0)
}

#[cfg(test)]
mod tests {
    use trimtab_predict::Verdict;

    use super::*;

    const EXPECTED: f64 = 100_000.0;

    /// Hedges by which this is gained, µs: `None` if the duplicate is the later one.
    fn serve(gain: &mut HedgeGain, hedges: u64, gained: Option<u64>) {
        for i in 0..hedges {
            let (read, now) = (RequestId(i), Nanos::from_millis(i));
            gain.hedged(now, read, Replica(1), EXPECTED);
            if let Some(us) = gained {
                gain.read_completed(now, read, Replica(1));
                gain.completed(now + Nanos::from_micros(us), read, Replica(0));
            } else {
                gain.read_completed(now, read, Replica(0));
            }
        }
    }

    #[test]
    fn hedges_that_gain_nothing_are_expected_to_gain_nothing() {
        let mut gain = HedgeGain::new();
        assert_eq!(gain.factor(), 1.0);
        serve(&mut gain, 200, None);
        assert!(gain.factor() < 0.01, "{}", gain.factor());
        serve(&mut gain, 200, Some(50));
        assert!((0.49..0.51).contains(&gain.factor()), "{}", gain.factor());
        assert!(gain.hedges.is_empty());
    }

    #[test]
    fn reads_that_stay_stuck_count_as_gain() {
        let mut gain = HedgeGain::new();
        for i in 0..1_000 {
            let (read, now) = (RequestId(i), Nanos::from_millis(i));
            gain.hedged(now, read, Replica(1), EXPECTED);
            gain.read_completed(now, read, Replica(1));
        }
        assert!(gain.factor() > 0.9 * MOST, "{}", gain.factor());
        assert_eq!(gain.hedges.len(), FOLLOWED);
    }

    /// A replica that is late in one of five reads: fast in 100 µs, late in 10 ms.
    #[test]
    fn a_duplicate_that_may_be_late_is_no_loss() {
        let forecast = Forecast {
            verdict: Verdict::Fast,
            probability: 0.2,
            wait: Some(Nanos::from_micros(2_080)),
            fast: Some(Nanos::from_micros(100)),
        };
        let gain = |us| expected_gain(Nanos::from_micros(us), &forecast) / 1e3;
        assert_eq!(gain(50), 0.0);
        assert!((gain(200) - 80.0).abs() < 0.1, "{}", gain(200));
        assert!((gain(1_000) - 720.0).abs() < 0.1, "less than the mean wait, and yet a gain");
        assert!((gain(20_000) - (0.8 * 19_900.0 + 0.2 * 10_000.0)).abs() < 1.0);
    }
}
