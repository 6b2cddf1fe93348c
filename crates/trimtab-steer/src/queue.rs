//! What a replica's own completions and queue say of it: the state that C3 ranks by, and whether
//! the replica has room for a read of another one.

use trimtab_io::{Nanos, Op, Outcome};

use crate::strategy::Ended;

/// The weight that an average keeps when a sample arrives. The authors' programs
/// keep 0.1 (ALPHA = 0.9 in cassandra-c3's `ScoreTracker`, where α weighs what is
/// new). Drives change within milliseconds between two states, cleaning and not, and one
/// completion says less of that than a server's response says of its load: with 0.1 C3
/// measured up to 5% worse in the mean, and 37% on one array. The comparison uses C3 at
/// its better setting.
const KEPT: f64 = 0.9;

/// The same for the pace: it is to tell drives apart, not their states. One completion counts as at
/// most so many times the pace, or as a mean read, because a stall says nothing of the next minute.
const PACE_WEIGHT: f64 = 0.002;
const LONGEST: f64 = 8.0;

/// A replica with so many requests in flight takes reads of another one, whatever waits there: few
/// requests say nothing of the wait. With more it must have fewer than the read's primary, by a
/// share that is beyond chance.
const FEW: f64 = 8.0;
const SHORTER: f64 = 0.8;
/// Drives whose paces are within this factor count as alike.
const ALIKE: f64 = 1.5;
/// A drive that completes nothing for so many times its pace is stuck: of drives that complete requests
/// at random one pause in fifty is as long.
const STUCK: f64 = 4.0;
/// Reads in succession that fail before a replica counts as failed.
const FAILURES: u32 = 3;

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
    /// The drive's last answer, or when it got a request after it had none.
    waits_since: Nanos,
    known: bool,
    /// From one completion to the next while requests are in flight, ns.
    pace: f64,
    /// The completions that it is from.
    paced: u32,
    /// Reads that failed since one returned its data.
    failures: u32,
    /// Its first failure since it returned data.
    fails_since: Nanos,
}

impl QueueState {
    /// A replica whose reads take so long, as far as is known before the first of them is complete, which
    /// replaces it.
    pub(crate) fn expecting(latency: Nanos) -> Self {
        let latency = latency.0 as f64;
        Self { response: latency, service: latency, ..Self::default() }
    }

    /// A request is sent.
    pub(crate) fn sent(&mut self, now: Nanos, op: Op) {
        if self.in_flight() == 0 {
            self.waits_since = now;
        }
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

    /// Requests in flight, writes as well: a drive serves them from one queue.
    pub(crate) fn in_flight(&self) -> u32 {
        self.reads + self.others
    }

    /// What a request takes of the drive's time, ns: from one completion to the next while requests
    /// are in flight, and with only one at a time its latency.
    pub(crate) fn pace(&self) -> f64 {
        self.pace
    }

    /// In which time the drive completes as many requests as are in flight, ns.
    pub(crate) fn drain(&self) -> f64 {
        f64::from(self.in_flight()) * self.pace
    }

    /// Whether the drive answers nothing although it has requests.
    pub(crate) fn is_stuck(&self, now: Nanos) -> bool {
        self.in_flight() > 0 && now.since(self.waits_since).0 as f64 > STUCK * self.pace
    }

    /// Whether a read with another primary may come here. Where requests wait for each other their
    /// number says more than any forecast, and reads that go from one long queue to another one
    /// only disturb it. The queue of a primary that is faster than this drive counts less. That of a
    /// slower one does not count more: all its reads would come, and cost those of this drive more
    /// than they gain.
    pub(crate) fn takes_read_from(&self, primary: &Self) -> bool {
        let paces_known = self.pace > 0.0 && primary.pace > 0.0;
        let ratio = if paces_known { primary.pace / self.pace } else { 1.0 };
        let ratio = (ratio / ratio.clamp(1.0 / ALIKE, ALIKE)).min(1.0);
        let shorter = SHORTER * ratio * f64::from(primary.in_flight());
        f64::from(self.in_flight()) <= shorter.max(FEW)
    }

    /// Whether this drive is about as fast as the primary, or faster, as far as their paces are
    /// known.
    pub(crate) fn is_as_fast_as(&self, primary: &Self) -> bool {
        self.pace > 0.0 && self.pace <= ALIKE * primary.pace
    }

    /// Whether the replica returns errors, and no data.
    pub(crate) fn fails(&self) -> bool {
        self.failures >= FAILURES
    }

    /// For how long it has returned no data, if it [fails](Self::fails).
    pub(crate) fn fails_for(&self, now: Nanos) -> Option<Nanos> {
        self.fails().then(|| now.since(self.fails_since))
    }

    /// A request has ended.
    pub(crate) fn completed(&mut self, now: Nanos, ended: &Ended) {
        if ended.op == Op::Read {
            self.reads -= 1;
            match ended.outcome {
                Some(Outcome::Done) => self.failures = 0,
                Some(Outcome::Error) => {
                    if self.failures == 0 {
                        self.fails_since = now;
                    }
                    self.failures = self.failures.saturating_add(1);
                }
                // A drive that refuses works, and what was taken back says nothing.
                Some(Outcome::Refused { .. }) | None => {}
            }
        } else {
            self.others -= 1;
        }
        if ended.outcome.is_some() {
            self.waits_since = now;
        }
        if !ended.data() {
            return;
        }
        let began = ended.sent.max(self.last_completion);
        self.last_completion = now;
        let took = now.since(began).0 as f64;
        self.paced = self.paced.saturating_add(1);
        // Where many reads are served from memory a usual one takes many paces.
        let longest = (LONGEST * self.pace).max(self.response);
        let pace = if self.paced == 1 { took } else { took.min(longest) };
        // The first ones count alike: one of them says little.
        let weight = f64::from(self.paced).recip().max(PACE_WEIGHT);
        self.pace += weight * (pace - self.pace);
        if ended.op != Op::Read {
            return;
        }
        let kept = if self.known { KEPT } else { 0.0 };
        self.known = true;
        let learn = |mean: &mut f64, new: f64| *mean = kept * *mean + (1.0 - kept) * new;
        learn(&mut self.response, now.since(ended.sent).0 as f64);
        learn(&mut self.service, took);
        learn(&mut self.queue, self.others.into());
    }
}

#[cfg(test)]
mod tests {
    use trimtab_io::RequestId;
    use trimtab_predict::Ticket;

    use super::*;
    use crate::replica::Replica;

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

    /// A drive that has completed nothing yet is not the fastest one.
    #[test]
    fn a_drive_ranks_by_what_is_known_before_its_first_completion() {
        let [fast, slow] = [10, 1000].map(|us| QueueState::expecting(Nanos::from_micros(us)));
        assert!(fast.score() < slow.score());
        let mut busy = fast;
        (0..3).for_each(|_| busy.sent(Nanos::ZERO, Op::Read));
        assert!(busy.score() < slow.score(), "a queue of three is sooner than the slow drive");
        let ended = ended_read(Nanos::ZERO, Outcome::Done);
        let mut slow = slow;
        slow.sent(Nanos::ZERO, Op::Read);
        slow.completed(Nanos::from_micros(1), &ended);
        assert!(slow.score() < fast.score(), "what is seen counts, not what was expected");
    }

    /// A read that was sent then, and has ended.
    fn ended_read(sent: Nanos, outcome: Outcome) -> Ended {
        Ended {
            request: RequestId(0),
            replica: Replica(0),
            op: Op::Read,
            sent,
            ticket: Ticket(0),
            outcome: Some(outcome),
        }
    }

    /// Requests in flight, and a pace.
    fn busy(reads: u32, others: u32, pace: f64) -> QueueState {
        QueueState { reads, others, pace, ..QueueState::default() }
    }

    #[test]
    fn a_read_goes_to_a_shorter_queue_only() {
        let takes = |here, primary| -> bool { QueueState::takes_read_from(&here, &primary) };
        assert!(takes(busy(8, 0, 1.0), busy(0, 0, 1.0)), "few requests say nothing");
        assert!(!takes(busy(9, 0, 1.0), busy(9, 0, 1.0)));
        assert!(!takes(busy(5, 4, 1.0), busy(9, 0, 1.0)), "writes count");
        assert!(takes(busy(80, 0, 1.0), busy(50, 50, 1.0)));
        assert!(!takes(busy(81, 0, 1.0), busy(50, 50, 1.0)));
        // A drive of a third of the pace takes from a queue that is longer by more than that; a
        // faster one no more than one that is as fast.
        assert!(!takes(busy(80, 0, 3.0), busy(100, 0, 1.0)));
        assert!(takes(busy(40, 0, 3.0), busy(100, 0, 1.0)));
        assert!(!takes(busy(81, 0, 1.0), busy(100, 0, 3.0)));
        assert!(takes(busy(80, 0, 0.0), busy(100, 0, 1.0)), "no pace is known");
        let as_fast = |here, primary| busy(0, 0, here).is_as_fast_as(&busy(0, 0, primary));
        assert!(as_fast(1.4, 1.0) && as_fast(0.1, 1.0) && !as_fast(1.6, 1.0));
        assert!(!as_fast(0.0, 1.0) && !as_fast(1.0, 0.0), "no pace is known");
    }

    #[test]
    fn the_pace_is_what_a_request_takes_of_the_drive() {
        let mut drive = QueueState::default();
        let us = Nanos::from_micros;
        let ended = |sent| ended_read(sent, Outcome::Done);
        // Four at a time, each 100 µs: one completes every 25 µs.
        (0..4).for_each(|_| drive.sent(Nanos::ZERO, Op::Read));
        for i in 4..10_000_u64 {
            drive.sent(us(25 * i), Op::Read);
            drive.completed(us(25 * i), &ended(us(25 * (i - 4))));
        }
        assert!((24_900.0..25_100.0).contains(&drive.pace()), "{}", drive.pace());
        assert!((99_000.0..101_000.0).contains(&drive.drain()), "{}", drive.drain());
        // A second without a completion is not the pace.
        drive.completed(Nanos::from_secs(2), &ended(us(25 * 9_999)));
        assert!(drive.pace() < 26_000.0, "{}", drive.pace());
    }

    /// Of two reads one is served from memory, at once, and the other by the flash.
    #[test]
    fn the_pace_is_soon_known_where_reads_are_unlike() {
        let mut drive = QueueState::expecting(Nanos(200));
        let mut now = Nanos::ZERO;
        for i in 0..200_u64 {
            let (sent, took) = (now, if i % 2 == 0 { Nanos(200) } else { Nanos(200_000) });
            drive.sent(sent, Op::Read);
            now = sent + took;
            drive.completed(now, &ended_read(sent, Outcome::Done));
        }
        assert!((80_000.0..110_000.0).contains(&drive.pace()), "{}", drive.pace());
    }

    #[test]
    fn a_drive_that_completes_nothing_is_stuck() {
        let us = Nanos::from_micros;
        let mut drive = QueueState { pace: 10_000.0, ..QueueState::default() };
        assert!(!drive.is_stuck(us(1000)), "it has nothing to do");
        drive.sent(us(1000), Op::Write);
        drive.sent(us(1030), Op::Read);
        assert!(!drive.is_stuck(us(1040)) && drive.is_stuck(us(1041)));
        let ended = ended_read(us(1030), Outcome::Done);
        drive.completed(us(1050), &ended);
        assert!(!drive.is_stuck(us(1060)));
    }

    #[test]
    fn a_replica_fails_until_it_returns_data() {
        let mut drive = QueueState::default();
        let end = |drive: &mut QueueState, outcome| {
            drive.sent(Nanos::ZERO, Op::Read);
            let ended = ended_read(Nanos::ZERO, outcome);
            drive.completed(Nanos::from_micros(1), &ended);
        };
        let at = Nanos::from_micros(5);
        (0..2).for_each(|_| end(&mut drive, Outcome::Error));
        assert!(!drive.fails(), "a bad sector is not a dead drive");
        end(&mut drive, Outcome::Refused { expected_wait: Nanos::ZERO });
        assert!(!drive.fails());
        end(&mut drive, Outcome::Error);
        assert!(drive.fails() && drive.pace() == 0.0);
        assert_eq!(drive.fails_for(at), Some(Nanos::from_micros(4)));
        end(&mut drive, Outcome::Done);
        assert_eq!((drive.fails(), drive.fails_for(at)), (false, None));
    }
}
