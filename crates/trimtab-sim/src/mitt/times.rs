//! Service times of a disk's profile.

use std::sync::Arc;

use trimtab_device::{Disk, DiskProfile, DiskTiming};
use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
use trimtab_predict::mitt::{Served, ServiceTime, Start};

/// Services in a row that must agree on the angle before it is used.
const SURE: u8 = 3;

/// The service times of a disk's profile: what profiling the disk finds at best.
///
/// A model of the disk follows it: it serves again what the disk has completed, or, where the order
/// is known when a request is sent, it is ahead of the disk and serves it then. So the host knows
/// what the buffer holds. The angle of the spindle, which a profile does not have, follows from
/// completions: each one shows when its last sector passed. Once three in a row agree, the wait for
/// the first sector is computed, and is no longer the mean of half a revolution.
#[derive(Clone, Debug)]
pub struct ProfileTimes {
    timing: Arc<DiskTiming>,
    disk: Disk,
    is_ahead: bool,
    /// The spindle's angle at time zero, and how many services in a row agreed on it.
    phase: Nanos,
    agreed: u8,
    /// When the last service ended, and the byte up to which it reached, if the model has served it.
    last: Option<(Nanos, u64)>,
}

impl ProfileTimes {
    /// The times of a disk of this profile.
    #[must_use]
    pub fn new(profile: &DiskProfile) -> Self {
        Self {
            timing: Arc::new(DiskTiming::new(profile)),
            disk: Disk::new(profile, DeviceId(0), 0),
            is_ahead: false,
            phase: Nanos::ZERO,
            agreed: 0,
            last: None,
        }
    }

    fn exact(&self, phase: Nanos, start: Start, previous_end: u64, request: &Served) -> Nanos {
        let (&Served { op, offset, length }, Start { entered, begin }) = (request, start);
        let idle = self.last.filter(|&(end, last)| last == previous_end && end < begin);
        let head = match idle {
            Some(_) => self.disk.arm(begin),
            None => self.timing.locate(previous_end.saturating_sub(1)),
        };
        self.timing.exact_service((head, phase), (entered, begin), op, offset, length)
    }

    /// The time of a request that does not need the arm.
    fn without_arm(&self, previous_end: u64, request: &Served) -> Option<Nanos> {
        let &Served { op, offset, length } = request;
        match op {
            Op::Read if self.disk.is_buffered(offset, length) => Some(self.timing.buffered(length)),
            Op::Read => self.timing.read_ahead(previous_end, offset, length),
            Op::Write if !self.timing.buffers_writes() => None,
            _ => Some(self.timing.expected_service(previous_end, op, offset, length)),
        }
    }

    /// The model serves a request; returns its end, `None` if it is not of this disk.
    fn serve(&mut self, start: Start, request: &Served) -> Option<Nanos> {
        let &Served { op, offset, length } = request;
        let at = start.begin.max(self.disk.now());
        let again = Request::new(RequestId(0), DeviceId(0), at, op, offset, length);
        self.disk.submit_waited(at, start.entered.min(at), &again).ok()?;
        let mut end = None;
        while end.is_none() {
            self.disk.advance(self.disk.next_event()?);
            self.disk.drain(|served| end = Some(served.completion.complete));
        }
        end
    }

    fn learn_angle(&mut self, start: Start, end: Nanos, previous_end: u64, request: &Served) {
        let period = self.timing.revolution().0;
        let at_zero = self.exact(Nanos::ZERO, start, previous_end, request).0;
        // A greater angle at the start is a shorter wait.
        let phase = (at_zero + period - end.since(start.begin).0 % period) % period;
        let apart = phase.abs_diff(self.phase.0);
        if apart.min(period - apart) < period / 50 {
            self.agreed = (self.agreed + 1).min(2 * SURE);
            self.phase = Nanos(phase);
        } else if self.agreed > 0 {
            self.agreed -= 1;
        } else {
            self.phase = Nanos(phase);
        }
        self.disk.set_phase(self.phase);
    }
}

impl ServiceTime for ProfileTimes {
    fn expected(&self, previous_end: u64, op: Op, offset: u64, length: u64) -> Nanos {
        let request = Served { op, offset, length };
        let arm = || self.timing.expected_service(previous_end, op, offset, length);
        self.without_arm(previous_end, &request).unwrap_or_else(arm)
    }

    fn expected_from(&self, start: Start, previous_end: u64, request: &Served) -> Nanos {
        let &Served { op, offset, length } = request;
        if self.agreed < SURE {
            return self.expected(previous_end, op, offset, length);
        }
        let arm = || self.exact(self.phase, start, previous_end, request);
        self.without_arm(previous_end, request).unwrap_or_else(arm)
    }

    fn served(&mut self, start: Start, end: Nanos, previous_end: u64, request: &Served) {
        let begin = start.begin;
        let &Served { op, offset, length } = request;
        let is_of_arm = match op {
            // A model that is ahead has served it itself, so its buffer does not tell.
            Op::Read if self.is_ahead => {
                let bound = self.timing.buffered(length) + Nanos(self.timing.revolution().0 / 20);
                end.since(begin) > bound
                    && self.timing.read_ahead(previous_end, offset, length).is_none()
            }
            _ => self.without_arm(previous_end, request).is_none(),
        };
        if is_of_arm {
            self.learn_angle(start, end, previous_end, request);
        }
        if !self.is_ahead {
            let served = self.serve(start, request);
            self.last = served.map(|_| (end, request.end()));
        }
    }

    fn sent(&mut self, begin: Nanos, previous_end: u64, request: &Served) -> Nanos {
        self.is_ahead = true;
        let expected = self.expected_from(Start::at(begin), previous_end, request);
        let end = self.serve(Start::at(begin), request);
        end.filter(|_| self.agreed >= SURE).map_or(expected, |end| end.since(begin))
    }
}
