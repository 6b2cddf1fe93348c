//! `mitt-ssd`: flash that the host manages (MittOS, §4.2.3).

use std::ops::Range;
use std::sync::Arc;

use trimtab_io::{FlashChange, FlashEvent, FlashMap, FlashOp, HostEvent, Nanos, Op, Request};

use super::flash_model::{FlashModel, FlashPrecision};
use super::flash_queues::{FlashQueues, Kind, Page, Pages};
use super::limit::{Limit, Sureness};
use super::slots::Slots;
use crate::predictor::{Forecast, Predictor, Ticket};

/// Pages of one read that are followed together. Those of a larger read count in groups of so many.
const FOLLOWED: usize = 32;

/// The same of a small read.
const FEW: usize = 4;

/// Predicts a read's latency from the next free times of its dies and channels.
///
/// It is white-box: the host maps the data (a [`FlashMap`] says where each page of a read lies)
/// and knows the programs, erases and moves of cleaning ([`Predictor::observe`]). So it knows each
/// operation that is queued on a die or has begun, and serves them ahead of time: a page waits for
/// its die, is read, and waits for the channel, which moves data in the order in which they are
/// ready. Each operation that begins or ends corrects that. A read is as late as its latest page,
/// and refused whole: no part is sent.
///
/// What is queued on a die with several planes counts as if these worked one after the other, and
/// a cleaning as if it blocked its die only.
#[derive(Clone, Debug)]
pub struct MittSsd {
    model: Arc<FlashModel>,
    map: Arc<FlashMap>,
    limit: Limit,
    precision: FlashPrecision,
    sureness: Sureness,
    queues: FlashQueues,
    /// End of a stall, by estimate.
    stalled_until: Nanos,
    ios: Slots<Sent>,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Nanos,
    expected: Nanos,
    is_read: bool,
}

impl MittSsd {
    /// A predictor for an idle drive. `map` locates its data from now on.
    #[must_use]
    pub fn new(
        model: Arc<FlashModel>,
        map: Arc<FlashMap>,
        limit: Limit,
        precision: FlashPrecision,
    ) -> Self {
        let (dies, per_channel) = (model.dies(), model.dies_per_channel());
        let queues = FlashQueues::new(dies, per_channel, model.reads_first(), precision.channel);
        Self {
            model,
            map,
            limit,
            precision,
            sureness: Sureness::default(),
            queues,
            stalled_until: Nanos::ZERO,
            ios: Slots::new(),
        }
    }

    /// When a die has done all that a read sent now follows, if its channel is free; never before
    /// `now`.
    #[must_use]
    #[inline]
    pub fn next_free(&self, now: Nanos, die: u32) -> Nanos {
        match self.precision.feedback {
            true => self.queues.next_free(now, die),
            false => self.queues.summed_free(die).max(now),
        }
    }

    /// When the drive has a read that is sent now.
    #[inline]
    fn start(&self, now: Nanos) -> Nanos {
        (now + self.model.firmware()).max(self.stalled_until)
    }

    /// Until a read that were sent now had completed.
    #[inline]
    fn expected(&self, now: Nanos, request: &Request) -> Nanos {
        if request.op != Op::Read {
            return Nanos::ZERO;
        }
        let units = self.map.units_of(request.offset, request.length);
        let last = if units.end - units.start <= FEW as u64 {
            self.last_page::<FEW>(now, request)
        } else {
            self.last_page::<FOLLOWED>(now, request)
        };
        last.since(now) + self.model.link(request.length)
    }

    /// When the last page of a read is in the controller. `MOST` pages are followed together.
    #[inline]
    fn last_page<const MOST: usize>(&self, now: Nanos, request: &Request) -> Nanos {
        let start = self.start(now);
        let mut pages = [Page::default(); MOST];
        let (mut count, mut last) = (0, start);
        each_page(&self.model, &self.map, request, |die, bytes| {
            if count == MOST {
                last = last.max(self.done(now, start, &mut pages));
                count = 0;
            }
            pages[count] = Page::new(die, self.model.transfer(bytes.into()));
            count += 1;
        });
        last.max(self.done(now, start, &mut pages[..count]))
    }

    /// When all of these pages are done.
    #[inline]
    fn done(&self, now: Nanos, start: Nanos, pages: &mut [Page]) -> Nanos {
        if self.precision.feedback {
            let read = self.model.read_time();
            return self.queues.done(&mut Pages { now, start, read, pages });
        }
        pages.iter().fold(start, |end, page| end.max(self.summed(now, start, page)))
    }

    /// The end of one page by sums of predicted times alone.
    fn summed(&self, now: Nanos, start: Nanos, page: &Page) -> Nanos {
        let ready = self.next_free(now, page.die).max(start) + self.model.read_time();
        let free = if self.precision.channel { self.queues.channel_free(page.die) } else { ready };
        ready.max(free) + page.transfer
    }

    fn queue(&mut self, from: Nanos, die: u32, op: &FlashOp) {
        let times = self.model.times(op, &self.precision);
        self.queues.queue(from, die, Kind::of(op), times);
    }

    /// Predicted time of what is queued on all dies.
    #[cfg(test)]
    pub(super) fn queued(&self) -> Nanos {
        self.queues.queued()
    }
}

/// The pages of a request that are in flash: die, and bytes to be moved.
#[inline]
fn each_page(
    model: &FlashModel,
    map: &FlashMap,
    request: &Request,
    mut each: impl FnMut(u32, u32),
) {
    // The page so far: its units on the drive, its die, and how many of them are read.
    let mut open: Option<(Range<u32>, u32, u32)> = None;
    let bytes = |units: u32| units * model.unit_bytes() as u32;
    for user in map.units_of(request.offset, request.length) {
        let found = map.locate(user);
        if let (Some((page, _, units)), Some(unit)) = (&mut open, found)
            && page.contains(&unit)
        {
            *units += 1;
            continue;
        }
        if let Some((_, die, units)) = open {
            each(die, bytes(units));
        }
        open = found.map(|unit| (model.page_of(unit), model.die_of(unit), 1));
    }
    if let Some((_, die, units)) = open {
        each(die, bytes(units));
    }
}

impl Predictor for MittSsd {
    fn name(&self) -> &'static str {
        "mitt-ssd"
    }

    #[inline]
    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        self.sureness.forecast(self.expected(now, request), self.limit.of(now, request))
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        let expected = self.expected(now, request);
        let is_read = request.op == Op::Read;
        if is_read {
            let (model, map) = (Arc::clone(&self.model), Arc::clone(&self.map));
            let start = self.start(now);
            each_page(&model, &map, request, |die, bytes| {
                self.queue(start, die, &FlashOp::Read { bytes });
            });
        }
        self.ios.add(Sent { at: now, expected, is_read })
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        let Some(sent) = self.ios.remove(ticket) else { return };
        if data && sent.is_read {
            self.sureness.learn(sent.expected, now.since(sent.at));
        }
    }

    fn observe(&mut self, event: &HostEvent) {
        let HostEvent::Flash(FlashEvent { at, die, change }) = *event else { return };
        match change {
            _ if die as usize >= self.queues.len() => {}
            FlashChange::Queued(op) => self.queue(at, die, &op),
            FlashChange::Begun(op) => {
                let times = self.model.times(&op, &self.precision);
                self.queues.begin(at, die, Kind::of(&op), times);
            }
            FlashChange::Ended { idle } => self.queues.end(at, die, idle),
            FlashChange::Stalled { left } => self.stalled_until = at + left,
            FlashChange::Admitted => self.stalled_until = Nanos::ZERO,
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}
