//! I/O schedulers: which of the waiting requests a device gets next.
//!
//! A scheduler stands between the arrival of requests and a device that takes a few of them at a
//! time. It decides most of a request's waiting time: a predictor that knows the scheduler's state
//! knows what will be served before a new request (dissertation on fast and stable storage,
//! §4.2.2).
//!
//! - [`Fifo`] is `none` of today's Linux, and `noop` of earlier ones.
//! - [`Cfq`] is the scheduler that MittCFQ was built in: groups by weight, three service trees in
//!   each, a node for each process with a time slice by priority, and requests of a node by offset.
//! - [`MqDeadline`] sorts by offset until a request's deadline has passed.
//! - [`Bfq`] shares bytes instead of time: a budget for each process, in the order of B-WF2Q+.
//!
//! Each is a state machine: requests, completions and times go in, requests come out.
//!
//! ```
//! use trimtab_device::scheduler::{Scheduler as _, SchedulerKind};
//! use trimtab_io::{DeviceId, Nanos, Op, Request, RequestId};
//!
//! let mut scheduler = SchedulerKind::parse("kind = 'mq-deadline'")?.scheduler();
//! for (id, offset) in [(0, 40960), (1, 4096), (2, 81920)] {
//!     let request = Request::new(RequestId(id), DeviceId(0), Nanos(0), Op::Read, offset, 4096);
//!     scheduler.insert(Nanos(0), &request);
//! }
//! let mut order = Vec::new();
//! while let Some(next) = scheduler.dispatch(Nanos(1000), order.len() as u32) {
//!     order.push(next.id.0);
//! }
//! assert_eq!(order, [1, 0, 2]);
//! # Ok::<(), trimtab_device::Error>(())
//! ```

pub mod bfq;
pub mod cfq;
mod fifo;
mod kind;
pub mod mq_deadline;
mod process_stats;
mod processes;
mod queue;

pub use bfq::{Bfq, BfqOptions};
pub use cfq::{Cfq, CfqOptions};
pub use fifo::Fifo;
pub use kind::{AnyScheduler, GroupWeight, SchedulerKind};
pub use mq_deadline::{MqDeadline, MqDeadlineOptions};

use trimtab_io::{Flags, Nanos, Op, Request, RequestId};

/// Decides the order in which requests reach a device.
///
/// The caller passes times that never decrease, dispatches at most as many requests as the device
/// takes, and reports each completion once. After an insertion, a completion and at
/// [`next_timer`](Self::next_timer) it dispatches again, until nothing comes.
pub trait Scheduler {
    /// Takes a request at time `now`.
    fn insert(&mut self, now: Nanos, request: &Request);

    /// The next request for the device, which has `in_device` requests. `None` if no request
    /// waits, or if the device is to be kept idle, or less busy, for now: then an insertion, a
    /// completion or the timer changes that.
    fn dispatch(&mut self, now: Nanos, in_device: u32) -> Option<Request>;

    /// A dispatched request has completed, `service` after it was sent to the device.
    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos);

    /// When [`dispatch`](Self::dispatch) gives more than now, if nothing happens before.
    fn next_timer(&self) -> Option<Nanos>;

    /// Requests that wait.
    fn len(&self) -> usize;

    /// Whether no request waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out a waiting request: a cancelled read. `None` if it does not wait here. Takes time
    /// in proportion to the requests that wait.
    fn remove(&mut self, id: RequestId) -> Option<Request>;
}

/// Whether the issuer of a request waits for it: reads, and writes with [`Flags::SYNC`]. CFQ and
/// BFQ serve the others from queues that processes share.
const fn is_sync(request: &Request) -> bool {
    matches!(request.op, Op::Read) || request.flags.contains(Flags::SYNC)
}
