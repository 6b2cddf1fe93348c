//! What our predictor knows of a drive: [`Watch`], and the numbers it is made of.
//!
//! Everything is updated in constant time when a request is sent or answered, in
//! integers, and read in constant time for a decision. A request that is not a
//! read or write is in flight like any other but counts nowhere.

mod features;
mod unit;

use trimtab_io::{Nanos, Op, Request};

use crate::in_flight::{InFlight, Pending, UNITS};
use crate::predictor::Ticket;
use crate::units::UnitFunction;
use crate::window::Window;
use unit::Unit;

pub use features::{FEATURE_NAMES, FEATURES};

/// Lengths of the windows, as powers of two in nanoseconds: 1.05 ms and 34 ms.
const WINDOWS: [u32; 2] = [20, 25];

/// No read answered for so long, though three or more were in flight, is a stall.
const STALL: Nanos = Nanos::from_micros(300);
const STALLED_READS: u32 = 3;
/// Nothing sent for so long is a rest.
const REST: Nanos = Nanos::from_millis(5);

/// A drive, watched from outside.
#[derive(Clone, Debug)]
pub struct Watch {
    functions: Box<[UnitFunction]>,
    /// The units of each function, one function after the other.
    units: Box<[Unit]>,
    /// Where each function's units begin.
    first: [usize; UNITS],
    /// The drive as one unit.
    whole: Unit,
    reads: InFlight,
    others: InFlight,
    /// Bytes written so far.
    written: u64,
    last_write_done: Nanos,
    last_write_latency: Nanos,
    last_sent: Nanos,
    stall: Stall,
    rest: Rest,
    /// The latencies of the reads that were answered last, the latest first.
    latencies: [Nanos; 4],
    bytes_written: [Window; WINDOWS.len()],
    reads_answered: [Window; WINDOWS.len()],
    read_latencies: [Window; WINDOWS.len()],
}

/// The last time that reads did not come back.
#[derive(Clone, Copy, Debug, Default)]
struct Stall {
    ended: Nanos,
    length: Nanos,
    /// What had been written when it ended.
    written: u64,
}

/// The last time that nothing was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    ended: Nanos,
    written: u64,
}

/// The mark of a ticket for something that is no read.
const OTHER: u32 = 1 << 31;

impl Watch {
    /// A drive of which nothing is known but its parallel units: at most
    /// three functions, the others are left out.
    #[must_use]
    pub fn new(functions: &[UnitFunction]) -> Self {
        let functions: Box<[_]> = functions.iter().take(UNITS).cloned().collect();
        let mut first = [0; UNITS];
        let mut all = 0;
        for (function, first) in functions.iter().zip(&mut first) {
            *first = all;
            all += function.units() as usize;
        }
        Self {
            functions,
            units: vec![Unit::default(); all].into(),
            first,
            whole: Unit::default(),
            reads: InFlight::default(),
            others: InFlight::default(),
            written: 0,
            last_write_done: Nanos::ZERO,
            last_write_latency: Nanos::ZERO,
            last_sent: Nanos::ZERO,
            stall: Stall::default(),
            rest: Rest::default(),
            latencies: [Nanos::ZERO; 4],
            bytes_written: WINDOWS.map(Window::new),
            reads_answered: WINDOWS.map(Window::new),
            read_latencies: WINDOWS.map(Window::new),
        }
    }

    /// The functions by which it tells units apart.
    #[must_use]
    pub fn functions(&self) -> &[UnitFunction] {
        &self.functions
    }

    fn units_of(&self, offset: u64) -> [u16; UNITS] {
        let mut units = [0; UNITS];
        for (unit, function) in units.iter_mut().zip(&self.functions) {
            *unit = function.unit(offset);
        }
        units
    }

    /// Does something with the drive and with each unit that a request is in.
    fn each_unit(&mut self, units: [u16; UNITS], mut f: impl FnMut(&mut Unit)) {
        f(&mut self.whole);
        for (i, unit) in units.into_iter().enumerate().take(self.functions.len()) {
            f(&mut self.units[self.first[i] + usize::from(unit)]);
        }
    }

    /// A request is sent to the drive.
    pub fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        if now.since(self.last_sent) > REST {
            self.rest = Rest { ended: now, written: self.written };
        }
        self.last_sent = now;
        let units = self.units_of(request.offset);
        let ticket = match request.op {
            Op::Read => self.reads.add(now, request, units),
            _ => Ticket(self.others.add(now, request, units).0 | OTHER),
        };
        let pages = crate::in_flight::pages_of(request);
        match request.op {
            Op::Read => self.each_unit(units, |unit| unit.read_sent(now, pages)),
            Op::Write => {
                let written = self.written;
                self.each_unit(units, |unit| unit.write_sent(pages, written));
                self.written += request.length;
                let kib = u32::try_from(request.length >> 10).unwrap_or(u32::MAX);
                self.bytes_written.iter_mut().for_each(|window| window.add(now, kib));
            }
            Op::Discard | Op::Flush => {}
        }
        ticket
    }

    /// The drive has answered; `data` as in
    /// [`Predictor::completed`](crate::Predictor::completed).
    pub fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        if ticket.0 & OTHER == 0 {
            let pending = self.reads.remove(ticket);
            self.read_completed(now, &pending, data);
            return;
        }
        let pending = self.others.remove(Ticket(ticket.0 & !OTHER));
        if pending.op == Op::Write {
            self.each_unit(pending.units, |unit| unit.write_done(pending.pages));
            if data {
                self.last_write_done = now;
                self.last_write_latency = now.since(pending.sent);
            }
        }
    }

    fn read_completed(&mut self, now: Nanos, pending: &Pending, data: bool) {
        let quiet = now.since(self.whole.last_done.max(pending.sent));
        if quiet > STALL && self.whole.reads >= STALLED_READS {
            self.stall = Stall { ended: now, length: quiet, written: self.written };
        }
        self.each_unit(pending.units, |unit| {
            unit.read_done(now, pending.sent, pending.pages, data);
        });
        if !data {
            return;
        }
        let latency = now.since(pending.sent);
        self.latencies.copy_within(..3, 1);
        self.latencies[0] = latency;
        let ticks = features::ticks(latency) as u32;
        for (answered, latencies) in self.reads_answered.iter_mut().zip(&mut self.read_latencies) {
            answered.add(now, 1);
            latencies.add(now, ticks);
        }
    }
}
