//! What came of hedges, as a multiple of what was expected of them.
//!
//! What has taken so long takes as long again: that holds for latencies with a heavy tail, of
//! stalls, and is far too much for those of queues, which are as good as served when they are
//! hedged. Both attempts of a hedged read complete, so it is known by how much the duplicate was
//! sooner.
//!
//! What is known gets old: after a stall of all replicas, in which no hedge gains anything, none
//! would be sent any more, and nothing else be learnt. So after a while without one they are tried
//! again, and where that gains nothing after twice that while.

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
    /// When the last one was sent, and after how long without one they are tried again.
    newest: Nanos,
    try_after: Nanos,
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
/// The same where they are tried again.
const ASSUMED_AGAIN: f64 = 1.0;
/// They are tried again after such a while, at first and at most.
const FIRST_TRY: Nanos = Nanos::from_millis(250);
const LAST_TRY: Nanos = Nanos::from_secs(16);
/// So many of a kind have shown what they gain.
const SETTLED: f64 = 8.0;
/// Hedges that gain less than such a share of what is expected are known to gain little.
const LITTLE: f64 = 0.5;
/// A hedge gains at most so many times what was expected: a read that was stuck says little of
/// the next one.
const MOST: f64 = 8.0;
/// Hedges that are followed at once.
const FOLLOWED: usize = 128;

impl HedgeGain {
    pub(crate) fn new() -> Self {
        Self {
            gained: 0.0,
            expected: 0.0,
            hedges: Vec::with_capacity(FOLLOWED),
            newest: Nanos::ZERO,
            try_after: FIRST_TRY,
        }
    }

    /// What a hedge gains that would be sent now, as a multiple of what is expected of it.
    pub(crate) fn factor(&self, now: Nanos) -> f64 {
        if self.expected > 0.0 && !self.is_old(now) { self.gained / self.expected } else { 1.0 }
    }

    /// Whether hedges are known to gain about what is expected of them.
    pub(crate) fn is_kept(&self) -> bool {
        self.expected > 0.0 && self.gained >= LITTLE * self.expected
    }

    /// Whether it was known to gain little, and not tried for a while.
    fn is_old(&self, now: Nanos) -> bool {
        self.gained < LITTLE * self.expected && now.since(self.newest) >= self.try_after
    }

    /// The read is sent to this replica as well, and `expected` ns are to be gained by it.
    pub(crate) fn hedged(&mut self, now: Nanos, read: RequestId, to: Replica, expected: f64) {
        if self.expected == 0.0 {
            (self.gained, self.expected) = (ASSUMED * expected, ASSUMED * expected);
        } else if self.is_old(now) {
            (self.gained, self.expected) = (ASSUMED_AGAIN * expected, ASSUMED_AGAIN * expected);
            // Those of before the while say nothing new.
            self.hedges.clear();
            self.try_after = Nanos(2 * self.try_after.0).min(LAST_TRY);
        }
        self.newest = now;
        if self.hedges.len() == FOLLOWED {
            // The one in flight for longest has gained so much at least.
            let Hedge { first, expected, .. } = self.hedges.remove(0);
            self.learn(first.map_or(0.0, |first| now.since(first).0 as f64), expected);
        }
        self.hedges.push(Hedge { read, duplicate: to, expected, first: None });
    }

    /// The read has completed, on this replica. Returns whether its duplicate was the first.
    pub(crate) fn read_completed(&mut self, now: Nanos, read: RequestId, by: Replica) -> bool {
        let hedge = self.hedges.iter().position(|hedge| hedge.read == read);
        let Some(at) = hedge else { return false };
        let is_duplicate = self.hedges[at].duplicate == by;
        if is_duplicate {
            self.hedges[at].first = Some(now);
        } else {
            let expected = self.hedges.remove(at).expected;
            self.learn(0.0, expected);
        }
        is_duplicate
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
        if self.expected >= SETTLED * expected && self.gained >= LITTLE * self.expected {
            self.try_after = FIRST_TRY;
        }
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
                assert!(gain.read_completed(now, read, Replica(1)));
                gain.completed(now + Nanos::from_micros(us), read, Replica(0));
            } else {
                assert!(!gain.read_completed(now, read, Replica(0)));
            }
        }
    }

    #[test]
    fn hedges_that_gain_nothing_are_expected_to_gain_nothing() {
        let mut gain = HedgeGain::new();
        let now = Nanos::from_millis(200);
        assert!(gain.factor(now) == 1.0 && !gain.is_kept(), "nothing is known");
        serve(&mut gain, 200, None);
        assert!(gain.factor(now) < 0.01 && !gain.is_kept(), "{}", gain.factor(now));
        serve(&mut gain, 200, Some(50));
        assert!((0.49..0.51).contains(&gain.factor(now)), "{}", gain.factor(now));
        assert!(gain.hedges.is_empty());
    }

    #[test]
    fn hedges_that_gained_nothing_are_tried_again_more_and_more_seldom() {
        let mut gain = HedgeGain::new();
        let (mut now, mut tried, mut early) = (Nanos::ZERO, 0, 0);
        for i in 0..60_000 {
            now += Nanos::from_millis(1);
            // None is sent that gains a fifth less than expected.
            if gain.factor(now) >= 0.2 {
                let read = RequestId(i);
                gain.hedged(now, read, Replica(1), EXPECTED);
                gain.read_completed(now, read, Replica(0));
                tried += 1;
                early += u32::from(i < 1_000);
            }
        }
        assert!((10..40).contains(&early), "{early}");
        assert!((early..100).contains(&tried), "{tried} in a minute");
        assert!(gain.try_after == LAST_TRY, "{:?}", gain.try_after);
        // They gain again, and are known to.
        now += LAST_TRY;
        for i in 0..20 {
            assert!(gain.factor(now) >= 0.2, "{i}");
            gain.hedged(now, RequestId(i), Replica(1), EXPECTED);
            gain.read_completed(now, RequestId(i), Replica(1));
            gain.completed(now + Nanos(EXPECTED as u64), RequestId(i), Replica(0));
        }
        assert!(gain.factor(now) > 0.9 && gain.try_after == FIRST_TRY, "{gain:?}");
    }

    #[test]
    fn reads_that_stay_stuck_count_as_gain() {
        let mut gain = HedgeGain::new();
        for i in 0..1_000 {
            let (read, now) = (RequestId(i), Nanos::from_millis(i));
            gain.hedged(now, read, Replica(1), EXPECTED);
            gain.read_completed(now, read, Replica(1));
        }
        let factor = gain.factor(Nanos::from_secs(1));
        assert!(factor > 0.9 * MOST, "{factor}");
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
