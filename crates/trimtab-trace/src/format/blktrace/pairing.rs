//! From events to requests.
//!
//! ```text
//!  Q ──┬─ X ─► Q Q           a bio, perhaps cut in two
//!      ├─ M, F ─► joined ─┐  put behind or in front of a request
//!      └─ G ── I ─────────┴─► D ──┬─ C          done
//!                             ▲   ├─ C … C      done in parts
//!                             └─R─┘             sent back by the driver
//! ```
//!
//! A request's extent is known for certain only when it is issued, because
//! merging goes on until then, and some merges leave no event (whole requests
//! before Linux 5.9). So nothing is glued together at `M` and `F`: the pieces
//! stay where they are, marked, and `D` gathers all that lie in its extent.
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
//! What is open is bounded as [`Fifos`] says, twice (queued and issued), about
//! 60 MB at the very most and in practice the requests in flight. A request
//! whose completion was lost stays open until the end or until the bound
//! pushes it out, and becomes a record without completion then.

use rustc_hash::FxHashMap;
use trimtab_io::{DeviceId, Flags, Nanos, Op};

use super::event::{Action, Event};
use super::fifos::{Fifos, Fit, Key, Since};
use super::flushes::Flushes;
use crate::names::CommandId;
use crate::record::Record;

/// Turns events, in about the order of time, into records, in order of
/// completion.
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
    joined: Joined,
    /// A request was allocated for it.
    has_request: bool,
    /// The later part of a cut bio. Old kernels queue it anew.
    remainder: bool,
}

/// Whether a bio was merged into a request, and where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Joined {
    No,
    Behind,
    InFront,
}

/// A request that the driver has.
struct Issued {
    record: Record,
    /// Where the part begins that is not done yet.
    rest: u64,
    requeued: bool,
}

impl Since for Queued {
    fn since(&self) -> Nanos {
        self.record.arrival
    }
}

impl Since for Issued {
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
            joined: Joined::No,
            has_request: event.action != Action::Queue,
            remainder: false,
        }
    }

    /// How well it fits as the first piece of what `event` tells of.
    fn begins(&self, event: &Event) -> Fit {
        match self.joined {
            Joined::Behind => Fit::No,
            _ if self.record.length == u64::from(event.bytes) => Fit::Exact,
            _ => Fit::Loose,
        }
    }

    /// Becomes the first `length` bytes; returns the others.
    fn cut(&mut self, length: u64) -> Self {
        let (offset, rest) = (self.record.offset + length, self.record.length - length);
        self.record.length = length;
        Self { record: Record { offset, length: rest, ..self.record }, joined: Joined::No, ..*self }
    }
}

fn key(device: DeviceId, op: Op, offset: u64) -> Key {
    // Offsets are whole sectors, so that the low bits are free.
    Key(offset | op as u64, device.0)
}

impl Pairing {
    /// Takes one event; `command` is that of its process, wanted only where
    /// the action [tells the submitter](Action::tells_submitter). Appends the
    /// records that are complete by it.
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
        // What remains without data are completions of flushing writes, which
        // `Flushes` has no need of, and zone commands.
        if event.bytes == 0 {
            return;
        }
        match event.action {
            Action::Queue => self.queue(event, command, out),
            Action::GetRequest => self.get_request(event, command, out),
            Action::BackMerge => self.merge(event, Joined::Behind),
            Action::FrontMerge => self.merge(event, Joined::InFront),
            Action::Split => self.split(event, out),
            Action::Insert => self.insert(event, out),
            Action::Issue => self.issue(event, out),
            Action::Requeue => self.requeue(event),
            Action::Complete => self.complete(event, out),
        }
    }

    fn queue(&mut self, event: &Event, command: Option<CommandId>, out: &mut Vec<Record>) {
        let remainder = |q: &Queued| q.remainder && q.begins(event) == Fit::Exact;
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
        let unserved = |q: &Queued| !q.has_request && q.joined == Joined::No;
        match self.queued.find(event_key(event), unserved) {
            Some(queued) => (queued.has_request, queued.remainder) = (true, false),
            None => self.push(Queued::new(event, Some(event.pid), command), out),
        }
    }

    fn merge(&mut self, event: &Event, joined: Joined) {
        let key = event_key(event);
        // A bio that has just arrived, or else a whole request.
        let bio = |q: &Queued| !q.has_request && q.begins(event) == Fit::Exact;
        let bio =
            self.queued.find(key, |q| q.joined == Joined::No && bio(q)).map(|q| q.joined = joined);
        if bio.is_none()
            && let Some(request) = self.queued.find(key, |q| q.joined != Joined::Behind)
        {
            request.joined = joined;
        }
    }

    fn split(&mut self, event: &Event, out: &mut Vec<Record>) {
        let length = u64::from(event.bytes);
        let longer = |q: &Queued| q.joined == Joined::No && q.record.length > length;
        if let Some(queued) = self.queued.find(event_key(event), longer) {
            let rest = queued.cut(length);
            self.push(Queued { remainder: true, ..rest }, out);
        }
    }

    fn insert(&mut self, event: &Event, out: &mut Vec<Record>) {
        let key = event_key(event);
        let known = self.queued.find(key, |q| q.begins(event) != Fit::No).is_some()
            || self.issued.find(key, |i| i.requeued).is_some();
        if !known {
            self.push(Queued::new(event, None, None), out);
        }
    }

    fn issue(&mut self, event: &Event, out: &mut Vec<Record>) {
        let key = event_key(event);
        let again = |i: &Issued| if i.requeued { i.fits(event) } else { Fit::No };
        let mut issued = if let Some(issued) = self.issued.take(key, again) {
            issued
        } else if let Some(mut first) = self.queued.take(key, |q| q.begins(event)) {
            if first.record.length > u64::from(event.bytes) {
                let rest = first.cut(event.bytes.into());
                self.push(rest, out);
            }
            first.record.flags.set(Flags::MERGED, first.joined == Joined::InFront);
            Issued { rest: event.offset, requeued: false, record: first.record }
        } else if let Some(known) = self.issued.find(key, |i| i.fits(event) == Fit::Exact) {
            // The event that sent it back was lost.
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

    /// Adds to a request the pieces that follow it, up to `end`.
    fn gather(&mut self, record: &mut Record, end: u64) {
        let mut merged = false;
        while record.end() < end {
            let at = key(record.device, record.op, record.end());
            let piece = self.queued.take(at, |q| match q.joined {
                _ if q.record.end() > end => Fit::No,
                Joined::Behind => Fit::Exact,
                Joined::No | Joined::InFront => Fit::Loose,
            });
            let piece = piece.map(|q| q.record).or_else(|| {
                let whole = |i: &Issued| i.requeued && i.record.end() <= end;
                self.issued
                    .take(at, |i| if whole(i) { Fit::Loose } else { Fit::No })
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
            // What is missing had its events lost.
            record.length = end - record.offset;
            record.flags |= Flags::MERGED;
        }
    }

    fn requeue(&mut self, event: &Event) {
        let key = event_key(event);
        let exact = |i: &Issued| !i.requeued && i.fits(event) == Fit::Exact;
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

    /// The recording is over: appends what was still open.
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
    /// How well `event` fits as one about what is left of this request.
    fn fits(&self, event: &Event) -> Fit {
        if self.record.end() == event.end() { Fit::Exact } else { Fit::Loose }
    }
}

fn event_key(event: &Event) -> Key {
    key(event.device, event.op, event.offset)
}

/// Reports what was queued but never issued, unless it was never a request of
/// its own: the beginning of the request that it joined was not seen, or it is
/// a discard that joined another, for which the kernel has no event where
/// their ranges do not touch.
fn report_queued(queued: &Queued, has_get_request: bool, out: &mut Vec<Record>) {
    let silently_joined = queued.record.op == Op::Discard && has_get_request && !queued.has_request;
    if queued.joined == Joined::No && !silently_joined {
        out.push(queued.record);
    }
}

#[cfg(test)]
mod tests;
