//! Pairs events into requests.
//!
//! ```text
//!  Q ──┬─ X ─► Q Q           a bio, perhaps cut in two
//!      ├─ M, F ─► joined ─┐  put behind or in front of a request
//!      └─ G ── I ─────────┴─► D ──┬─ C          done
//!                             ▲   ├─ C … C      done in parts
//!                             └─R─┘             sent back by the driver
//! ```
//!
//! A request's extent is known only when it is issued, because merging continues until then, and
//! some merges have no event (whole requests before Linux 5.9). So nothing is joined at `M` and
//! `F`: the pieces stay queued, marked, and `D` gathers all within its extent.
//!
//! | seen of a request | its record |
//! | --- | --- |
//! | Q … D C | all three times |
//! | G or I, but no Q | arrival is the first of these |
//! | D, but nothing before | arrival is the issue, `ARRIVAL_IS_ISSUE` |
//! | no C by the end | no completion time |
//! | no D by the end | only the arrival; none for a bio that joined another |
//! | Q C, but no D (device mapper, RAID, zram) | no issue time |
//! | only C | none |
//!
//! Open requests are bounded by [`Fifos`], twice (queued and issued): about 60 MB at most, and in
//! practice the requests in flight. A request with a lost completion stays open until the end or
//! until it is evicted, and becomes a record without completion then.

use rustc_hash::FxHashMap;
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::event::{Action, Event};
use super::fifos::{Fifos, Key, MatchQuality, QueuedAt};
use super::flushes::Flushes;
use crate::names::CommandId;
use crate::record::Record;

/// Turns events, roughly in time order, into records, in completion order.
#[derive(Default)]
pub(in crate::format) struct Pairing {
    queued: Fifos<Queued>,
    issued: Fifos<Issued>,
    flushes: FxHashMap<DeviceId, Flushes>,
    /// Whether the recording has `G` events at all.
    has_get_request: bool,
}

/// A bio, or a request not issued yet.
struct Queued {
    record: Record,
    joined: MergeSide,
    /// A request was allocated for it.
    has_request: bool,
    /// The later part of a split bio. Old kernels queue it anew.
    remainder: bool,
}

/// Whether a bio was merged into a request, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MergeSide {
    No,
    Behind,
    InFront,
}

/// A request that the driver has.
struct Issued {
    record: Record,
    /// Start of the part not completed yet.
    rest: u64,
    requeued: bool,
}

impl QueuedAt for Queued {
    fn since(&self) -> Nanos {
        self.record.arrival
    }
}

impl QueuedAt for Issued {
    fn since(&self) -> Nanos {
        self.record.issue.unwrap_or(self.record.arrival)
    }
}

impl Queued {
    fn new(event: &Event, pid: Option<u32>, command: Option<CommandId>) -> Self {
        let bytes = u64::from(event.bytes);
        let record = Record {
            pid,
            command,
            flags: event.flags,
            ..Record::arriving(event.time, event.device, event.op, event.offset, bytes)
        };
        Self {
            record,
            joined: MergeSide::No,
            has_request: event.action != Action::Queue,
            remainder: false,
        }
    }

    /// How well it matches as the first piece of `event`'s request.
    fn begins(&self, event: &Event) -> MatchQuality {
        match self.joined {
            MergeSide::Behind => MatchQuality::No,
            _ if self.record.length == u64::from(event.bytes) => MatchQuality::Exact,
            _ => MatchQuality::Loose,
        }
    }

    /// Keeps the first `length` bytes; returns the rest.
    fn cut(&mut self, length: u64) -> Self {
        let (offset, rest) = (self.record.offset + length, self.record.length - length);
        self.record.length = length;
        Self {
            record: Record { offset, length: rest, ..self.record },
            joined: MergeSide::No,
            ..*self
        }
    }
}

fn key(device: DeviceId, op: Op, offset: u64) -> Key {
    // Offsets are whole sectors, so the low bits are free.
    Key(offset | op as u64, device.0)
}

impl Pairing {
    /// Processes one event; `command` is its process's, needed only if the action [tells the
    /// submitter](Action::tells_submitter). Appends the records that it completes.
    pub(in crate::format) fn event(
        &mut self,
        event: &Event,
        command: Option<CommandId>,
        out: &mut Vec<Record>,
    ) {
        if event.flags.contains(Flags::PREFLUSH) {
            let flushes = self.flushes.entry(event.device).or_default();
            if event.bytes == 0 {
                flushes.event(event, command, out);
            } else if event.action == Action::Queue {
                flushes.before_data(event, command);
            }
        }
        // The remaining events without data are completions of flushing writes, which `Flushes`
        // does not need, and zone commands.
        if event.bytes == 0 {
            return;
        }
        match event.action {
            Action::Queue => self.queue(event, command, out),
            Action::GetRequest => self.get_request(event, command, out),
            Action::BackMerge => self.merge(event, MergeSide::Behind),
            Action::FrontMerge => self.merge(event, MergeSide::InFront),
            Action::Split => self.split(event, out),
            Action::Insert => self.insert(event, out),
            Action::Issue => self.issue(event, out),
            Action::Requeue => self.requeue(event),
            Action::Complete => self.complete(event, out),
        }
    }

    fn queue(&mut self, event: &Event, command: Option<CommandId>, out: &mut Vec<Record>) {
        let remainder = |q: &Queued| q.remainder && q.begins(event) == MatchQuality::Exact;
        match self.queued.find(event_key(event), remainder) {
            Some(known) => known.remainder = false,
            None => self.push(Queued::new(event, Some(event.pid), command), out),
        }
    }

    fn push(&mut self, queued: Queued, out: &mut Vec<Record>) {
        let Record { device, op, offset, .. } = queued.record;
        let Self { queued: all, has_get_request, .. } = self;
        all.push(key(device, op, offset), queued, |lost| {
            report_queued(&lost, *has_get_request, out)
        });
    }

    fn get_request(&mut self, event: &Event, command: Option<CommandId>, out: &mut Vec<Record>) {
        self.has_get_request = true;
        let unserved = |q: &Queued| !q.has_request && q.joined == MergeSide::No;
        match self.queued.find(event_key(event), unserved) {
            Some(queued) => (queued.has_request, queued.remainder) = (true, false),
            None => self.push(Queued::new(event, Some(event.pid), command), out),
        }
    }

    fn merge(&mut self, event: &Event, joined: MergeSide) {
        let key = event_key(event);
        // A bio that has just arrived, or else a whole request.
        let bio = |q: &Queued| !q.has_request && q.begins(event) == MatchQuality::Exact;
        let bio = self
            .queued
            .find(key, |q| q.joined == MergeSide::No && bio(q))
            .map(|q| q.joined = joined);
        if bio.is_none()
            && let Some(request) = self.queued.find(key, |q| q.joined != MergeSide::Behind)
        {
            request.joined = joined;
        }
    }

    fn split(&mut self, event: &Event, out: &mut Vec<Record>) {
        let length = u64::from(event.bytes);
        let longer = |q: &Queued| q.joined == MergeSide::No && q.record.length > length;
        if let Some(queued) = self.queued.find(event_key(event), longer) {
            let rest = queued.cut(length);
            self.push(Queued { remainder: true, ..rest }, out);
        }
    }

    fn insert(&mut self, event: &Event, out: &mut Vec<Record>) {
        let key = event_key(event);
        let known = self.queued.find(key, |q| q.begins(event) != MatchQuality::No).is_some()
            || self.issued.find(key, |i| i.requeued).is_some();
        if !known {
            self.push(Queued::new(event, None, None), out);
        }
    }

    fn issue(&mut self, event: &Event, out: &mut Vec<Record>) {
        let key = event_key(event);
        let again = |i: &Issued| if i.requeued { i.fits(event) } else { MatchQuality::No };
        let mut issued = if let Some(issued) = self.issued.take(key, again) {
            issued
        } else if let Some(mut first) = self.queued.take(key, |q| q.begins(event)) {
            if first.record.length > u64::from(event.bytes) {
                let rest = first.cut(event.bytes.into());
                self.push(rest, out);
            }
            first.record.flags.set(Flags::MERGED, first.joined == MergeSide::InFront);
            Issued { rest: event.offset, requeued: false, record: first.record }
        } else if let Some(known) = self.issued.find(key, |i| i.fits(event) == MatchQuality::Exact)
        {
            // The requeue event was lost.
            known.record.flags |= Flags::REQUEUED;
            return;
        } else {
            let mut record = Queued::new(event, None, None).record;
            record.flags |= Flags::ARRIVAL_IS_ISSUE;
            Issued { rest: event.offset, requeued: false, record }
        };
        self.gather(&mut issued.record, event.end());
        issued.requeued = false;
        issued.record.flags |= event.flags;
        issued.record.issue.get_or_insert(event.time);
        self.issued.push(key, issued, |lost| out.push(lost.record));
    }

    /// Adds the following pieces to a request, up to `end`.
    fn gather(&mut self, record: &mut Record, end: u64) {
        let mut merged = false;
        while record.end() < end {
            let at = key(record.device, record.op, record.end());
            let piece = self.queued.take(at, |q| match q.joined {
                _ if q.record.end() > end => MatchQuality::No,
                MergeSide::Behind => MatchQuality::Exact,
                MergeSide::No | MergeSide::InFront => MatchQuality::Loose,
            });
            let piece = piece.map(|q| q.record).or_else(|| {
                let whole = |i: &Issued| i.requeued && i.record.end() <= end;
                self.issued
                    .take(at, |i| if whole(i) { MatchQuality::Loose } else { MatchQuality::No })
                    .map(|i| i.record)
            });
            merged = true;
            let Some(piece) = piece else { break };
            record.length += piece.length;
            if piece.arrival < record.arrival && !record.flags.contains(Flags::ARRIVAL_IS_ISSUE) {
                let Record { arrival, pid, command, .. } = piece;
                (record.arrival, record.pid, record.command) = (arrival, pid, command);
            }
            record.issue = record.issue.into_iter().chain(piece.issue).min();
            record.flags |= piece.flags & (Flags::REQUEUED | Flags::MERGED);
        }
        if merged {
            // Events of missing pieces were lost.
            record.length = end - record.offset;
            record.flags |= Flags::MERGED;
        }
    }

    fn requeue(&mut self, event: &Event) {
        let key = event_key(event);
        let exact = |i: &Issued| !i.requeued && i.fits(event) == MatchQuality::Exact;
        if let Some(issued) = self.issued.find(key, exact) {
            issued.requeued = true;
            issued.record.flags |= Flags::REQUEUED;
        }
    }

    fn complete(&mut self, event: &Event, out: &mut Vec<Record>) {
        let key = event_key(event);
        if let Some(mut issued) = self.issued.take(key, |i| i.fits(event)) {
            issued.record.flags |= event.flags & Flags::ERROR;
            if event.end() < issued.record.end() {
                issued.record.flags |= Flags::PARTIAL;
                issued.rest = event.end();
                let Record { device, op, .. } = issued.record;
                let key = self::key(device, op, issued.rest);
                self.issued.push(key, issued, |lost| out.push(lost.record));
                return;
            }
            issued.record.complete = Some(event.time);
            out.push(issued.record);
        } else if let Some(mut queued) = self.queued.take(key, |q| q.begins(event)) {
            if queued.record.length > u64::from(event.bytes) {
                let rest = queued.cut(event.bytes.into());
                self.push(rest, out);
            }
            self.gather(&mut queued.record, event.end());
            queued.record.flags |= event.flags;
            queued.record.complete = Some(event.time);
            out.push(queued.record);
        }
    }

    /// End of the recording: appends the open records.
    pub(in crate::format) fn end(&mut self, out: &mut Vec<Record>) {
        out.extend(self.issued.drain().into_iter().map(|(_, issued)| issued.record));
        for (_, queued) in self.queued.drain() {
            report_queued(&queued, self.has_get_request, out);
        }
        for (_, mut flushes) in self.flushes.drain() {
            flushes.end(out);
        }
    }
}

impl Issued {
    /// How well `event` matches the rest of this request.
    fn fits(&self, event: &Event) -> MatchQuality {
        if self.record.end() == event.end() { MatchQuality::Exact } else { MatchQuality::Loose }
    }
}

fn event_key(event: &Event) -> Key {
    key(event.device, event.op, event.offset)
}

/// Reports a queued bio that was never issued, unless it was never a request of its own: the start
/// of the request that it joined was not seen, or it is a discard that joined another, for which
/// the kernel has no event if their ranges do not touch.
fn report_queued(queued: &Queued, has_get_request: bool, out: &mut Vec<Record>) {
    let silently_joined = queued.record.op == Op::Discard && has_get_request && !queued.has_request;
    if queued.joined == MergeSide::No && !silently_joined {
        out.push(queued.record);
    }
}

#[cfg(test)]
mod tests;
