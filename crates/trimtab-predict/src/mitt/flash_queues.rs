//! What the dies and channels of host-managed flash have to do, and when a read's pages are done.

use std::collections::VecDeque;

use trimtab_io::{FlashOp, Nanos};

use super::flash_model::OpTimes;

mod future;

pub(super) use future::{Page, Pages};

/// Dies of a channel whose transfers are followed. Those beyond do not delay others.
const FOLLOWED_DIES: usize = 64;

/// The kinds of operations that dies do in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Program,
    Clean,
}

impl Kind {
    pub(super) const fn of(op: &FlashOp) -> Self {
        match op {
            FlashOp::Read { .. } => Self::Read,
            FlashOp::Program { .. } => Self::Program,
            FlashOp::Clean(_) => Self::Clean,
        }
    }
}

/// An operation in a die's queue.
#[derive(Clone, Copy, Debug)]
struct Queued {
    kind: Kind,
    /// The drive has it from then on.
    from: Nanos,
    times: OpTimes,
}

/// What a die works on.
#[derive(Clone, Copy, Debug)]
struct Current {
    kind: Kind,
    begun: Nanos,
    /// When its data wants the channel, and for how long.
    ready: Nanos,
    transfer: Nanos,
    /// The die's time after that.
    after: Nanos,
    /// The end of the transfer, if nothing else comes, and whether that has begun or is over.
    moved: Nanos,
    is_moving: bool,
}

#[derive(Clone, Debug, Default)]
struct Die {
    /// Without feedback: when it is free.
    free: Nanos,
    current: Option<Current>,
    /// In the order in which they are served: reads that pass all else, and the others.
    queues: [VecDeque<Queued>; 2],
    /// Their time on a free channel.
    queued: [Nanos; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Channel {
    /// When the last transfer that has begun ends.
    free: Nanos,
    /// When all that dies have begun is moved.
    planned: Nanos,
    /// Dies with an operation in service, and dies with queued ones, as bits.
    busy: u64,
    queued: u64,
}

/// All dies and channels of a drive.
///
/// It follows each operation that the host knows of: those that are queued, and those that have
/// begun. Where a read's pages will be done is computed by serving all of that in the drive's
/// order: a die does one operation at a time, and a channel moves data in the order in which they
/// are ready. So it is exact as long as nothing else comes.
#[derive(Clone, Debug)]
pub(super) struct FlashQueues {
    dies: Box<[Die]>,
    channels: Box<[Channel]>,
    dies_per_channel: u32,
    reads_first: bool,
    /// Whether channels have only one transfer at a time.
    contended: bool,
}

impl FlashQueues {
    pub(super) fn new(
        dies: u32,
        dies_per_channel: u32,
        reads_first: bool,
        contended: bool,
    ) -> Self {
        let channels = dies.div_ceil(dies_per_channel) as usize;
        Self {
            dies: vec![Die::default(); dies as usize].into(),
            channels: vec![Channel::default(); channels].into(),
            dies_per_channel,
            reads_first,
            contended,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.dies.len()
    }

    const fn bit(&self, die: u32) -> u64 {
        let place = die % self.dies_per_channel;
        if (place as usize) < FOLLOWED_DIES { 1 << place } else { 0 }
    }

    const fn queue_of(&self, kind: Kind) -> usize {
        if self.reads_first && matches!(kind, Kind::Read) { 0 } else { 1 }
    }

    /// An operation enters a die's queue, or is on its way there until `from`.
    pub(super) fn queue(&mut self, from: Nanos, number: u32, kind: Kind, times: OpTimes) {
        let (queue, bit) = (self.queue_of(kind), self.bit(number));
        let die = &mut self.dies[number as usize];
        die.free = die.free.max(from) + times.alone();
        die.queued[queue] += times.alone();
        die.queues[queue].push_back(Queued { kind, from, times });
        self.channels[(number / self.dies_per_channel) as usize].queued |= bit;
    }

    /// A die begins with an operation, or a cleaning with its next step.
    pub(super) fn begin(&mut self, at: Nanos, number: u32, kind: Kind, times: OpTimes) {
        let (queue, bit) = (self.queue_of(kind), self.bit(number));
        let die = &mut self.dies[number as usize];
        let is_step =
            kind == Kind::Clean && die.current.is_some_and(|current| current.kind == Kind::Clean);
        if !is_step
            && let Some(place) = die.queues[queue].iter().position(|queued| queued.kind == kind)
            && let Some(queued) = die.queues[queue].remove(place)
        {
            die.queued[queue] = die.queued[queue] - queued.times.alone();
        }
        let OpTimes { before, transfer, after } = times;
        let ready = at + before;
        let is_moving = transfer == Nanos::ZERO;
        let next = Current { kind, begun: at, ready, transfer, after, moved: ready, is_moving };
        let is_empty = die.queues.iter().all(VecDeque::is_empty);
        match &mut die.current {
            // Several planes that begin together work together, and share the channel's turn.
            Some(current) if current.begun == at && current.kind == kind && !is_step => {
                current.ready = current.ready.max(ready);
                current.transfer += transfer;
                current.after = current.after.max(after);
            }
            current => *current = Some(next),
        }
        let channel = &mut self.channels[(number / self.dies_per_channel) as usize];
        channel.busy |= bit;
        if is_empty {
            channel.queued &= !bit;
        }
        self.plan(number / self.dies_per_channel, at);
    }

    /// A die has finished. `idle`: nothing is queued on it.
    pub(super) fn end(&mut self, at: Nanos, number: u32, idle: bool) {
        let bit = self.bit(number);
        self.plan(number / self.dies_per_channel, at);
        let die = &mut self.dies[number as usize];
        let channel = &mut self.channels[(number / self.dies_per_channel) as usize];
        if let Some(current) = die.current.take()
            && current.kind == Kind::Read
            && (!current.is_moving || current.moved == channel.free)
        {
            // The end of its transfer is known now.
            channel.free = at;
        }
        channel.busy &= !bit;
        if idle {
            // What was counted and never came, because data has moved meanwhile.
            die.queues.iter_mut().for_each(VecDeque::clear);
            die.queued = [Nanos::ZERO; 2];
        }
        if die.queues.iter().all(VecDeque::is_empty) {
            channel.queued &= !bit;
        }
        self.plan(number / self.dies_per_channel, at);
    }

    /// Plans the transfers of what a channel's dies work on: first come, first served.
    fn plan(&mut self, number: u32, now: Nanos) {
        let first = number * self.dies_per_channel;
        let channel = &mut self.channels[number as usize];
        let dies = &mut self.dies[first as usize..];
        let (mut free, mut done) = (channel.free, 0_u64);
        loop {
            let waiting = Bits(channel.busy & !done).filter_map(|place| {
                let current = dies[place as usize].current.as_ref()?;
                (!current.is_moving).then_some((current.ready, place))
            });
            let Some((ready, place)) = waiting.min() else { break };
            done |= 1 << place;
            let start = if self.contended { free.max(ready) } else { ready };
            if let Some(current) = &mut dies[place as usize].current {
                free = start + current.transfer;
                current.moved = free;
                if start <= now {
                    current.is_moving = true;
                    channel.free = free;
                }
            }
        }
        channel.planned = free;
    }

    /// When a die has done all that it has, the channels' queues not counted; never before `now`.
    pub(super) fn next_free(&self, now: Nanos, number: u32) -> Nanos {
        let die = &self.dies[number as usize];
        let current =
            die.current.as_ref().map_or(now, |current| (current.moved + current.after).max(now));
        current + self.queued_before_read(die)
    }

    /// Without feedback.
    pub(super) fn summed_free(&self, number: u32) -> Nanos {
        self.dies[number as usize].free
    }

    /// When a die's channel has moved all that its dies have begun.
    pub(super) fn channel_free(&self, die: u32) -> Nanos {
        self.channels[(die / self.dies_per_channel) as usize].planned
    }

    fn queued_before_read(&self, die: &Die) -> Nanos {
        if self.reads_first { die.queued[0] } else { die.queued[1] }
    }

    /// Predicted time of what is queued on all dies.
    #[cfg(test)]
    pub(super) fn queued(&self) -> Nanos {
        let all = self.dies.iter().flat_map(|die| die.queued);
        all.fold(Nanos::ZERO, |sum, time| sum + time)
    }
}

/// The places of the bits of a number.
#[derive(Clone, Copy, Debug)]
struct Bits(u64);

impl Iterator for Bits {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let place = (self.0 != 0).then(|| self.0.trailing_zeros())?;
        self.0 &= self.0 - 1;
        Some(place)
    }
}
