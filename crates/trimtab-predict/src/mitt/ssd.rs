//! `mitt-ssd`: flash that the host manages (MittOS, §4.2.3).

use std::sync::Arc;

use trimtab_io::{FlashChange, FlashEvent, FlashMap, FlashOp, Nanos, Op, Request};

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
    /// Predicted time of what is queued: reads, and the rest.
    reads: Nanos,
    others: Nanos,
    /// The part of `others` that are cleanings, whose work is known when they begin.
    cleanings: Nanos,
}

/// Predicts a read's latency from the next free times of its dies and channels.
///
/// It is white-box: the host maps the data (a [`FlashMap`] says where each page of a read lies)
/// and knows the programs, erases and moves of cleaning ([`Predictor::observe`]). A die's next
/// free time is the predicted end of its current operation and the predicted time of those queued
/// behind; each operation that begins or ends corrects it. A page waits for its die, is read, and
/// then waits for transfers of the channel's other dies. A read is as late as its latest page, and
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
    /// By channel: when the transfers of the operations that have begun are over.
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
        let die = &self.dies[die as usize];
        if !self.precision.feedback {
            return die.free.max(now);
        }
        let queued = if self.model.reads_first() { die.reads } else { die.reads + die.others };
        let current = if die.busy { die.end.max(now) } else { now };
        current + queued
    }

    /// Until a read that were sent now had completed.
    #[inline]
    fn expected(&self, now: Nanos, request: &Request) -> Nanos {
        if request.op != Op::Read {
            return Nanos::ZERO;
        }
        let start = (now + self.model.firmware()).max(self.stalled_until);
        let mut followed = [(0_u32, Nanos::ZERO); FOLLOWED];
        let (mut count, mut last) = (0, start);
        each_page(&self.model, &self.map, request, |die, bytes| {
            let (read, transfer) = self.model.duration(&FlashOp::Read { bytes }, &self.precision);
            let before = &followed[..count];
            let same = before.iter().rev().find(|(other, _)| *other == die).map(|(_, end)| *end);
            let begin = same.unwrap_or_else(|| self.next_free(now, die).max(start));
            let ready = begin + read;
            let mut end = ready + transfer;
            if self.precision.channel {
                let channel = self.model.channel_of(die);
                let shares = |&&(other, _): &&(u32, Nanos)| self.model.channel_of(other) == channel;
                let own = before.iter().filter(shares).map(|(_, end)| *end).max();
                let free = self.channels[channel as usize].max(own.unwrap_or_default());
                end = ready.max(free) + transfer;
            }
            if count < FOLLOWED {
                followed[count] = (die, end);
                count += 1;
            }
            last = last.max(end);
        });
        last.since(now) + self.model.link(request.length)
    }

    fn queue(&mut self, at: Nanos, die: u32, op: &FlashOp) {
        let (before, after) = self.model.duration(op, &self.precision);
        let time = before + after;
        let die = &mut self.dies[die as usize];
        die.free = die.free.max(at) + time;
        match op {
            FlashOp::Read { .. } => die.reads += time,
            FlashOp::Program { .. } => die.others += time,
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
            FlashOp::Read { .. } => die.reads = die.reads - (before + after),
            FlashOp::Program { .. } => die.others = die.others - (before + after),
            FlashOp::Clean(_) => {
                die.others = die.others - die.cleanings;
                die.cleanings = Nanos::ZERO;
            }
        }
        let mut wait = Nanos::ZERO;
        if self.precision.channel {
            let channel = &mut self.channels[self.model.channel_of(number) as usize];
            let ready = at + before;
            wait = channel.since(ready);
            *channel = ready.max(*channel) + self.model.on_channel(op);
        }
        let end = at + before + wait + after;
        // Several planes that begin together work together.
        let joined = die.busy && die.begun == at;
        die.end = if joined { die.end.max(end) } else { end };
        (die.begun, die.busy) = (at, true);
    }

    fn end(&mut self, at: Nanos, die: u32, idle: bool) {
        let die = &mut self.dies[die as usize];
        (die.end, die.busy) = (at, false);
        if idle {
            // What was counted and never came, because data has moved meanwhile.
            (die.reads, die.others, die.cleanings) = (Nanos::ZERO, Nanos::ZERO, Nanos::ZERO);
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

    fn observe(&mut self, event: &FlashEvent) {
        let FlashEvent { at, die, change } = *event;
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
