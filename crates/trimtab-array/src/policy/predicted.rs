//! Members whose latency a predictor knows ahead.

use std::fmt;

use trimtab_io::{DeviceId, HostEvent, Nanos, Op, Outcome, Request, RequestId};
use trimtab_predict::{Forecast, Predictor, Ticket, Verdict};

use super::{Asks, MemberEnded, ReadPolicy, StripeRead};
use crate::members::{Member, Members};

/// Goes around members that are predicted to be late: MittOS on an array (IODA, §6.2.7).
///
/// Each member has a predictor, which sees every request to it, and has the deadline. A read that is
/// predicted late on a member is not sent there; its strips are computed from the others, of which
/// those that are late as well are asked last. If more members are late than the array has parities,
/// those with the longest waits are gone around, and the others are waited for: as the last replica is
/// asked without a deadline.
///
/// There is no budget, and no control group: the predictors are taken at their word.
pub struct Predicted {
    predictors: Vec<Box<dyn Predictor>>,
    /// Bytes of a chunk.
    chunk: u64,
}

impl Predicted {
    /// The policy for members with these predictors and chunks of so many bytes.
    #[must_use]
    pub const fn new(predictors: Vec<Box<dyn Predictor>>, chunk: u64) -> Self {
        Self { predictors, chunk }
    }

    fn forecast(&self, now: Nanos, read: &StripeRead<'_>, member: Member) -> Forecast {
        let (first, end) = read.range();
        let offset = read.stripe * self.chunk + u64::from(first);
        let (id, device) = (RequestId(u64::MAX), DeviceId(member.0.into()));
        let length = u64::from(end - first);
        let request = Request::new(id, device, now, Op::Read, offset, length);
        self.predictors[member.index()].predict(now, &request)
    }

    fn late(&self, now: Nanos, read: &StripeRead<'_>, members: Members) -> Members {
        let is_late = |&member: &Member| self.forecast(now, read, member).verdict == Verdict::Late;
        members.iter().filter(is_late).collect()
    }
}

impl fmt::Debug for Predicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.predictors.iter().map(|predictor| predictor.name()).collect();
        f.debug_struct("Predicted").field("predictors", &names).finish_non_exhaustive()
    }
}

impl ReadPolicy for Predicted {
    fn begin(&mut self, now: Nanos, read: &StripeRead<'_>, asks: &mut Asks) {
        let wanted = read.wanted();
        let usable = wanted.without(read.failed);
        let mut late = self.late(now, read, usable);
        let spare = read.spare();
        while late.count() > spare {
            let wait = |&member: &Member| self.forecast(now, read, member).wait;
            let Some(shortest) = late.iter().min_by_key(wait) else { break };
            late = late.without(Members::one(shortest));
        }
        asks.directly(wanted.without(late));
        if !late.is_empty() {
            let others = read.members.without(read.failed).without(wanted);
            asks.around(late, self.late(now, read, others), Members::NONE);
        }
    }

    fn member_sent(&mut self, now: Nanos, member: Member, request: &Request) -> u32 {
        self.predictors[member.index()].sent(now, request).0
    }

    fn member_ended(&mut self, now: Nanos, ended: &MemberEnded) {
        let data = ended.outcome == Some(Outcome::Done);
        self.predictors[ended.member.index()].completed(now, Ticket(ended.ticket), data);
    }

    fn observe(&mut self, member: Member, event: &HostEvent) {
        self.predictors[member.index()].observe(event);
    }
}
