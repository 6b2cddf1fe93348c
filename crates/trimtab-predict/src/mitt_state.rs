//! `mitt-state`: MittOS's next free time, from the tracked state of a drive.
//!
//! [`MittNoop`](crate::mitt::MittNoop) follows each request of a queue with its offset. A program
//! that reads a drive shared with others cannot: it sees what the kernel tracks of the drive
//! ([`DriveState`]), which counts the requests of all processes. This predictor computes the next
//! free time (MittOS, §4.2.1) from these counts: the predicted time of all requests in flight, at
//! mean distances, less what has passed of the current one, which began when the one before it
//! completed or when it was sent. Completions correct it, since they leave the counts.
//!
//! On flash the requests in flight are spread over the dies, and a read expects the mean die
//! (§4.2.3). What the drive does by itself, such as cleaning, is in no count.

use serde::{Deserialize, Serialize};
use trimtab_io::{Nanos, Op, Request};

use crate::mitt::Limit;
use crate::pages::pages_of;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};
use crate::state::DriveState;
use crate::tracker::DriveTracker;

/// The times of a drive's requests, and when a read is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueTimes {
    /// A read, without its transfer: on a disk the mean seek and rotation.
    pub read_ns: u64,
    /// Transfer of 4 KiB that are read.
    pub read_page_ns: u64,
    /// A write, likewise; if the drive buffers writes, this is the time until it has done it.
    pub write_ns: u64,
    /// Transfer of 4 KiB that are written.
    pub write_page_ns: u64,
    /// How many requests are served at a time: one by a disk, as many as dies by flash. A larger
    /// request is spread over them.
    pub parallel: u32,
    /// The deadline of reads that have none of their own.
    pub deadline_ns: u64,
}

impl QueueTimes {
    /// Whether they can be: at least one request at a time, and no time beyond a day.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        const DAY: u64 = 86_400_000_000_000;
        let Self { read_ns, read_page_ns, write_ns, write_page_ns, parallel, deadline_ns } = *self;
        parallel >= 1
            && read_ns <= DAY
            && read_page_ns <= DAY
            && write_ns <= DAY
            && write_page_ns <= DAY
            && deadline_ns <= DAY
    }

    /// The forecast for `request` if it were sent at `now` to a drive in this state.
    #[must_use]
    pub fn forecast(&self, now: Nanos, request: &Request, drive: &DriveState) -> Forecast {
        let expected = self.wait(now, drive) + self.alone(request);
        let limit =
            Limit { deadline: Some(Nanos(self.deadline_ns)), hop: Nanos::ZERO, elsewhere: None };
        let is_late = limit.of(now, request).is_some_and(|limit| expected > limit);
        let verdict = if is_late { Verdict::Late } else { Verdict::Fast };
        Forecast {
            wait: Some(expected),
            fast: (!is_late).then_some(expected),
            ..Forecast::bare(verdict)
        }
    }

    /// The time of a request on an idle drive, its pages one after the other.
    fn alone(&self, request: &Request) -> Nanos {
        let (each, page) = match request.op {
            Op::Read => (self.read_ns, self.read_page_ns),
            Op::Write | Op::Discard | Op::Flush => (self.write_ns, self.write_page_ns),
        };
        Nanos(each.saturating_add(page.saturating_mul(pages_of(request).into())))
    }

    /// Until the drive, or one of its dies in the mean, has done all that it has.
    fn wait(&self, now: Nanos, drive: &DriveState) -> Nanos {
        let (reads, writes) = (u64::from(drive.whole.reads), u64::from(drive.whole.writes));
        let requests = reads + writes;
        if requests == 0 {
            return Nanos::ZERO;
        }
        let pages = |bytes: u64| bytes.div_ceil(4096);
        let of = |requests: u64, each: u64, bytes: u64, page: u64| {
            requests.saturating_mul(each).saturating_add(pages(bytes).saturating_mul(page))
        };
        let work = of(reads, self.read_ns, drive.read_bytes, self.read_page_ns).saturating_add(of(
            writes,
            self.write_ns,
            drive.write_bytes,
            self.write_page_ns,
        ));
        // The current request may be overdue: then it still occupies the drive, and the rest waits.
        let parallel = u64::from(self.parallel);
        let passed = now.since(began(drive)).0.saturating_mul(parallel).min(work / requests);
        Nanos((work - passed) / parallel)
    }
}

/// When the service of the current request began.
fn began(drive: &DriveState) -> Nanos {
    let oldest_read = (drive.whole.reads > 0).then_some(drive.oldest_read);
    let oldest_other = Some(drive.oldest_other).filter(|at| *at > Nanos::ZERO);
    let oldest = [oldest_read, oldest_other].into_iter().flatten().min().unwrap_or_default();
    oldest.max(drive.whole.last_done).max(drive.last_write_done)
}

/// The predictor `mitt-state` for one drive.
#[derive(Clone, Debug)]
pub struct MittState {
    tracker: DriveTracker,
    times: QueueTimes,
}

impl MittState {
    /// Starts tracking a drive.
    #[must_use]
    pub fn new(times: QueueTimes) -> Self {
        Self { tracker: DriveTracker::new(&[]), times }
    }
}

impl Predictor for MittState {
    fn name(&self) -> &'static str {
        "mitt-state"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        self.times.forecast(now, request, self.tracker.state())
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        self.tracker.sent(now, request)
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        self.tracker.completed(now, ticket, data);
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::request;

    const MS: u64 = 1_000_000;

    fn disk() -> MittState {
        MittState::new(QueueTimes {
            read_ns: 8 * MS,
            read_page_ns: 1000,
            write_ns: 6 * MS,
            write_page_ns: 1000,
            parallel: 1,
            deadline_ns: 20 * MS,
        })
    }

    fn expected(predictor: &MittState, at: Nanos) -> (Nanos, Verdict) {
        let forecast = predictor.predict(at, &request(Op::Read, 1 << 30, 4096));
        (forecast.wait.unwrap(), forecast.verdict)
    }

    #[test]
    fn requests_in_flight_are_served_one_after_the_other() {
        let (mut disk, t) = (disk(), |ms: u64| Nanos(ms * MS));
        assert_eq!(expected(&disk, t(1)), (Nanos(8 * MS + 1000), Verdict::Fast));
        // 8 ms and 256 pages, and a write of 6 ms and a page.
        let long = disk.sent(t(1), &request(Op::Read, 0, 1 << 20));
        let write = disk.sent(t(1), &request(Op::Write, 0, 4096));
        let all = 14 * MS + 257_000 + 8 * MS + 1000;
        assert_eq!(expected(&disk, t(1)), (Nanos(all), Verdict::Late));
        assert_eq!(expected(&disk, t(4)).0, Nanos(all - 3 * MS));
        // One is overdue, whichever; the other waits for it.
        let mean = (14 * MS + 257_000) / 2;
        assert_eq!(expected(&disk, t(100)).0, Nanos(all - mean));
        disk.completed(t(100), long, true);
        assert_eq!(expected(&disk, t(102)), (Nanos(12 * MS + 2000), Verdict::Fast));
        disk.completed(t(106), write, true);
        assert_eq!(expected(&disk, t(107)).0, Nanos(8 * MS + 1000));
    }

    #[test]
    fn dies_share_the_work() {
        let times = QueueTimes { parallel: 8, ..disk().times };
        let mut flash = MittState::new(times);
        flash.sent(Nanos(0), &request(Op::Read, 0, 4096));
        flash.sent(Nanos(0), &request(Op::Read, 4096, 4096));
        assert_eq!(expected(&flash, Nanos(0)).0, Nanos((8 * MS + 1000) + (16 * MS + 2000) / 8));
    }

    #[test]
    fn own_deadlines_come_first_and_writes_are_never_late() {
        let times = disk().times;
        let read = request(Op::Read, 0, 4096);
        let own = Request { deadline: Some(Nanos(5 * MS)), ..read };
        let idle = DriveState::default();
        assert_eq!(times.forecast(Nanos(0), &own, &idle).verdict, Verdict::Late);
        let none = QueueTimes { deadline_ns: 0, ..times };
        let write = request(Op::Write, 0, 4096);
        assert_eq!(none.forecast(Nanos(0), &write, &idle).verdict, Verdict::Fast);
        assert_eq!(none.forecast(Nanos(0), &read, &idle).verdict, Verdict::Late);
    }

    proptest::proptest! {
        /// Any state of shared memory gives a forecast.
        #[test]
        fn no_state_overflows(
            reads: u32, writes: u32, read_bytes: u64, write_bytes: u64, oldest: u64, now: u64,
            each: u64, page: u64, parallel in 1..=u32::MAX,
        ) {
            let mut drive = DriveState { read_bytes, write_bytes, ..DriveState::default() };
            (drive.whole.reads, drive.whole.writes) = (reads, writes);
            drive.oldest_read = Nanos(oldest);
            let times = QueueTimes {
                read_ns: each, read_page_ns: page, write_ns: page, write_page_ns: each, parallel,
                deadline_ns: each,
            };
            _ = times.forecast(Nanos(now), &request(Op::Read, 0, 4096), &drive);
        }
    }
}
