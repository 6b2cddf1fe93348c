//! The figures of a run.

use trimtab_io::{LatencyHistogram, Nanos, Op, Outcome};

use crate::members::Member;
use crate::planner::Counts;

/// What became of the judged requests.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Latencies of the user's reads.
    pub reads: LatencyHistogram,
    /// Latencies of the user's writes.
    pub writes: LatencyHistogram,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that have arrived, complete or not.
    pub arrived: u64,
    /// What the planner has done, since it began.
    pub counts: Counts,
    /// By member.
    pub members: Vec<DriveReads>,
    /// When the last request completed.
    pub until: Nanos,
}

/// What became of a member's reads.
#[derive(Clone, Debug, Default)]
pub struct DriveReads {
    /// Latencies of those that it served.
    pub served: LatencyHistogram,
    /// Those that it refused.
    pub refused: u64,
}

impl Figures {
    pub(super) fn new(members: usize) -> Self {
        Self {
            reads: LatencyHistogram::default(),
            writes: LatencyHistogram::default(),
            errors: 0,
            arrived: 0,
            counts: Counts::default(),
            members: vec![DriveReads::default(); members],
            until: Nanos::ZERO,
        }
    }

    /// Adds the figures of the time after these, of the same array.
    pub fn extend(&mut self, later: &Self) {
        self.reads.merge(&later.reads);
        self.writes.merge(&later.writes);
        self.errors += later.errors;
        self.arrived += later.arrived;
        self.counts = later.counts;
        for (member, later) in self.members.iter_mut().zip(&later.members) {
            member.served.merge(&later.served);
            member.refused += later.refused;
        }
        self.until = self.until.max(later.until);
    }

    pub(super) fn completed(&mut self, op: Op, took: Nanos, outcome: Outcome, now: Nanos) {
        self.until = now;
        match op {
            _ if outcome != Outcome::Done => self.errors += 1,
            Op::Read => self.reads.record(took),
            Op::Write => self.writes.record(took),
            Op::Flush | Op::Discard => {}
        }
    }

    pub(super) fn member_read(&mut self, member: Member, took: Nanos, outcome: Outcome) {
        let member = &mut self.members[member.index()];
        match outcome {
            Outcome::Done => member.served.record(took),
            Outcome::Refused { .. } => member.refused += 1,
            Outcome::Error => {}
        }
    }
}
