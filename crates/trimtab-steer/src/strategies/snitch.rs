//! Cassandra's dynamic snitch: the replica with the lowest recent latency.

use trimtab_io::{Nanos, Op, Request, SplitMix64};
use trimtab_predict::Ticket;

use crate::action::Reason;
use crate::probing::Probing;
use crate::replica::{MOST_DRIVES, MOST_REPLICAS, Replica};
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// Latencies that are kept of each replica, the rate at which old ones lose weight (per
/// second), and how often replicas are ranked: Cassandra's
/// `DynamicEndpointSnitch` (`WINDOW_SIZE`, `ALPHA`,
/// `dynamic_snitch_update_interval`).
const WINDOW: usize = 100;
const ALPHA: f64 = 0.75;
const UPDATE: Nanos = Nanos::from_millis(100);
/// How much worse than the best a replica may be before it is avoided
/// (`dynamic_snitch_badness_threshold` before Cassandra 4.0).
const BADNESS: f64 = 0.1;

/// Cassandra's dynamic snitch: each replica's score is the median of a sample of
/// its read latencies in which recent ones weigh more; the scores are recomputed ten
/// times a second. A read keeps its order unless a replica in it is over 10% worse than
/// the replica of that rank; then it goes to the best.
///
/// Cassandra forgets all scores every ten minutes. Here a replica that is avoided is
/// probed instead, as in every strategy that avoids replicas.
pub struct Snitch {
    samples: Box<[Sample]>,
    /// Medians, ns; 0 while nothing is known of a replica.
    scores: [u64; MOST_DRIVES],
    next_update: Nanos,
    random: SplitMix64,
    probing: Probing,
}

impl Snitch {
    /// The snitch over `replicas` replicas.
    #[must_use]
    pub fn new(replicas: usize, seed: u64) -> Self {
        Self {
            samples: vec![Sample::default(); replicas].into(),
            scores: [0; MOST_DRIVES],
            next_update: UPDATE,
            random: SplitMix64::new(seed),
            probing: Probing::new(Probing::SELDOM),
        }
    }

    fn update(&mut self, now: Nanos) {
        if now < self.next_update {
            return;
        }
        self.next_update = now + UPDATE;
        for (score, sample) in self.scores.iter_mut().zip(&self.samples) {
            *score = sample.median();
        }
    }

    /// Whether some replica in the order is much worse than the replica of that rank by
    /// score.
    fn is_bad(&self, order: &[Replica]) -> bool {
        let mut ranked = [0; MOST_REPLICAS];
        let ranked = &mut ranked[..order.len()];
        for (place, replica) in ranked.iter_mut().zip(order) {
            *place = self.scores[replica.index()];
        }
        ranked.sort_unstable();
        let too_bad = |(r, &best): (&Replica, &u64)| {
            self.scores[r.index()] as f64 > best as f64 * (1.0 + BADNESS)
        };
        order.iter().zip(&*ranked).any(too_bad)
    }
}

impl Strategy for Snitch {
    fn name(&self) -> &'static str {
        "snitch"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        let now = turn.now();
        self.update(now);
        let mut first = turn.primary();
        if self.is_bad(turn.order()) {
            let best = turn.order().iter().copied().min_by_key(|r| self.scores[r.index()]);
            first = best.unwrap_or(first);
            if first != turn.primary() {
                self.probing.avoided(now, turn.primary());
            }
        }
        turn.send(first, now, Reason::Chosen);
        self.probing.probe(turn);
    }

    fn sent(&mut self, _: Nanos, replica: Replica, request: &Request) -> Ticket {
        if request.op == Op::Read {
            self.probing.read_sent(replica);
        }
        Ticket(0)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        if ended.op == Op::Read && ended.data() {
            let latency = now.since(ended.sent);
            self.samples[ended.replica.index()].add(now, latency, &mut self.random);
        }
    }
}

/// A sample in which each latency's weight is e^(α·t) at the time it came:
/// Cormode et al., "Forward Decay: A Practical Time Decay Model for Streaming
/// Systems" (ICDE 2009), as in the Metrics library that Cassandra uses.
#[derive(Clone, Debug, Default)]
struct Sample {
    /// Logarithm of the priority, latency in ns.
    kept: Vec<(f64, u64)>,
    /// The least priority among them.
    least: usize,
}

impl Sample {
    fn add(&mut self, now: Nanos, latency: Nanos, random: &mut SplitMix64) {
        let priority = ALPHA * now.as_secs_f64() - libm::log(random.unit());
        let new = (priority, latency.0);
        if self.kept.len() < WINDOW {
            self.kept.reserve_exact(WINDOW - self.kept.len());
            self.kept.push(new);
        } else if priority > self.kept[self.least].0 {
            self.kept[self.least] = new;
        } else {
            return;
        }
        let by_priority = |&a: &usize, &b: &usize| self.kept[a].0.total_cmp(&self.kept[b].0);
        self.least = (0..self.kept.len()).min_by(by_priority).unwrap_or(0);
    }

    fn median(&self) -> u64 {
        let mut latencies = [0; WINDOW];
        let latencies = &mut latencies[..self.kept.len()];
        for (place, kept) in latencies.iter_mut().zip(&self.kept) {
            *place = kept.1;
        }
        if latencies.is_empty() {
            return 0;
        }
        let middle = latencies.len() / 2;
        *latencies.select_nth_unstable(middle).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_follows_recent_seconds() {
        let mut sample = Sample::default();
        let mut random = SplitMix64::new(1);
        assert_eq!(sample.median(), 0);
        for ms in 0..10_000 {
            let latency = if ms < 5_000 { Nanos(10) } else { Nanos(20) };
            sample.add(Nanos::from_millis(ms), latency, &mut random);
            match ms {
                4_999 => assert_eq!(sample.median(), 10),
                // e^(-0.75 × 5) of the weight is old.
                9_999 => assert_eq!(sample.median(), 20),
                _ => {}
            }
        }
        let old = sample.kept.iter().filter(|kept| kept.1 == 10).count();
        assert!(old < 12, "{old}");
    }

    #[test]
    fn small_differences_keep_the_order() {
        let mut snitch = Snitch::new(3, 1);
        let order = [Replica(0), Replica(1), Replica(2)];
        snitch.scores[..3].copy_from_slice(&[105, 100, 100]);
        assert!(!snitch.is_bad(&order));
        snitch.scores[0] = 111;
        assert!(snitch.is_bad(&order));
        snitch.scores[..3].copy_from_slice(&[100, 150, 100]);
        assert!(snitch.is_bad(&order), "the second place counts too");
    }
}
