//! C3: the replica with the shortest queue and a short service time.

use trimtab_io::{Nanos, Op, Request};
use trimtab_predict::Ticket;

use crate::action::Reason;
use crate::probing::Probing;
use crate::replica::Replica;
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

/// The weight that an average keeps when a sample arrives. The authors' programs
/// keep 0.1 (ALPHA = 0.9 in cassandra-c3's `ScoreTracker`, where α weighs what is
/// new). Drives change within milliseconds between two states, cleaning and not, and one
/// completion says less of that than a server's response says of its load: with 0.1 C3
/// measured up to 5% worse in the mean, and 37% on one array. The comparison uses C3 at
/// its better setting.
const KEPT: f64 = 0.9;

/// C3's ranking of replicas (Suresh et al., "C3: Cutting Tail Latency in Cloud
/// Data Stores via Adaptive Replica Selection", NSDI'15, §3.1): a read goes to
/// the replica with the least
///
/// ```text
///   R - 1/μ + q³/μ,   q = 1 + os·n + q_s
/// ```
///
/// where R is the mean response time, 1/μ the mean service time, os the reads
/// in flight, n the number of clients and `q_s` the mean queue length that responses
/// report. C3's servers report the last two; drives report nothing. Here there is one
/// client, which sees all that a drive is sent: `q_s` is what was in flight beside the
/// reads at completions, and a service time counts from the submission or from the
/// drive's previous completion, whichever is later.
///
/// C3's other half, rate control, is left out: it keeps many independent clients from rushing
/// to the same server.
pub struct C3 {
    drives: Box<[Drive]>,
    probing: Probing,
}

#[derive(Clone, Copy, Debug, Default)]
struct Drive {
    reads: u32,
    others: u32,
    /// Averages, ns.
    response: f64,
    service: f64,
    queue: f64,
    last_completion: Nanos,
    known: bool,
}

impl C3 {
    /// C3 over `replicas` replicas.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        let drives = vec![Drive::default(); replicas].into();
        Self { drives, probing: Probing::new(Probing::SELDOM) }
    }
}

impl Strategy for C3 {
    fn name(&self) -> &'static str {
        "c3"
    }

    fn read(&mut self, turn: &mut Turn<'_>) {
        let score = |replica: &Replica| self.drives[replica.index()].score();
        let by_score = |a: &Replica, b: &Replica| score(a).total_cmp(&score(b));
        let best = turn.order().iter().copied().min_by(by_score).unwrap_or(turn.primary());
        if best != turn.primary() {
            self.probing.avoided(turn.now(), turn.primary());
        }
        turn.send(best, turn.now(), Reason::Chosen);
        self.probing.probe(turn);
    }

    fn sent(&mut self, _: Nanos, replica: Replica, request: &Request) -> Ticket {
        let drive = &mut self.drives[replica.index()];
        if request.op == Op::Read {
            drive.reads += 1;
            self.probing.read_sent(replica);
        } else {
            drive.others += 1;
        }
        Ticket(0)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.drives[ended.replica.index()].completed(now, ended);
    }
}

impl Drive {
    fn score(&self) -> f64 {
        let queue = 1.0 + f64::from(self.reads) + self.queue;
        self.response - self.service + queue * queue * queue * self.service
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
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
        let drive = |reads, service| Drive {
            reads,
            service,
            response: service,
            known: true,
            ..Drive::default()
        };
        // Four times as fast, but 1.5 times the queue is enough to be equal at ∛4.
        assert!(drive(3, 100.0).score() < drive(3, 400.0).score());
        assert!(drive(6, 100.0).score() > drive(3, 400.0).score());
        assert!(drive(5, 100.0).score() < drive(3, 400.0).score());
    }
}
