//! The future of one channel, as far as it is known.

use trimtab_io::Nanos;

use super::{Bits, Channel, Current, FOLLOWED_DIES, FlashQueues, Kind, Queued};
use crate::mitt::flash_model::OpTimes;

/// Transfers that are followed for one channel of one read. Behind longer queues the rest is taken
/// to be as slow as these were.
const MOST_TRANSFERS: u32 = 4096;

/// A page of a read.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::mitt) struct Page {
    pub(in crate::mitt) die: u32,
    /// On the channel.
    pub(in crate::mitt) transfer: Nanos,
    /// When its data is ready for the channel, once that is known.
    ready: Nanos,
    state: State,
}

/// How far a page is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    New,
    /// Its channel is being computed.
    Waiting,
    Ready,
    Done,
}

impl Page {
    pub(in crate::mitt) const fn new(die: u32, transfer: Nanos) -> Self {
        Self { die, transfer, ready: Nanos::ZERO, state: State::New }
    }
}

/// A read: when it is decided on, when the drive has it, how long dies take for a page, and the
/// pages.
pub(in crate::mitt) struct Pages<'a> {
    pub(in crate::mitt) now: Nanos,
    pub(in crate::mitt) start: Nanos,
    pub(in crate::mitt) read: Nanos,
    pub(in crate::mitt) pages: &'a mut [Page],
}

/// A die while the future of its channel is followed.
#[derive(Clone, Copy, Debug)]
struct Lane {
    die: u32,
    /// Its next transfer: when its data is ready, how long it takes, the die's time after it, and
    /// whether it is of the read. [`Nanos::MAX`]: there is none.
    ready: Nanos,
    transfer: Nanos,
    after: Nanos,
    is_own: bool,
    /// Operations of its queues that it has begun, and pages of the read that were considered.
    begun: [usize; 2],
    considered: usize,
    /// The die's time for what it has begun, on a free channel.
    alone: Nanos,
}

const NO_LANE: Lane = Lane {
    die: 0,
    ready: Nanos::MAX,
    transfer: Nanos::ZERO,
    after: Nanos::ZERO,
    is_own: false,
    begun: [0; 2],
    considered: 0,
    alone: Nanos::ZERO,
};

impl FlashQueues {
    /// When the last of a read's pages is moved, if nothing else comes.
    #[inline]
    pub(in crate::mitt) fn done(&self, read: &mut Pages<'_>) -> Nanos {
        let mut end = read.start;
        for number in 0..read.pages.len() {
            if read.pages[number].state == State::New {
                let channel = read.pages[number].die / self.dies_per_channel;
                end = end.max(self.done_on(channel, number, read));
            }
        }
        end
    }

    /// The same of the pages on a channel, the first of which has this number.
    #[inline]
    fn done_on(&self, channel: u32, number: usize, read: &mut Pages<'_>) -> Nanos {
        let first = channel * self.dies_per_channel;
        let Pages { now, start, read: read_time, .. } = *read;
        let (mut own, mut left, mut beyond) = (0, 0, start);
        for page in &mut read.pages[number..] {
            let Some(place) = page.die.checked_sub(first) else { continue };
            if place >= self.dies_per_channel {
                continue;
            }
            let bit = self.bit(page.die);
            if bit == 0 {
                page.state = State::Done;
                let begun = self.next_free(now, page.die).max(beyond);
                beyond = begun + read_time + page.transfer;
            } else if own & bit != 0 {
                page.state = State::Waiting;
            } else {
                // The first page of a die is read when the die is free, if nothing is queued.
                let current = self.dies[page.die as usize].current.as_ref();
                let free = current.map_or(now, |current| current.moved + current.after);
                (page.ready, page.state) = (free.max(now).max(start) + read_time, State::Ready);
            }
            own |= bit;
            left += u32::from(bit != 0);
        }
        let Channel { planned, queued, busy, .. } = self.channels[channel as usize];
        if queued != 0 {
            let lanes = queued | busy | own;
            let end = if lanes.count_ones() <= 8 {
                self.follow::<8>(first, lanes, read, left)
            } else {
                self.follow::<FOLLOWED_DIES>(first, lanes, read, left)
            };
            let computed = read.pages.iter_mut().filter(|page| page.state != State::New);
            computed.for_each(|page| page.state = State::Done);
            return end.max(beyond);
        }
        // What has begun is ready before any page that is read from now on, so it comes first.
        let mut free = if self.contended { planned } else { Nanos::ZERO };
        let mut end = beyond;
        for _ in 0..left {
            let ready = read.pages[number..].iter_mut().filter(|page| page.state == State::Ready);
            let Some(page) = ready.min_by_key(|page| (page.ready, page.die)) else { break };
            let moved = page.ready.max(free) + page.transfer;
            page.state = State::Done;
            end = end.max(moved);
            if self.contended {
                free = moved;
            }
            if own.count_ones() < left {
                let die = page.die;
                let waits = |page: &&mut Page| page.die == die && page.state == State::Waiting;
                if let Some(next) = read.pages[number..].iter_mut().find(waits) {
                    (next.ready, next.state) = (moved + read_time, State::Ready);
                }
            }
        }
        end
    }

    /// The same by serving the channel's dies, at most `LANES`, until the read has its pages.
    fn follow<const LANES: usize>(
        &self,
        first: u32,
        active: u64,
        read: &Pages<'_>,
        mut left: u32,
    ) -> Nanos {
        let mut lanes = [NO_LANE; LANES];
        let mut count = 0;
        for (lane, place) in lanes.iter_mut().zip(Bits(active)) {
            lane.die = first + place;
            self.first_transfer(lane, read);
            count += 1;
        }
        let lanes = &mut lanes[..count];
        let mut free = self.channels[(first / self.dies_per_channel) as usize].free;
        let mut end = read.start;
        for _ in 0..MOST_TRANSFERS {
            let Some(lane) = lanes.iter_mut().min_by_key(|lane| lane.ready) else { return end };
            if left == 0 || lane.ready == Nanos::MAX {
                return end;
            }
            let begun = if self.contended { free.max(lane.ready) } else { lane.ready };
            free = begun + lane.transfer;
            if lane.is_own {
                end = end.max(free);
                left -= 1;
            }
            let idle_from = (free + lane.after).max(read.now);
            self.next_transfer(lane, idle_from, read);
        }
        let rest = lanes.iter_mut().filter(|lane| lane.ready != Nanos::MAX);
        rest.fold(end, |end, lane| end.max(self.rest(lane, free, read)))
    }

    /// When a die has delivered its pages of the read, if it goes on at the speed that it had up to
    /// `now`; zero, if it has none.
    fn rest(&self, lane: &mut Lane, now: Nanos, read: &Pages<'_>) -> Nanos {
        let (elapsed, before) = (now.since(read.now), lane.alone.max(Nanos(1)));
        let mut last = if lane.is_own { lane.alone } else { Nanos::ZERO };
        while let Some((Queued { times, .. }, is_own)) = self.next_of(lane, read) {
            lane.alone += times.alone();
            if is_own {
                last = lane.alone;
            }
        }
        let slowed =
            u128::from(elapsed.0.max(before.0)) * u128::from(last.0) / u128::from(before.0);
        if last == Nanos::ZERO { Nanos::ZERO } else { read.now + Nanos(slowed as u64) }
    }

    /// The transfer that a die does next: of what it works on, or of what follows.
    fn first_transfer(&self, lane: &mut Lane, read: &Pages<'_>) {
        match self.dies[lane.die as usize].current {
            Some(Current { ready, transfer, after, is_moving: false, .. }) => {
                (lane.ready, lane.transfer, lane.after) = (ready, transfer, after);
                lane.alone = ready.since(read.now) + transfer + after;
            }
            Some(Current { after, moved, .. }) => {
                let idle_from = (moved + after).max(read.now);
                lane.alone = idle_from.since(read.now);
                self.next_transfer(lane, idle_from, read);
            }
            None => self.next_transfer(lane, read.now, read),
        }
    }

    /// The same of a die that begins with the next operation at `at`.
    fn next_transfer(&self, lane: &mut Lane, mut at: Nanos, read: &Pages<'_>) {
        lane.ready = Nanos::MAX;
        while let Some((Queued { from, times, .. }, is_own)) = self.next_of(lane, read) {
            let begun = at.max(from);
            lane.alone += times.alone();
            if times.transfer == Nanos::ZERO {
                at = begun + times.alone();
                continue;
            }
            lane.ready = begun + times.before;
            (lane.transfer, lane.after, lane.is_own) = (times.transfer, times.after, is_own);
            return;
        }
    }

    /// The operation that a die begins next, and whether it is of the read.
    #[inline]
    fn next_of(&self, lane: &mut Lane, read: &Pages<'_>) -> Option<(Queued, bool)> {
        let queues = &self.dies[lane.die as usize].queues;
        let of_queue = |lane: &mut Lane, queue: usize| {
            let next = queues[queue].get(lane.begun[queue])?;
            lane.begun[queue] += 1;
            Some((*next, false))
        };
        if let Some(next) = of_queue(lane, 0) {
            return Some(next);
        }
        if !self.reads_first
            && let Some(next) = of_queue(lane, 1)
        {
            return Some(next);
        }
        let is_own = |page: &Page| page.die == lane.die;
        let own = read.pages[lane.considered..].iter().position(is_own);
        if let Some(own) = own {
            let page = &read.pages[lane.considered + own];
            lane.considered += own + 1;
            let times = OpTimes { before: read.read, transfer: page.transfer, after: Nanos::ZERO };
            return Some((Queued { kind: Kind::Read, from: read.start, times }, true));
        }
        lane.considered = read.pages.len();
        of_queue(lane, 1)
    }
}
