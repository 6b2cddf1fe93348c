//! What a replica's own completions and queue say of it: the state that C3 ranks by.

use trimtab_io::{Nanos, Op};

use crate::strategy::Ended;

/// The weight that an average keeps when a sample arrives. The authors' programs
/// keep 0.1 (ALPHA = 0.9 in cassandra-c3's `ScoreTracker`, where α weighs what is
/// new). Drives change within milliseconds between two states, cleaning and not, and one
/// completion says less of that than a server's response says of its load: with 0.1 C3
/// measured up to 5% worse in the mean, and 37% on one array. The comparison uses C3 at
/// its better setting.
const KEPT: f64 = 0.9;

/// Averages over a replica's completions, and what is in flight on it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueState {
    reads: u32,
    others: u32,
    /// Averages, ns.
    response: f64,
    service: f64,
    queue: f64,
    last_completion: Nanos,
    known: bool,
}

impl QueueState {
    /// A request is sent.
    pub(crate) fn sent(&mut self, op: Op) {
        if op == Op::Read {
            self.reads += 1;
        } else {
            self.others += 1;
        }
    }

    /// C3's score (Suresh et al., NSDI'15, §3.1), ns: the replica with the least is the best.
    pub(crate) fn score(&self) -> f64 {
        let queue = 1.0 + f64::from(self.reads) + self.queue;
        self.response - self.service + queue * queue * queue * self.service
    }

    /// A request has ended.
    pub(crate) fn completed(&mut self, now: Nanos, ended: &Ended) {
        if ended.op == Op::Read {
            self.reads -= 1;
        } else {
            self.others -= 1;
        }
        if !ended.data {
            return;
        }
        let began = ended.sent.max(self.last_completion);
        self.last_completion = now;
        if ended.op != Op::Read {
            return;
        }
        let kept = if self.known { KEPT } else { 0.0 };
        self.known = true;
        let learn = |mean: &mut f64, new: f64| *mean = kept * *mean + (1.0 - kept) * new;
        learn(&mut self.response, now.since(ended.sent).0 as f64);
        learn(&mut self.service, now.since(began).0 as f64);
        learn(&mut self.queue, self.others.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_length_counts_cubed() {
        let drive = |reads, service| QueueState {
            reads,
            service,
            response: service,
            known: true,
            ..QueueState::default()
        };
        // Four times as fast, but 1.5 times the queue is enough to be equal at ∛4.
        assert!(drive(3, 100.0).score() < drive(3, 400.0).score());
        assert!(drive(6, 100.0).score() > drive(3, 400.0).score());
        assert!(drive(5, 100.0).score() < drive(3, 400.0).score());
    }
}
