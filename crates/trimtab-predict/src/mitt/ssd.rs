//! `mitt-ssd`: flash that the host manages (MittOS, §4.2.3).

use std::sync::Arc;

use trimtab_io::{FlashChange, FlashEvent, FlashMap, FlashOp, HostEvent, Nanos, Op, Request};

use super::flash_model::{FlashModel, FlashPrecision};
use super::limit::{Limit, Sureness};
use super::slots::Slots;
use crate::predictor::{Forecast, Predictor, Ticket};

/// Pages of one read whose dies and channels are followed one by one. Those of a larger read
/// count on their own only.
const FOLLOWED: usize = 32;

/// A die's work.
#[derive(Clone, Copy, Debug, Default)]
struct Die {
    /// Without feedback: when it is free.
    free: Nanos,
    /// Predicted end of the current operation.
    end: Nanos,
    /// Start of it, and whether there is one.
    begun: Nanos,
    busy: bool,
    /// When its data is ready for the channel, and when that has moved it.
    ready: Nanos,
    moved: Nanos,
    /// Its time on a free channel, if it uses the channel once.
    alone: Option<Nanos>,
    /// Predicted time of what is queued on a free channel, and how many operations: reads, and the
    /// rest.
    reads: Nanos,
    others: Nanos,
    reads_queued: u32,
    others_queued: u32,
    /// The part of `others` that are cleanings, whose work is known when they begin.
    cleanings: Nanos,
}

/// An operation's wait for its channel counts with this weight in the average, of 1.
const LAG_WEIGHT: u64 = 8;

/// Up to this many operations queued on a die, most find the channel free, and the mean wait would
/// be wrong for most: it counts for those beyond.
const SHALLOW: u32 = 3;

/// A page of a read.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    die: u32,
    channel: u32,
    /// When its data is ready for the channel.
    ready: Nanos,
    transfer: Nanos,
}

/// Predicts a read's latency from the next free times of its dies and channels.
///
/// It is white-box: the host maps the data (a [`FlashMap`] says where each page of a read lies)
/// and knows the programs, erases and moves of cleaning ([`Predictor::observe`]). A die's next
/// free time is the predicted end of its current operation and the predicted time of those queued
/// behind; each operation that begins or ends corrects it. A page waits for its die, is read, and
/// then waits for transfers of the channel's other dies that have begun; behind a deep queue as
/// long as operations waited lately. A read is as late as its latest page, and
/// refused whole: no part is sent.
///
/// Dies with several planes count as if these worked one after the other, and a cleaning as if it
/// blocked its die only.
#[derive(Clone, Debug)]
pub struct MittSsd {
    model: Arc<FlashModel>,
    map: Arc<FlashMap>,
    limit: Limit,
    precision: FlashPrecision,
    sureness: Sureness,
    dies: Box<[Die]>,
    /// By channel: how long operations waited for it lately, on average.
    channels: Box<[Nanos]>,
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
        let dies = vec![Die::default(); model.dies() as usize].into();
        let channels = vec![Nanos::ZERO; model.channels() as usize].into();
        Self {
            model,
            map,
            limit,
            precision,
            sureness: Sureness::default(),
            dies,
            channels,
            stalled_until: Nanos::ZERO,
            ios: Slots::new(),
        }
    }

    /// When a die begins with a read that is sent now; never before `now`.
    #[must_use]
    #[inline]
    pub fn next_free(&self, now: Nanos, die: u32) -> Nanos {
        let lag = self.channels[self.model.channel_of(die) as usize];
        let die = &self.dies[die as usize];
        if !self.precision.feedback {
            return die.free.max(now);
        }
        let (queued, count) = if self.model.reads_first() {
            (die.reads, die.reads_queued)
        } else {
            (die.reads + die.others, die.reads_queued + die.others_queued)
        };
        let queued = queued + Nanos(lag.0 * u64::from(count.saturating_sub(SHALLOW)));
        let current = if die.busy { die.end.max(now) } else { now };
        current + queued
    }

    /// When the channel has moved what is ready before `ready`, or then. It is first come, first
    /// served, and each die has one transfer at most.
    #[inline]
    fn channel_free(&self, channel: u32, ready: Nanos) -> Nanos {
        let dies = self.model.dies_of(channel);
        let before = self.dies[dies].iter().filter(|die| die.ready <= ready);
        before.fold(ready, |free, die| free.max(die.moved))
    }

    /// Until a read that were sent now had completed.
    #[inline]
    fn expected(&self, now: Nanos, request: &Request) -> Nanos {
        if request.op != Op::Read {
            return Nanos::ZERO;
        }
        let start = (now + self.model.firmware()).max(self.stalled_until);
        let mut pages = [Page::default(); FOLLOWED];
        let (mut count, mut last) = (0, start);
        each_page(&self.model, &self.map, request, |die, bytes| {
            let (read, transfer) = self.model.duration(&FlashOp::Read { bytes }, &self.precision);
            let same = pages[..count].iter().rev().find(|page| page.die == die);
            let begin = match same {
                Some(page) => page.ready + page.transfer,
                None => self.next_free(now, die).max(start),
            };
            let channel = self.model.channel_of(die);
            // Who uses the channel when a busy die has done what it has is not known.
            let ahead = &self.dies[die as usize];
            let is_deep = ahead.reads_queued + ahead.others_queued > SHALLOW;
            let lag = if self.precision.channel && is_deep {
                self.channels[channel as usize]
            } else {
                Nanos::ZERO
            };
            let page = Page { die, channel, ready: begin + read + lag, transfer };
            if count < FOLLOWED {
                // By when they are ready.
                let at = pages[..count].partition_point(|other| other.ready <= page.ready);
                pages.copy_within(at..count, at + 1);
                pages[at] = page;
                count += 1;
            } else {
                last = last.max(page.ready + transfer);
            }
        });
        for number in 0..count {
            let page = pages[number];
            let mut end = page.ready;
            if self.precision.channel {
                end = self.channel_free(page.channel, page.ready);
                let own = pages[..number].iter().filter(|other| other.channel == page.channel);
                end = own.fold(end, |end, other| end.max(other.ready));
            }
            // From now on this is when its transfer is over.
            pages[number].ready = end + page.transfer;
            last = last.max(pages[number].ready);
        }
        last.since(now) + self.model.link(request.length)
    }

    fn queue(&mut self, at: Nanos, die: u32, op: &FlashOp) {
        let (before, after) = self.model.duration(op, &self.precision);
        let time = before + after;
        let die = &mut self.dies[die as usize];
        die.free = die.free.max(at) + time;
        match op {
            FlashOp::Read { .. } => {
                die.reads += time;
                die.reads_queued += 1;
            }
            FlashOp::Program { .. } => {
                die.others += time;
                die.others_queued += 1;
            }
            FlashOp::Clean(_) => {
                die.others += time;
                die.cleanings += time;
            }
        }
    }

    fn begin(&mut self, at: Nanos, number: u32, op: &FlashOp) {
        let (before, after) = self.model.duration(op, &self.precision);
        let die = &mut self.dies[number as usize];
        match op {
            FlashOp::Read { .. } => {
                die.reads = die.reads - (before + after);
                die.reads_queued = die.reads_queued.saturating_sub(1);
            }
            FlashOp::Program { .. } => {
                die.others = die.others - (before + after);
                die.others_queued = die.others_queued.saturating_sub(1);
            }
            FlashOp::Clean(_) => {
                die.others = die.others - die.cleanings;
                die.cleanings = Nanos::ZERO;
            }
        }
        let ready = at + before;
        let mut free = ready;
        if self.precision.channel {
            free = self.channel_free(self.model.channel_of(number), ready);
        }
        let end = free + after;
        let die = &mut self.dies[number as usize];
        // Several planes that begin together work together.
        let joined = die.busy && die.begun == at;
        die.end = if joined { die.end.max(end) } else { end };
        (die.begun, die.busy) = (at, true);
        (die.ready, die.moved) = (ready, free + self.model.on_channel(op));
        let once = !matches!(op, FlashOp::Clean(_));
        die.alone = once.then_some(before + after).filter(|_| !joined);
    }

    fn end(&mut self, at: Nanos, number: u32, idle: bool) {
        let die = &mut self.dies[number as usize];
        if let Some(alone) = die.alone.filter(|_| die.busy && self.precision.channel) {
            let lag = &mut self.channels[self.model.channel_of(number) as usize];
            let waited = at.since(die.begun + alone);
            *lag = Nanos((lag.0 * (LAG_WEIGHT - 1) + waited.0) / LAG_WEIGHT);
        }
        (die.end, die.busy) = (at, false);
        if idle {
            // What was counted and never came, because data has moved meanwhile.
            (die.reads, die.others, die.cleanings) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
            (die.reads_queued, die.others_queued) = (0, 0);
        }
    }

    /// Predicted time of what is queued on all dies.
    #[cfg(test)]
    pub(super) fn queued(&self) -> Nanos {
        self.dies.iter().fold(Nanos::ZERO, |sum, die| sum + die.reads + die.others)
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
    // The last page so far: its number, its die, and how many units of it.
    let mut open: Option<(u32, u32, u32)> = None;
    let bytes = |units: u32| units * model.unit_bytes() as u32;
    for user in map.units_of(request.offset, request.length) {
        let found = map.locate(user).map(|unit| (model.page_of(unit), model.die_of(unit)));
        match (&mut open, found) {
            (Some((page, _, units)), Some((next, _))) if *page == next => *units += 1,
            _ => {
                if let Some((_, die, units)) = open {
                    each(die, bytes(units));
                }
                open = found.map(|(page, die)| (page, die, 1));
            }
        }
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
            each_page(&model, &map, request, |die, bytes| {
                self.queue(now, die, &FlashOp::Read { bytes });
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
            _ if die as usize >= self.dies.len() => {}
            FlashChange::Queued(op) => self.queue(at, die, &op),
            FlashChange::Begun(op) => self.begin(at, die, &op),
            FlashChange::Ended { idle } => self.end(at, die, idle),
            FlashChange::Stalled { left } => self.stalled_until = at + left,
            FlashChange::Admitted => self.stalled_until = Nanos::ZERO,
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}
