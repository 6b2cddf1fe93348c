//! C3: the replica with the shortest queue and a short service time.

use trimtab_io::{Nanos, Op, Request};
use trimtab_predict::Ticket;

use crate::action::Reason;
use crate::probing::Probing;
use crate::queue::QueueState;
use crate::replica::Replica;
use crate::strategy::{Ended, Strategy};
use crate::turn::Turn;

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
    drives: Box<[QueueState]>,
    probing: Probing,
}

impl C3 {
    /// C3 over `replicas` replicas.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        let drives = vec![QueueState::default(); replicas].into();
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

    fn sent(&mut self, now: Nanos, replica: Replica, request: &Request) -> Ticket {
        self.drives[replica.index()].sent(now, request.op);
        if request.op == Op::Read {
            self.probing.read_sent(replica);
        }
        Ticket(0)
    }

    fn completed(&mut self, now: Nanos, ended: &Ended) {
        self.drives[ended.replica.index()].completed(now, ended);
    }
}
