//! A drive's completions under its faults.

use std::collections::BTreeMap;
use std::ops::Range;

use trimtab_device::{Fault, Faults, Served};
use trimtab_io::{Nanos, Op, Outcome, Request, RequestId};

use crate::server::Server;
use crate::source::NEVER;

/// The faults of a drive, and the completions that they hold back.
///
/// The drive's model knows nothing of them: it completes a request at its usual time, and the
/// completion is passed on when the faults allow. So a fault leaves the flash as it was, and a
/// slow drive keeps its slots occupied for as long as its latencies last.
#[derive(Clone, Debug)]
pub(super) struct Faulty {
    faults: Faults,
    /// The requests that the model has: as many as the drive has slots at most.
    serving: Vec<(RequestId, Op, Range<u64>)>,
    /// By time, and at one instant in the order of the model's completions.
    held: BTreeMap<(Nanos, u64), Held>,
    completed: u64,
}

/// A completion that is passed on later.
#[derive(Clone, Debug)]
struct Held {
    request: RequestId,
    arrival: Nanos,
    op: Op,
    range: Range<u64>,
    outcome: Outcome,
}

impl Faulty {
    /// These faults, whose times count from `now`.
    pub(super) fn new(schedule: &[Fault], seed: u64, now: Nanos) -> Self {
        let mut faults = Faults::new(seed);
        schedule.iter().for_each(|fault| faults.add(fault, now));
        Self { faults, serving: Vec::new(), held: BTreeMap::new(), completed: 0 }
    }

    /// The time of the next completion that is held; [`NEVER`] if there is none.
    pub(super) fn next(&self) -> Nanos {
        self.held.first_key_value().map_or(NEVER, |((at, _), _)| *at)
    }

    /// Completions that are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// A request goes to the model.
    pub(super) fn submitted(&mut self, request: &Request) {
        self.serving.push((request.id, request.op, request.offset..request.end()));
    }

    /// A request was taken back from the model.
    pub(super) fn taken_back(&mut self, request: RequestId) {
        self.serving.retain(|(other, ..)| *other != request);
    }

    /// Takes the model's completions.
    pub(super) fn hold(&mut self, server: &mut impl Server) {
        let Self { faults, serving, held, completed } = self;
        server.drain(|Served { completion: done, .. }| {
            let place = serving.iter().position(|(request, ..)| *request == done.request);
            let (request, op, range) = serving.swap_remove(place.expect("it was submitted"));
            *completed += 1;
            let at = faults.answer_at(done.issue, done.complete);
            let one = Held { request, arrival: done.issue, op, range, outcome: done.outcome };
            held.insert((at, *completed), one);
        });
    }

    /// Passes on what is due by `now`.
    pub(super) fn release(&mut self, now: Nanos, mut take: impl FnMut(RequestId, Outcome)) {
        while let Some(entry) = self.held.first_entry()
            && entry.key().0 <= now
        {
            let ((at, _), held) = entry.remove_entry();
            let fails = self.faults.fails(held.op, held.range, held.arrival, at);
            take(held.request, if fails { Outcome::Error } else { held.outcome });
        }
    }
}
