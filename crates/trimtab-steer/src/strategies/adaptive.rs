//! Adaptive hedging: a hedge at each replica's own recent p90, from a bucket of tokens.

use trimtab_io::{LatencyHistogram, Nanos, Op};

use crate::action::Reason;
use crate::replica::Replica;
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// Hedges a read that exceeds the recent p90 of its primary replica, with no parameter to
/// tune: what services without a model of their drives run (hedged requests of Dean and
/// Barroso, CACM 56(2), 2013, with the percentile measured online, and the extra load bounded
/// by a token bucket).
///
/// Each replica's percentile is taken from a mergeable sketch of the current and the
/// previous window of 30 s; before 100 completions nothing is hedged.
/// Each read adds a tenth of a token, and a hedge takes one.
#[derive(Debug)]
pub struct Adaptive {
    replicas: Box<[Recent]>,
    tokens: f64,
}

/// The share of reads that may be hedged, in the long run.
const SHARE: f64 = 0.1;
/// Tokens that can be saved.
const MOST_TOKENS: f64 = 10.0;
/// Length of a window.
const WINDOW: Nanos = Nanos::from_secs(30);
/// The percentile, as a share.
const QUANTILE: f64 = 0.9;
/// With fewer completions the percentile is not known.
const LEAST_SAMPLES: u64 = 100;
/// The percentile is looked up again after this many completions.
const LOOK_UP_AFTER: u64 = 64;

impl Adaptive {
    /// The strategy for a number of replicas.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        Self { replicas: (0..replicas).map(|_| Recent::default()).collect(), tokens: 0.0 }
    }

    fn recent(&mut self, replica: Replica) -> &mut Recent {
        &mut self.replicas[replica.index()]
    }
}

impl Strategy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        self.tokens = (self.tokens + SHARE).min(MOST_TOKENS);
        let primary = turn.primary();
        turn.send(primary, turn.now(), Reason::Chosen);
        if let Some(patience) = self.recent(primary).quantile {
            turn.timer(turn.now() + patience, 0);
        }
    }

    fn timer(&mut self, turn: &mut Turn<'_>, _: u8) {
        if self.tokens < 1.0 {
            return;
        }
        if let Some(other) = turn.untried() {
            turn.send(other, turn.now(), Reason::Duplicate);
            self.tokens -= 1.0;
        }
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        if ended.op == Op::Read && ended.data() {
            self.recent(ended.replica).record(now, now.since(ended.sent));
        }
    }
}

/// The latency of a replica's reads in the current and the previous window.
#[derive(Debug, Default)]
struct Recent {
    current: LatencyHistogram,
    previous: LatencyHistogram,
    begun: Nanos,
    since_look_up: u64,
    quantile: Option<Nanos>,
}

impl Recent {
    fn record(&mut self, now: Nanos, latency: Nanos) {
        let age = now.since(self.begun);
        if age >= WINDOW {
            self.previous = std::mem::take(&mut self.current);
            if age >= WINDOW + WINDOW {
                self.previous = LatencyHistogram::new();
            }
            self.begun = now;
        }
        self.current.record(latency);
        self.since_look_up += 1;
        if self.since_look_up >= LOOK_UP_AFTER || self.quantile.is_none() {
            self.look_up();
        }
    }

    fn look_up(&mut self) {
        if self.current.count() + self.previous.count() < LEAST_SAMPLES {
            return;
        }
        let mut both = self.current.clone();
        both.merge(&self.previous);
        self.quantile = both.quantile(QUANTILE);
        self.since_look_up = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_follows_the_last_two_windows() {
        let mut recent = Recent::default();
        for i in 0..99 {
            recent.record(Nanos::from_millis(i), Nanos::from_micros(100));
            assert_eq!(recent.quantile, None);
        }
        let near = |recent: &Recent, us: u64| {
            let quantile = recent.quantile.expect("enough samples");
            assert!(quantile.0.abs_diff(us * 1000) <= us * 10, "{quantile} is not {us} µs");
        };
        recent.record(Nanos::from_millis(99), Nanos::from_micros(100));
        near(&recent, 100);
        // Slow from now on: in the next window these are the majority.
        for i in 0..1000 {
            recent.record(WINDOW + Nanos::from_millis(i), Nanos::from_micros(900));
        }
        near(&recent, 900);
        // Two windows later nothing is left of them.
        for i in 0..100 {
            recent.record(Nanos(4 * WINDOW.0) + Nanos::from_millis(i), Nanos::from_micros(50));
        }
        near(&recent, 50);
    }
}
