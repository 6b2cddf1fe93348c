//! The state tracker: from submissions and completions to a [`DriveState`].
//!
//! Each update takes constant time (for a long request, per piece, of which the first 16
//! count), in integers. A request that is neither a read nor a write adds to the requests in
//! flight and to nothing else.

use trimtab_io::{Nanos, Op, Request};

use crate::in_flight::{InFlight, Pending, Span};
use crate::pages::pages_of;
use crate::predictor::Ticket;
use crate::state::{DriveState, FEATURES, HISTORY, Rest, Stall, Unit, WINDOWS, ticks};
use crate::units::{self, MAX_FUNCTIONS, UnitFunction};

/// A stall: no read completes for this long while three or more are in flight.
const STALL: Nanos = Nanos::from_micros(300);
const STALLED_READS: u32 = 3;
/// An idle period: nothing is sent for this long.
const REST: Nanos = Nanos::from_millis(5);

/// Tracks one drive's state from outside, as the block layer sees it.
///
/// bpf/state.bpf.c does the same at each step. A change to one is a change to the other; a
/// test compares all bits.
#[derive(Clone, Debug)]
pub struct DriveTracker {
    functions: Box<[UnitFunction]>,
    /// The units of each function, one function after the other.
    units: Box<[Unit]>,
    /// Where each function's units begin.
    first: [usize; MAX_FUNCTIONS],
    /// The least of the functions' stretches: a request within one such stretch is one piece
    /// by every function.
    least_shift: u32,
    state: DriveState,
    reads: InFlight,
    others: InFlight,
}

/// Marks the ticket of a request other than a read.
const OTHER: u32 = 1 << 31;

impl DriveTracker {
    /// Starts tracking. `functions` tell the drive's parallel units apart; the first three
    /// are used.
    #[must_use]
    pub fn new(functions: &[UnitFunction]) -> Self {
        let functions: Box<[_]> = functions.iter().take(MAX_FUNCTIONS).cloned().collect();
        let mut first = [0; MAX_FUNCTIONS];
        let mut all = 0;
        for (function, first) in functions.iter().zip(&mut first) {
            *first = all;
            all += function.units() as usize;
        }
        Self {
            least_shift: units::least_shift(&functions),
            functions,
            units: vec![Unit::default(); all].into(),
            first,
            state: DriveState::default(),
            reads: InFlight::default(),
            others: InFlight::default(),
        }
    }

    /// The functions that tell units apart.
    #[must_use]
    pub fn functions(&self) -> &[UnitFunction] {
        &self.functions
    }

    /// The state of the drive as a whole.
    #[must_use]
    pub const fn state(&self) -> &DriveState {
        &self.state
    }

    /// The units of one function, by its index.
    #[must_use]
    pub fn units(&self, function: usize) -> &[Unit] {
        let first = self.first[function];
        &self.units[first..first + self.functions[function].units() as usize]
    }

    /// The features of a request that would be sent now, in the order of
    /// [`FEATURE_NAMES`](crate::FEATURE_NAMES).
    #[must_use]
    #[expect(clippy::inline_always, reason = "as DriveState::features, which see")]
    #[inline(always)]
    pub fn features(&self, now: Nanos, request: &Request) -> [i32; FEATURES] {
        // All units are located before any is read, so that cache misses overlap.
        let mut units = [&self.state.whole; MAX_FUNCTIONS];
        for ((unit, function), first) in units.iter_mut().zip(&self.functions).zip(&self.first) {
            *unit = &self.units[first + usize::from(function.unit(request.offset))];
        }
        if self.is_spread(request) {
            self.find_busiest(request, &mut units);
        }
        self.state.features(now, request, units.into_iter().take(self.functions.len()))
    }

    /// Whether a request has several pieces by any function.
    const fn is_spread(&self, request: &Request) -> bool {
        units::is_spread(request.offset, request.length, self.least_shift)
    }

    /// Of the units that a request's pieces lie in, the busiest by each function: a request
    /// completes when its last piece does.
    #[cold]
    fn find_busiest<'a>(&'a self, request: &Request, busiest: &mut [&'a Unit; MAX_FUNCTIONS]) {
        for (i, (unit, function)) in busiest.iter_mut().zip(&self.functions).enumerate() {
            let pieces = function.pieces(request.offset, request.length);
            let units = pieces.map(|unit| &self.units[self.first[i] + usize::from(unit)]);
            *unit = Unit::busiest(units).expect("every request has a piece");
        }
    }

    fn span_of(&self, request: &Request) -> Span {
        let &Request { offset, length, .. } = request;
        let mut units = [0; MAX_FUNCTIONS];
        for (unit, function) in units.iter_mut().zip(&self.functions) {
            *unit = function.unit(offset);
        }
        Span { offset, length, units, is_spread: self.is_spread(request) }
    }

    /// Updates the drive as one unit, and the unit of each piece of a request.
    fn each_unit(&mut self, span: &Span, mut f: impl FnMut(&mut Unit)) {
        f(&mut self.state.whole);
        for (i, function) in self.functions.iter().enumerate() {
            let first = self.first[i];
            if !span.is_spread {
                f(&mut self.units[first + usize::from(span.units[i])]);
                continue;
            }
            for unit in function.pieces(span.offset, span.length) {
                f(&mut self.units[first + usize::from(unit)]);
            }
        }
    }

    /// A request is sent to the drive at `now`.
    pub fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        let state = &mut self.state;
        if now.since(state.last_sent) > REST {
            state.rest = Rest { ended: now, written: state.written };
        }
        state.last_sent = now;
        let pages = pages_of(request);
        let queue_then = state.requests;
        state.requests += 1;
        state.pages = state.pages.saturating_add(pages);
        let pages_then = state.pages;
        let span = self.span_of(request);
        let pending = Pending::new(now, request, pages_then, queue_then, span);
        let ticket = match request.op {
            Op::Read => self.reads.add(pending),
            _ => Ticket(self.others.add(pending).0 | OTHER),
        };
        match request.op {
            Op::Read => {
                self.state.read_bytes += request.length;
                self.each_unit(&span, |unit| unit.read_sent(now, pages));
            }
            Op::Write => {
                self.state.write_bytes += request.length;
                let written = self.state.written;
                self.each_unit(&span, |unit| unit.write_sent(pages, written));
                self.write_counts(now, request.length);
            }
            Op::Discard | Op::Flush => {}
        }
        self.note_oldest();
        ticket
    }

    fn write_counts(&mut self, now: Nanos, bytes: u64) {
        self.state.written += bytes;
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX);
        for (window, shift) in self.state.bytes_written.iter_mut().zip(WINDOWS) {
            window.add(shift, now, kib);
        }
    }

    /// A request in flight has grown: the kernel has merged others into it since it was
    /// sent. It stays in the units that it was sent to.
    pub fn grown(&mut self, now: Nanos, ticket: Ticket, request: &Request) {
        let is_read = ticket.0 & OTHER == 0;
        let list = if is_read { &mut self.reads } else { &mut self.others };
        let pending = list.get_mut(Ticket(ticket.0 & !OTHER));
        let bytes = request.length.saturating_sub(pending.bytes);
        let pages = pages_of(request).saturating_sub(pending.pages);
        pending.bytes += bytes;
        pending.pages += pages;
        pending.pages_then = pending.pages_then.saturating_add(pages);
        let (op, span) = (pending.op, pending.span);
        self.state.pages = self.state.pages.saturating_add(pages);
        match op {
            Op::Read => {
                self.state.read_bytes += bytes;
                self.each_unit(&span, |unit| {
                    unit.read_pages = unit.read_pages.saturating_add(pages)
                });
            }
            Op::Write => {
                self.state.write_bytes += bytes;
                self.each_unit(&span, |unit| {
                    unit.write_pages = unit.write_pages.saturating_add(pages)
                });
                self.write_counts(now, bytes);
            }
            Op::Discard | Op::Flush => {}
        }
    }

    /// A request completed at `now`; `data` as in
    /// [`Predictor::completed`](crate::Predictor::completed).
    pub fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        let pending = if ticket.0 & OTHER == 0 {
            self.reads.remove(ticket)
        } else {
            self.others.remove(Ticket(ticket.0 & !OTHER))
        };
        self.state.requests -= 1;
        self.state.pages = self.state.pages.saturating_sub(pending.pages);
        match pending.op {
            Op::Read => self.read_completed(now, &pending, data),
            Op::Write => self.write_completed(now, &pending, data),
            Op::Discard | Op::Flush => {}
        }
        self.note_oldest();
    }

    fn note_oldest(&mut self) {
        let sent = |list: &InFlight| list.oldest().map_or(Nanos::ZERO, |pending| pending.sent);
        self.state.oldest_read = sent(&self.reads);
        self.state.oldest_other = sent(&self.others);
    }

    fn write_completed(&mut self, now: Nanos, pending: &Pending, data: bool) {
        self.state.write_bytes -= pending.bytes;
        self.each_unit(&pending.span, |unit| unit.write_done(pending.pages));
        if data {
            self.state.last_write_done = now;
            self.state.last_write_latency = now.since(pending.sent);
            self.remember(now, pending);
        }
    }

    fn read_completed(&mut self, now: Nanos, pending: &Pending, data: bool) {
        let state = &mut self.state;
        state.read_bytes -= pending.bytes;
        let quiet = now.since(state.whole.last_done.max(pending.sent));
        if quiet > STALL && state.whole.reads >= STALLED_READS {
            state.stall = Stall { ended: now, length: quiet, written: state.written };
        }
        self.each_unit(&pending.span, |unit| {
            unit.read_done(now, pending.sent, pending.pages, data);
        });
        if !data {
            return;
        }
        self.remember(now, pending);
        let state = &mut self.state;
        let latency = now.since(pending.sent);
        state.latencies.copy_within(..HISTORY - 1, 1);
        state.latencies[0] = latency;
        let ticks = ticks(latency) as u32;
        for (i, shift) in WINDOWS.into_iter().enumerate() {
            state.reads_completed[i].add(shift, now, 1);
            state.read_latencies[i].add(shift, now, ticks);
        }
    }

    fn remember(&mut self, now: Nanos, pending: &Pending) {
        let history = &mut self.state.history;
        history.copy_within(..HISTORY - 1, 1);
        history[0] = pending.completed(now);
    }
}
