//! Host requests: split on arrival, joined on completion.

use std::collections::VecDeque;

use rand::RngExt as _;
use rand_pcg::Pcg64;
use trimtab_io::{Completion, Flags, Nanos, Op as Verb, Outcome, Request, RequestId};

use super::ops::{Op, OpKind};
use super::{Served, Ssd, Timer};
use crate::map::Location;
use crate::profile::Profile;
use crate::slab::NONE;
use crate::stats::LatencyBreakdown;
use crate::timer_queue::NEVER;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    id: RequestId,
    verb: Verb,
    pub(super) flags: Flags,
    arrival: Nanos,
    offset: u64,
    length: u64,
    /// Parts not completed; the request itself counts as one until all are known.
    pub(super) left: u32,
    /// Pages whose siblings are being read instead, to be regenerated then.
    pub(super) regenerated: u32,
    /// Units to be written without a slot: the first, and how many.
    pub(super) next_unit: u32,
    pub(super) units_left: u32,
    /// Start of the current wait.
    pub(super) since: Nanos,
    /// Time stalled, and time waiting for the buffer.
    stalled: Nanos,
    pub(super) buffer: Nanos,
}

impl InFlight {
    pub(super) const fn verb(&self) -> Verb {
        self.verb
    }
}

/// The drive's front end, between host and flash.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// In the firmware until then.
    front: VecDeque<(Nanos, u32)>,
    /// On the link until then.
    link_in: VecDeque<(Nanos, u32)>,
    link_out: VecDeque<(Nanos, u32, LatencyBreakdown)>,
    /// In the controller's XOR until then.
    regenerating: VecDeque<(Nanos, u32, LatencyBreakdown)>,
    /// Being refused until then, with the expected wait.
    pub(super) refusing: VecDeque<(Nanos, u32, Nanos)>,
    /// Stalled, while free blocks have run out.
    stalled: VecDeque<u32>,
    lookups: Lookups,
    /// Whether a read is being given its new location.
    reading_again: bool,
}

impl Host {
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            front: VecDeque::new(),
            link_in: VecDeque::new(),
            link_out: VecDeque::new(),
            regenerating: VecDeque::new(),
            refusing: VecDeque::new(),
            stalled: VecDeque::new(),
            lookups: Lookups::new(profile),
            reading_again: false,
        }
    }
}

/// The cached part of the mapping table, where not all of it is in memory: table pages, two-way set
/// associative.
#[derive(Clone, Debug)]
struct Lookups {
    /// Pairs of page numbers + 1, most recently used first.
    pages: Vec<[u32; 2]>,
    /// User units per page of the table.
    units: u32,
}

impl Lookups {
    fn new(profile: &Profile) -> Self {
        let page = profile.geometry.page_bytes;
        let pages = (profile.ftl.mapping_cache_mb * 1e6 / f64::from(page)) as usize;
        // At most the whole table.
        let units = profile.capacity_bytes() / u64::from(profile.ftl.unit_bytes);
        let pages = pages.min((units * 4).div_ceil(page.into()) as usize + 1);
        let pairs = if profile.ftl.mapping_cache_mb > 0.0 { (pages / 2).max(1) } else { 0 };
        Self { pages: vec![[0; 2]; pairs], units: page / 4 }
    }

    /// The table page that must be read first, if it is not cached.
    fn miss(&mut self, user: u32) -> Option<u32> {
        if self.pages.is_empty() {
            return None;
        }
        let page = user / self.units;
        let at = page as usize % self.pages.len();
        let pair = &mut self.pages[at];
        let [first, second] = *pair;
        if first == page + 1 {
            return None;
        }
        *pair = [page + 1, first];
        (second != page + 1).then_some(page)
    }
}

/// Random slowness.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    retry_probability: f64,
    retry_most: u32,
    /// Mean time between pauses, and mean length, ns; 0: none.
    every: f64,
    length: f64,
    /// The next or current pause.
    pause: (Nanos, Nanos),
}

impl Noise {
    pub(super) fn new(profile: &Profile, random: &mut Pcg64) -> Self {
        let mut noise = Self {
            retry_probability: profile.noise.retry_probability,
            retry_most: profile.noise.retry_most,
            every: profile.noise.pause_every_ms * 1e6,
            length: profile.noise.pause_ms * 1e6,
            pause: (NEVER, NEVER),
        };
        if noise.every > 0.0 {
            noise.pause = noise.next_pause(Nanos::ZERO, random);
        }
        noise
    }

    fn next_pause(&self, after: Nanos, random: &mut Pcg64) -> (Nanos, Nanos) {
        let mut exponential = |mean: f64| {
            let uniform: f64 = random.random();
            // The system's logarithm differs between machines.
            Nanos((-libm::log(1.0 - uniform) * mean) as u64)
        };
        let start = after + exponential(self.every);
        (start, start + exponential(self.length))
    }

    /// The next or current pause.
    pub(super) const fn pause(&self) -> (Nanos, Nanos) {
        self.pause
    }

    /// Sets it; false if it cannot follow `now`.
    pub(super) fn set_pause(&mut self, pause: (Nanos, Nanos), now: Nanos) -> bool {
        self.pause = pause;
        match self.every > 0.0 {
            true => pause.0 <= pause.1 && now < pause.1 && pause.1 < NEVER,
            false => pause == (NEVER, NEVER),
        }
    }

    /// When a request that arrives now is admitted.
    pub(super) fn open(&mut self, now: Nanos, random: &mut Pcg64) -> Nanos {
        while self.pause.1 <= now {
            self.pause = self.next_pause(self.pause.1, random);
        }
        if self.pause.0 <= now { self.pause.1 } else { now }
    }

    /// Number of retries of a read.
    #[inline]
    pub(super) fn retries(&self, random: &mut Pcg64) -> u64 {
        if self.retry_probability == 0.0 { 0 } else { self.draw_retries(random) }
    }

    // Separate, so that drives without noise do not set up random numbers.
    #[inline(never)]
    fn draw_retries(&self, random: &mut Pcg64) -> u64 {
        if !random.random_bool(self.retry_probability) {
            return 0;
        }
        random.random_range(1..=self.retry_most).into()
    }
}

impl Ssd {
    /// Accepts a request.
    pub(super) fn take(&mut self, request: &Request) {
        let in_flight = InFlight {
            id: request.id,
            verb: request.op,
            flags: request.flags,
            arrival: self.now,
            offset: request.offset,
            length: request.length,
            left: 1,
            regenerated: 0,
            next_unit: 0,
            units_left: 0,
            since: self.now,
            stalled: Nanos::ZERO,
            buffer: Nanos::ZERO,
        };
        let index = self.requests.insert(in_flight);
        let open = self.noise.open(self.now, &mut self.random);
        let at = open + self.times.firmware;
        if at == self.now && self.host.front.is_empty() {
            self.dispatch(index);
            return;
        }
        self.requests[index].stalled = open.since(self.now);
        // A pause may end before one that an earlier request met.
        let at = self.host.front.back().map_or(at, |last| last.0.max(at));
        self.host.front.push_back((at, index));
        self.set(Timer::Front, self.host.front[0].0);
    }

    pub(super) fn firmware_done(&mut self) {
        let (_, index) = self.host.front.pop_front().expect("the timer is for its head");
        let next = self.host.front.front().map_or(NEVER, |next| next.0);
        self.set(Timer::Front, next);
        self.dispatch(index);
    }

    fn dispatch(&mut self, index: u32) {
        if self.cleaning.stalled() {
            let InFlight { verb, offset, length, .. } = self.requests[index];
            let (first, count) = self.units_of(offset, length);
            if verb == Verb::Read
                && self.rules.concerns.reads
                && self.is_refused(index, first, count)
            {
                return;
            }
            self.requests[index].since = self.now;
            self.host.stalled.push_back(index);
            return;
        }
        match self.requests[index].verb {
            Verb::Read => self.read(index),
            Verb::Write => self.write(index),
            Verb::Discard => self.discard(index),
            Verb::Flush => self.flush(index),
        }
    }

    /// Admits requests that waited for free blocks. The drive may run out of them again meanwhile.
    pub(super) fn admit_stalled(&mut self) {
        while !self.cleaning.stalled()
            && let Some(index) = self.host.stalled.pop_front()
        {
            let request = &mut self.requests[index];
            request.stalled += self.now.since(request.since);
            self.dispatch(index);
        }
    }

    /// The units that a byte range touches: the first, and how many.
    fn units_of(&self, offset: u64, length: u64) -> (u32, u32) {
        let last_byte = u64::from(self.layout.unit_bytes) - 1;
        let first = self.layout.unit_of_byte(offset);
        let end = self.layout.unit_of_byte(offset + length + last_byte);
        (first as u32, end.saturating_sub(first) as u32)
    }

    fn read(&mut self, index: u32) {
        let InFlight { offset, length, .. } = self.requests[index];
        let (first, count) = self.units_of(offset, length);
        if self.rules.concerns.reads
            && self.cleaning.queued > 0
            && self.is_refused(index, first, count)
        {
            return;
        }
        self.read_units(index, first, count, None);
        self.part_is_done(index, LatencyBreakdown::default());
    }

    /// Reads units for a request: one operation per page. `before` is the wait until their
    /// locations were known; `None` if they are not yet.
    pub(super) fn read_units(
        &mut self,
        index: u32,
        first: u32,
        count: u32,
        before: Option<&LatencyBreakdown>,
    ) {
        let mut user = first;
        let end = first + count;
        while user < end {
            if before.is_none()
                && let Some(page) = self.host.lookups.miss(user)
            {
                user = self.look_up(index, user, end, page);
                continue;
            }
            let Location::Flash(unit) = self.map.location(user) else {
                user += 1;
                continue;
            };
            let page = self.layout.page_of_unit(unit);
            let start = user;
            user += 1;
            while user < end
                && let Location::Flash(next) = self.map.location(user)
                && self.layout.page_of_unit(next) == page
            {
                user += 1;
            }
            let before = before.copied().unwrap_or_default();
            self.read_page(index, page, start, user - start, &before);
        }
    }

    /// Reads a page of the mapping table before the units that it maps.
    fn look_up(&mut self, index: u32, user: u32, end: u32, page: u32) -> u32 {
        let units = self.host.lookups.units;
        let until = ((user / units + 1) * units).min(end);
        self.requests[index].left += 1;
        self.enqueue(Op {
            request: index,
            user,
            units: until - user,
            ..Op::new(OpKind::Lookup, page % self.layout.planes)
        });
        until
    }

    fn read_page(
        &mut self,
        index: u32,
        page: u32,
        user: u32,
        units: u32,
        before: &LatencyBreakdown,
    ) {
        let block = self.layout.block_of_page(page);
        let plane = self.layout.plane_of_block(block);
        if self.rules.concerns.reads
            && self.cleaning.queued > 0
            && self.regenerate(index, plane, units)
        {
            return;
        }
        self.requests[index].left += 1;
        self.enqueue(Op {
            request: index,
            page,
            user,
            units,
            erasures: self.blocks.erasures(),
            again: self.host.reading_again,
            ..Op::new(OpKind::Read, plane).after(before)
        });
    }

    /// The block of a waiting read was erased: looks up the new location.
    pub(super) fn read_again(&mut self, op: u32) {
        let Op { request, user, units, .. } = self.ops[op];
        let before = self.ops[op].breakdown();
        if let Some(audit) = &mut self.audit {
            audit.forget(op);
        }
        self.ops.remove(op);
        self.host.reading_again = true;
        self.read_units(request, user, units, Some(&before));
        self.host.reading_again = false;
        self.part_is_done(request, before);
    }

    fn write(&mut self, index: u32) {
        let transfer = self.times.link(self.requests[index].length);
        if transfer == Nanos::ZERO {
            self.write_data(index);
            return;
        }
        let free = self.host.link_in.back().map_or(self.now, |last| last.0.max(self.now));
        self.host.link_in.push_back((free + transfer, index));
        self.set(Timer::LinkIn, self.host.link_in[0].0);
    }

    pub(super) fn data_received(&mut self) {
        let (_, index) = self.host.link_in.pop_front().expect("the timer is for its head");
        let next = self.host.link_in.front().map_or(NEVER, |next| next.0);
        self.set(Timer::LinkIn, next);
        self.write_data(index);
    }

    /// The data is in the controller.
    fn write_data(&mut self, index: u32) {
        let InFlight { offset, length, .. } = self.requests[index];
        let (first, count) = self.units_of(offset, length);
        // Partially written units are read first.
        let unit = u64::from(self.layout.unit_bytes);
        if length > 0 && offset % unit != 0 {
            self.read_units(index, first, 1, None);
        }
        if (offset + length) % unit != 0 && (count > 1 || offset % unit == 0) {
            self.read_units(index, first + count - 1, 1, None);
        }
        let request = &mut self.requests[index];
        (request.next_unit, request.units_left) = (first, count);
        request.since = self.now;
        self.stats.user_units_written += u64::from(count);
        self.allocate_slots(index);
    }

    fn discard(&mut self, index: u32) {
        let InFlight { offset, length, .. } = self.requests[index];
        let unit = u64::from(self.layout.unit_bytes);
        // Only units that it covers completely.
        for user in offset.div_ceil(unit)..(offset + length) / unit {
            self.map.discard(&self.layout, user as u32);
            self.tell_location(user as u32);
        }
        self.part_is_done(index, LatencyBreakdown::default());
    }

    /// A part of a request is complete; the last part completes the request.
    #[inline]
    pub(super) fn part_is_done(&mut self, index: u32, breakdown: LatencyBreakdown) {
        if index == NONE {
            return;
        }
        let request = &mut self.requests[index];
        request.left -= 1;
        if request.left == 0 {
            self.all_is_done(index, breakdown);
        }
    }

    fn all_is_done(&mut self, index: u32, breakdown: LatencyBreakdown) {
        match self.requests[index].regenerated {
            0 => self.send_out(index, breakdown),
            pages => self.combine(index, pages, breakdown),
        }
    }

    /// All data for a regeneration is in the controller, which combines one page after the other.
    fn combine(&mut self, index: u32, pages: u32, breakdown: LatencyBreakdown) {
        let time = Nanos(self.times.regenerate.0 * u64::from(pages));
        let free = self.host.regenerating.back().map_or(self.now, |last| last.0.max(self.now));
        self.host.regenerating.push_back((free + time, index, breakdown));
        self.set(Timer::Regenerate, self.host.regenerating[0].0);
    }

    pub(super) fn regeneration_done(&mut self) {
        let (_, index, breakdown) =
            self.host.regenerating.pop_front().expect("the timer is for its head");
        let next = self.host.regenerating.front().map_or(NEVER, |next| next.0);
        self.set(Timer::Regenerate, next);
        self.send_out(index, breakdown);
    }

    /// All parts are complete: a read's data crosses the link.
    fn send_out(&mut self, index: u32, breakdown: LatencyBreakdown) {
        let request = &self.requests[index];
        let transfer = match request.verb {
            Verb::Read => self.times.link(request.length),
            _ => Nanos::ZERO,
        };
        if transfer == Nanos::ZERO {
            self.answer(index, Outcome::Done, breakdown);
            return;
        }
        let free = self.host.link_out.back().map_or(self.now, |last| last.0.max(self.now));
        self.host.link_out.push_back((free + transfer, index, breakdown));
        self.set(Timer::LinkOut, self.host.link_out[0].0);
    }

    pub(super) fn data_sent(&mut self) {
        let (_, index, breakdown) =
            self.host.link_out.pop_front().expect("the timer is for its head");
        let next = self.host.link_out.front().map_or(NEVER, |next| next.0);
        self.set(Timer::LinkOut, next);
        self.answer(index, Outcome::Done, breakdown);
    }

    #[inline]
    pub(super) fn answer(&mut self, index: u32, outcome: Outcome, breakdown: LatencyBreakdown) {
        let request = &self.requests[index];
        let (stalled, buffer) = (request.stalled, request.buffer);
        self.served.push(Served {
            completion: Completion {
                request: request.id,
                device: self.device,
                issue: request.arrival,
                complete: self.now,
                outcome,
            },
            breakdown: LatencyBreakdown { stalled, buffer, ..breakdown },
        });
        self.requests.remove(index);
    }
}
