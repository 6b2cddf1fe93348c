//! The workload of a driver.

use trimtab_io::{DeviceId, Flags, Issuer, Nanos, Op, Outcome, Request, RequestId, SplitMix64};

use super::figures::ArrayFigures;
use super::reads::{Reads, RequestEnd};
use super::{Reason, RunOptions};
use crate::replica::{MOST_REPLICAS, Order, Replica};

/// A request of an array's workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayIo {
    /// When it arrives.
    pub at: Nanos,
    /// What it does.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Its primary replica: the drive that its workload belongs to.
    pub primary: Replica,
    /// Who issues it.
    pub issuer: Issuer,
    /// Whether it is a neighbour's on the primary's drive: no strategy is asked, and no figure
    /// counts it.
    pub is_noise: bool,
    /// The user's request that it is a part of, if [`RunOptions::parallel`] is more than one.
    pub user_request: u32,
}

impl ArrayIo {
    /// A request of process 0, and no neighbour's.
    #[must_use]
    pub const fn new(at: Nanos, op: Op, offset: u64, length: u64, primary: Replica) -> Self {
        let issuer = Issuer::of_process(0);
        Self { at, op, offset, length, primary, issuer, is_noise: false, user_request: 0 }
    }

    /// Whether it is a read of which a strategy decides where it goes.
    #[must_use]
    pub fn is_steered(&self) -> bool {
        self.op == Op::Read && !self.is_noise
    }

    /// The request under this identifier.
    #[must_use]
    pub const fn request(&self, id: RequestId) -> Request {
        Request {
            id,
            device: DeviceId(self.primary.0 as u32),
            arrival: self.at,
            op: self.op,
            offset: self.offset,
            length: self.length,
            flags: Flags::empty(),
            deadline: None,
            issuer: self.issuer,
        }
    }

    /// The order in which a read with this identifier fails over among `drives` drives. It depends
    /// on the options and the identifier only, so it is the same under all strategies.
    #[must_use]
    pub fn order(&self, id: RequestId, drives: usize, options: &RunOptions) -> Order {
        // Any number unique to the read suffices.
        let random = SplitMix64::new(options.seed ^ (id.0 << 1)).next();
        let group = |drive: Replica| options.groups.get(drive.index());
        let among = (0..drives as u8).map(Replica);
        let own = among.filter(|&drive| group(drive) == group(self.primary));
        let copies = options.copies.unwrap_or(MOST_REPLICAS.min(drives));
        Order::shuffled_among(self.primary, own, copies, random)
    }
}

/// The requests of a run, which arrive at their times, and the figures of what became of them.
pub(super) struct Workload<'a> {
    requests: &'a [ArrayIo],
    /// The next of them to arrive.
    next: usize,
    pub(super) options: &'a RunOptions,
    pub(super) figures: ArrayFigures,
    /// User requests of several reads, by number; empty if each read is one.
    user_requests: Vec<UserRequest>,
}

impl<'a> Workload<'a> {
    pub(super) fn new(requests: &'a [ArrayIo], options: &'a RunOptions, drives: usize) -> Self {
        let reads = if options.each_read { requests.len() } else { 0 };
        let each_read = vec![Nanos::ZERO; reads];
        let mut user_requests = Vec::new();
        if options.parallel {
            for io in requests.iter().filter(|io| io.is_steered()) {
                let number = io.user_request as usize;
                user_requests
                    .resize_with(user_requests.len().max(number + 1), UserRequest::default);
                user_requests[number].left += 1;
            }
        }
        let figures = ArrayFigures { each_read, ..ArrayFigures::new(drives) };
        Self { requests, next: 0, options, figures, user_requests }
    }

    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        self.requests.get(self.next).map(|request| request.at)
    }

    /// Takes the next request, with its number.
    pub(super) fn take(&mut self) -> Option<(RequestId, ArrayIo)> {
        let io = *self.requests.get(self.next)?;
        self.next += 1;
        Some((RequestId(self.next as u64 - 1), io))
    }

    /// The request that arrives so many requests after the one that was taken last.
    pub(super) fn ahead(&self, requests: usize) -> Option<&ArrayIo> {
        self.requests.get(self.next + requests - 1)
    }
}

/// A user's request that is made of several reads.
#[derive(Clone, Copy, Debug, Default)]
struct UserRequest {
    /// Reads that have not ended.
    left: u32,
    slowest: Nanos,
    failed: bool,
}

impl UserRequest {
    /// One of its reads has ended, with data or without. Returns the answer with the last one.
    fn read_ended(&mut self, latency: Option<Nanos>) -> Option<Option<Nanos>> {
        self.left = self.left.saturating_sub(1);
        match latency {
            Some(latency) => self.slowest = self.slowest.max(latency),
            None => self.failed = true,
        }
        (self.left == 0).then_some((!self.failed).then_some(self.slowest))
    }
}

impl Reads for Workload<'_> {
    fn request(&self, read: RequestId) -> Request {
        self.requests[read.0 as usize].request(read)
    }

    fn completed(&mut self, now: Nanos, read: RequestId, outcome: Outcome) {
        let io = &self.requests[read.0 as usize];
        let latency = (outcome == Outcome::Done).then(|| now.since(io.at));
        self.figures.read_completed(read.0, io, latency);
        let user_request = self.user_requests.get_mut(io.user_request as usize);
        let answer = user_request.map_or(Some(latency), |request| request.read_ended(latency));
        if let Some(answer) = answer {
            self.figures.answered(answer);
        }
    }

    fn request_ended(&mut self, now: Nanos, end: &RequestEnd) {
        let (took, data) = (now.since(end.sent), end.outcome == Outcome::Done);
        let threshold = self.options.thresholds.as_ref().map(|all| all[end.replica.index()]);
        let score = &mut self.figures.score;
        let Some(reason) = end.reason else {
            score.sampled += u64::from(data);
            let fast = data && threshold.is_some_and(|most| took <= most);
            score.false_revokes += u64::from(fast);
            return;
        };
        self.figures.replicas[end.replica.index()].served.record(took);
        // The latency of a failed request does not score the prediction.
        if let (Reason::Fast, Some(threshold)) = (reason, threshold)
            && end.outcome != Outcome::Error
        {
            score.submitted += 1;
            score.false_submits += u64::from(took > threshold);
        }
    }
}
