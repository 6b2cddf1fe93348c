//! Requests: taken apart on their way in, put together on their way out.

use std::collections::VecDeque;

use rand::RngExt as _;
use rand_pcg::Pcg64;
use trimtab_io::{Completion, Flags, Nanos, Op as Verb, Outcome, Request, RequestId};

use super::ops::{Kind, Op};
use super::{Served, Ssd, Timer};
use crate::agenda::NEVER;
use crate::firmware::{Answer, Contention};
use crate::map::Place;
use crate::profile::Profile;
use crate::slab::NONE;
use crate::study::Explained;

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    id: RequestId,
    verb: Verb,
    pub(super) flags: Flags,
    arrival: Nanos,
    offset: u64,
    length: u64,
    /// Parts that are not done; the request itself is one until all are known.
    pub(super) left: u32,
    /// Pages whose siblings are being read instead, to be regenerated then.
    regenerated: u32,
    /// Units to be written that have not found room yet: the first, and how
    /// many.
    pub(super) next_unit: u32,
    pub(super) units_left: u32,
    /// When it began to wait for what it waits for.
    pub(super) since: Nanos,
    /// How long it has been kept out, and has waited for room in the buffer.
    stalled: Nanos,
    pub(super) buffer: Nanos,
}

/// The drive's front: what is between the host and the flash.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// In the firmware until then.
    front: VecDeque<(Nanos, u32)>,
    /// On the link until then.
    link_in: VecDeque<(Nanos, u32)>,
    link_out: VecDeque<(Nanos, u32, Explained)>,
    /// In the controller's XOR until then.
    regenerating: VecDeque<(Nanos, u32, Explained)>,
    /// While free blocks have run out.
    stalled: VecDeque<u32>,
    lookups: Lookups,
}

impl Host {
    pub(super) fn new(profile: &Profile) -> Self {
        Self {
            front: VecDeque::new(),
            link_in: VecDeque::new(),
            link_out: VecDeque::new(),
            regenerating: VecDeque::new(),
            stalled: VecDeque::new(),
            lookups: Lookups::new(profile),
        }
    }
}

/// The part of the mapping table that is in memory, where not all of it is:
/// pages of it, each in one of two places.
#[derive(Clone, Debug)]
struct Lookups {
    /// Pairs of page numbers + 1, the one used last first.
    pages: Vec<[u32; 2]>,
    /// User units that a page of the table maps.
    units: u32,
}

impl Lookups {
    fn new(profile: &Profile) -> Self {
        let page = profile.geometry.page_bytes;
        let pages = (profile.ftl.mapping_cache_mb * 1e6 / f64::from(page)) as usize;
        // No more than the table has.
        let units = profile.capacity_bytes() / u64::from(profile.ftl.unit_bytes);
        let pages = pages.min((units * 4).div_ceil(page.into()) as usize + 1);
        let pairs = if profile.ftl.mapping_cache_mb > 0.0 { (pages / 2).max(1) } else { 0 };
        Self { pages: vec![[0; 2]; pairs], units: page / 4 }
    }

    /// The page of the table that must be read before a unit can be found.
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

/// Slowness at random.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    retry_probability: f64,
    retry_most: u32,
    /// Mean time between pauses, and of one, ns; 0: none.
    every: f64,
    length: f64,
    /// The pause that comes next or is going on.
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
            // The system's logarithm is not the same everywhere.
            Nanos((-libm::log(1.0 - uniform) * mean) as u64)
        };
        let start = after + exponential(self.every);
        (start, start + exponential(self.length))
    }

    /// The pause that comes next or is going on.
    pub(super) const fn pause(&self) -> (Nanos, Nanos) {
        self.pause
    }

    /// Sets it; false if it cannot be the next one seen from `now`.
    pub(super) fn set_pause(&mut self, pause: (Nanos, Nanos), now: Nanos) -> bool {
        self.pause = pause;
        match self.every > 0.0 {
            true => pause.0 <= pause.1 && now < pause.1 && pause.1 < NEVER,
            false => pause == (NEVER, NEVER),
        }
    }

    /// When a request that comes now gets in.
    pub(super) fn open(&mut self, now: Nanos, random: &mut Pcg64) -> Nanos {
        while self.pause.1 <= now {
            self.pause = self.next_pause(self.pause.1, random);
        }
        if self.pause.0 <= now { self.pause.1 } else { now }
    }

    /// How many more attempts a read needs.
    #[inline]
    pub(super) fn retries(&self, random: &mut Pcg64) -> u64 {
        if self.retry_probability == 0.0 { 0 } else { self.draw_retries(random) }
    }

    // On its own, so that drives without noise do not get ready for drawing.
    #[inline(never)]
    fn draw_retries(&self, random: &mut Pcg64) -> u64 {
        if !random.random_bool(self.retry_probability) {
            return 0;
        }
        random.random_range(1..=self.retry_most).into()
    }
}

impl Ssd {
    /// Takes a request in.
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
        let place = self.requests.insert(in_flight);
        let open = self.noise.open(self.now, &mut self.random);
        let at = open + self.times.firmware;
        if at == self.now && self.host.front.is_empty() {
            self.dispatch(place);
            return;
        }
        self.requests[place].stalled = open.since(self.now);
        // A pause may end before one that an earlier request met.
        let at = self.host.front.back().map_or(at, |last| last.0.max(at));
        self.host.front.push_back((at, place));
        self.set(Timer::Front, self.host.front[0].0);
    }

    pub(super) fn firmware_is_done(&mut self) {
        let (_, place) = self.host.front.pop_front().expect("the timer is for its head");
        let next = self.host.front.front().map_or(NEVER, |next| next.0);
        self.set(Timer::Front, next);
        self.dispatch(place);
    }

    fn dispatch(&mut self, place: u32) {
        if self.cleaning.stalled() {
            let InFlight { verb, offset, length, .. } = self.requests[place];
            let (first, count) = self.units_of(offset, length);
            if verb == Verb::Read && self.is_refused(place, first, count) {
                return;
            }
            self.requests[place].since = self.now;
            self.host.stalled.push_back(place);
            return;
        }
        match self.requests[place].verb {
            Verb::Read => self.read(place),
            Verb::Write => self.write(place),
            Verb::Discard => self.discard(place),
            Verb::Flush => self.flush(place),
        }
    }

    /// Lets in who had to wait for free blocks. The drive may run out of them
    /// again meanwhile.
    pub(super) fn let_in(&mut self) {
        while !self.cleaning.stalled()
            && let Some(place) = self.host.stalled.pop_front()
        {
            let request = &mut self.requests[place];
            request.stalled += self.now.since(request.since);
            self.dispatch(place);
        }
    }

    /// The units that a range of bytes touches: the first, and how many.
    fn units_of(&self, offset: u64, length: u64) -> (u32, u32) {
        let last_byte = u64::from(self.layout.unit_bytes) - 1;
        let first = self.layout.unit_of_byte(offset);
        let end = self.layout.unit_of_byte(offset + length + last_byte);
        (first as u32, end.saturating_sub(first) as u32)
    }

    fn read(&mut self, place: u32) {
        let InFlight { offset, length, .. } = self.requests[place];
        let (first, count) = self.units_of(offset, length);
        if self.cleaning.running > 0 && self.is_refused(place, first, count) {
            return;
        }
        self.read_units(place, first, count, None);
        self.part_is_done(place, Explained::default());
    }

    /// Asks the firmware about each unit that cleaning is in the way of. If it
    /// refuses one, the request is refused, and nothing of it is done.
    fn is_refused(&mut self, place: u32, first: u32, count: u32) -> bool {
        let mut longest = None;
        for user in first..first + count {
            let Place::Flash(unit) = self.map.place(user) else { continue };
            let plane = self.layout.plane_of_block(self.layout.block_of_unit(unit));
            let Some(busy_for) = self.cleaning_left(plane) else { continue };
            let flags = self.requests[place].flags;
            let contention = Contention { now: self.now, flags, plane, busy_for };
            if self.firmware.contend(&contention) == Answer::Refuse {
                longest = longest.max(Some(busy_for));
            }
        }
        let Some(expected_wait) = longest else { return false };
        self.study.refused += 1;
        self.answer(place, Outcome::Refused { expected_wait }, Explained::default());
        true
    }

    /// Reads units for a request: one operation for each page. `before` is what
    /// was waited for until their places were known; none if they are not yet.
    pub(super) fn read_units(
        &mut self,
        place: u32,
        first: u32,
        count: u32,
        before: Option<&Explained>,
    ) {
        let mut user = first;
        let end = first + count;
        while user < end {
            if before.is_none()
                && let Some(page) = self.host.lookups.miss(user)
            {
                user = self.look_up(place, user, end, page);
                continue;
            }
            let Place::Flash(unit) = self.map.place(user) else {
                user += 1;
                continue;
            };
            let page = self.layout.page_of_unit(unit);
            let start = user;
            user += 1;
            while user < end
                && let Place::Flash(next) = self.map.place(user)
                && self.layout.page_of_unit(next) == page
            {
                user += 1;
            }
            let before = before.copied().unwrap_or_default();
            self.read_page(place, page, start, user - start, &before);
        }
    }

    /// Reads a page of the mapping table before the units that it maps.
    fn look_up(&mut self, place: u32, user: u32, end: u32, page: u32) -> u32 {
        let units = self.host.lookups.units;
        let until = ((user / units + 1) * units).min(end);
        self.requests[place].left += 1;
        self.enqueue(Op {
            request: place,
            user,
            units: until - user,
            ..Op::new(Kind::Lookup, page % self.layout.planes)
        });
        until
    }

    fn read_page(&mut self, place: u32, page: u32, user: u32, units: u32, before: &Explained) {
        let block = self.layout.block_of_page(page);
        let plane = self.layout.plane_of_block(block);
        if self.cleaning.running > 0 && self.regenerate(place, plane, units) {
            return;
        }
        self.requests[place].left += 1;
        self.enqueue(Op {
            request: place,
            page,
            user,
            units,
            erasures: self.blocks.erasures(),
            ..Op::new(Kind::Read, plane).after(before)
        });
    }

    /// Reads what the same place of all other channels holds instead, if the
    /// firmware wants that.
    fn regenerate(&mut self, place: u32, plane: u32, units: u32) -> bool {
        let Some(busy_for) = self.cleaning_left(plane) else { return false };
        let flags = self.requests[place].flags;
        let contention = Contention { now: self.now, flags, plane, busy_for };
        if self.firmware.contend(&contention) != Answer::Regenerate || self.layout.channels < 2 {
            return false;
        }
        self.study.regenerated += 1;
        self.requests[place].regenerated += 1;
        let per_channel = self.layout.planes / self.layout.channels;
        for k in 1..self.layout.channels {
            let plane = (plane + k * per_channel) % self.layout.planes;
            self.requests[place].left += 1;
            self.enqueue(Op { request: place, units, ..Op::new(Kind::Sibling, plane) });
        }
        true
    }

    /// The block that a read waited to read has been erased: looks where its
    /// data has gone.
    pub(super) fn read_again(&mut self, op: u32) {
        let Op { request, user, units, .. } = self.ops[op];
        let before = self.ops[op].explained();
        if let Some(audit) = &mut self.audit {
            audit.forget(op);
        }
        self.ops.remove(op);
        self.read_units(request, user, units, Some(&before));
        self.part_is_done(request, before);
    }

    fn write(&mut self, place: u32) {
        let transfer = self.times.link(self.requests[place].length);
        if transfer == Nanos::ZERO {
            self.write_data(place);
            return;
        }
        let free = self.host.link_in.back().map_or(self.now, |last| last.0.max(self.now));
        self.host.link_in.push_back((free + transfer, place));
        self.set(Timer::LinkIn, self.host.link_in[0].0);
    }

    pub(super) fn data_has_come(&mut self) {
        let (_, place) = self.host.link_in.pop_front().expect("the timer is for its head");
        let next = self.host.link_in.front().map_or(NEVER, |next| next.0);
        self.set(Timer::LinkIn, next);
        self.write_data(place);
    }

    /// The data is in the controller.
    fn write_data(&mut self, place: u32) {
        let InFlight { offset, length, .. } = self.requests[place];
        let (first, count) = self.units_of(offset, length);
        // What is written in part must be read first, to be written whole.
        let unit = u64::from(self.layout.unit_bytes);
        if length > 0 && offset % unit != 0 {
            self.read_units(place, first, 1, None);
        }
        if (offset + length) % unit != 0 && (count > 1 || offset % unit == 0) {
            self.read_units(place, first + count - 1, 1, None);
        }
        let request = &mut self.requests[place];
        (request.next_unit, request.units_left) = (first, count);
        request.since = self.now;
        self.study.user_units_written += u64::from(count);
        self.find_room(place);
    }

    fn discard(&mut self, place: u32) {
        let InFlight { offset, length, .. } = self.requests[place];
        let unit = u64::from(self.layout.unit_bytes);
        // Only units that it covers whole.
        for user in offset.div_ceil(unit)..(offset + length) / unit {
            self.map.discard(&self.layout, user as u32);
        }
        self.part_is_done(place, Explained::default());
    }

    /// A part of a request is done; with the last part the request is.
    #[inline]
    pub(super) fn part_is_done(&mut self, place: u32, explained: Explained) {
        if place == NONE {
            return;
        }
        let request = &mut self.requests[place];
        request.left -= 1;
        if request.left == 0 {
            self.all_is_done(place, explained);
        }
    }

    fn all_is_done(&mut self, place: u32, explained: Explained) {
        match self.requests[place].regenerated {
            0 => self.send_out(place, explained),
            pages => self.put_together(place, pages, explained),
        }
    }

    /// All that a read's data is regenerated from is in the controller, which
    /// makes one page after the other.
    fn put_together(&mut self, place: u32, pages: u32, explained: Explained) {
        let time = Nanos(self.times.regenerate.0 * u64::from(pages));
        let free = self.host.regenerating.back().map_or(self.now, |last| last.0.max(self.now));
        self.host.regenerating.push_back((free + time, place, explained));
        self.set(Timer::Regenerate, self.host.regenerating[0].0);
    }

    pub(super) fn data_is_regenerated(&mut self) {
        let (_, place, explained) =
            self.host.regenerating.pop_front().expect("the timer is for its head");
        let next = self.host.regenerating.front().map_or(NEVER, |next| next.0);
        self.set(Timer::Regenerate, next);
        self.send_out(place, explained);
    }

    /// All of a request is done: a read's data goes over the link.
    fn send_out(&mut self, place: u32, explained: Explained) {
        let request = &self.requests[place];
        let transfer = match request.verb {
            Verb::Read => self.times.link(request.length),
            _ => Nanos::ZERO,
        };
        if transfer == Nanos::ZERO {
            self.answer(place, Outcome::Done, explained);
            return;
        }
        let free = self.host.link_out.back().map_or(self.now, |last| last.0.max(self.now));
        self.host.link_out.push_back((free + transfer, place, explained));
        self.set(Timer::LinkOut, self.host.link_out[0].0);
    }

    pub(super) fn data_has_gone(&mut self) {
        let (_, place, explained) =
            self.host.link_out.pop_front().expect("the timer is for its head");
        let next = self.host.link_out.front().map_or(NEVER, |next| next.0);
        self.set(Timer::LinkOut, next);
        self.answer(place, Outcome::Done, explained);
    }

    #[inline]
    fn answer(&mut self, place: u32, outcome: Outcome, explained: Explained) {
        let request = &self.requests[place];
        let (stalled, buffer) = (request.stalled, request.buffer);
        self.served.push(Served {
            completion: Completion {
                request: request.id,
                device: self.device,
                issue: request.arrival,
                complete: self.now,
                outcome,
            },
            explained: Explained { stalled, buffer, ..explained },
        });
        self.requests.remove(place);
    }
}
