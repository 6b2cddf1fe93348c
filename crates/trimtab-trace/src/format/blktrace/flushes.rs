//! Pairs the events of cache flushes.
//!
//! A file system requests a flush by an empty write marked `PREFLUSH`, or by marking a write of
//! data. The block layer collects these requests and sends one flush request of its own (`FN`) for
//! all of them. On its completion, the empty writes are completed too, as writes of no bytes that
//! were never issued. The drive has served one request: the flush.

use std::collections::VecDeque;

use trimtab_io::{Flags, Nanos, Op};

use super::event::{Action, Event};
use crate::names::CommandId;
use crate::record::Record;

/// Bound per device; with lost events, the oldest is dropped.
const MAX: usize = 1024;

/// The flushes of one device.
#[derive(Default)]
pub(super) struct Flushes {
    /// Empty writes that ask for a flush.
    waiting: VecDeque<Waiting>,
    /// The earliest write of data that needs a flush before it.
    data: Option<Record>,
    issued: VecDeque<Issued>,
}

struct Waiting {
    record: Record,
    /// A request was allocated for it.
    has_request: bool,
}

struct Issued {
    record: Record,
    /// Marked as a write too, by kernels before 4.8.
    as_write: bool,
    requeued: bool,
}

/// Flags that a flush request takes over from the requests for it.
const CARRIED: Flags = Flags::SYNC.union(Flags::META);

impl Flushes {
    /// A write of data arrives that needs a flush before it.
    pub(super) fn before_data(&mut self, event: &Event, command: Option<CommandId>) {
        self.data.get_or_insert_with(|| asking(event, command));
    }

    /// An event of no bytes, marked `PREFLUSH`.
    pub(super) fn event(
        &mut self,
        event: &Event,
        command: Option<CommandId>,
        out: &mut Vec<Record>,
    ) {
        match event.action {
            Action::Queue => self.wait(event, command, false, out),
            Action::GetRequest => {
                match self.waiting.iter_mut().find(|waiting| !waiting.has_request) {
                    Some(waiting) => waiting.has_request = true,
                    None => self.wait(event, command, true, out),
                }
            }
            Action::Issue => self.issue(event, out),
            Action::Requeue => {
                if let Some(issued) = self.issued.iter_mut().find(|issued| !issued.requeued) {
                    issued.requeued = true;
                    issued.record.flags |= Flags::REQUEUED;
                }
            }
            Action::Complete => self.complete(event, out),
            Action::BackMerge | Action::FrontMerge | Action::Insert | Action::Split => {}
        }
    }

    fn wait(
        &mut self,
        event: &Event,
        command: Option<CommandId>,
        has_request: bool,
        out: &mut Vec<Record>,
    ) {
        if self.waiting.len() == MAX {
            out.extend(self.waiting.pop_front().map(|waiting| waiting.record));
        }
        self.waiting.push_back(Waiting { record: asking(event, command), has_request });
    }

    fn issue(&mut self, event: &Event, out: &mut Vec<Record>) {
        if let Some(again) = self.issued.iter_mut().find(|issued| issued.requeued) {
            again.requeued = false;
            return;
        }
        let served = self.waiting.len() + usize::from(self.data.is_some());
        let first = self.waiting.drain(..).map(|waiting| waiting.record).chain(self.data.take());
        let mut record = first.min_by_key(|record| record.arrival).unwrap_or_else(|| Record {
            pid: None,
            flags: (event.flags & CARRIED) | Flags::ARRIVAL_IS_ISSUE,
            ..asking(event, None)
        });
        record.issue = Some(event.time);
        record.flags.set(Flags::MERGED, served > 1);
        if self.issued.len() == MAX {
            out.extend(self.issued.pop_front().map(|issued| issued.record));
        }
        let as_write = event.op == Op::Write;
        self.issued.push_back(Issued { record, as_write, requeued: false });
    }

    fn complete(&mut self, event: &Event, out: &mut Vec<Record>) {
        let as_write = event.op == Op::Write;
        let done = match self.issued.iter().position(|issued| issued.as_write == as_write) {
            Some(at) => self.issued.remove(at).map(|issued| issued.record),
            // Devices without requests of their own (device mapper, RAID) complete the empty write
            // itself.
            None if as_write => self.waiting.pop_front().map(|waiting| waiting.record),
            None => None,
        };
        if let Some(mut record) = done {
            record.complete = Some(event.time);
            record.flags |= event.flags & Flags::ERROR;
            out.push(record);
        }
    }

    /// Records still open at the end.
    pub(super) fn end(&mut self, out: &mut Vec<Record>) {
        out.extend(self.issued.drain(..).map(|issued| issued.record));
        out.extend(self.waiting.drain(..).map(|waiting| waiting.record));
        self.data = None;
    }
}

/// The flush requested by `event`.
fn asking(event: &Event, command: Option<CommandId>) -> Record {
    let arrival: Nanos = event.time;
    Record {
        pid: Some(event.pid),
        command,
        flags: event.flags & CARRIED,
        ..Record::arriving(arrival, event.device, Op::Flush, 0, 0)
    }
}
