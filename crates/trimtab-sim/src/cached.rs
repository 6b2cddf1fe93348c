//! A page cache above a device.

mod eviction;
mod spec;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use trimtab_device::{Below, Error, OpenFile, PageCache, Served, SsdStats};
use trimtab_io::{
    CacheEvent, Completion, DeviceId, HostEvent, Nanos, Op, Outcome, Request, RequestId,
};

pub use spec::{CacheSpec, EvictionSpec};

use crate::scheduled::Dispatch;
use crate::server::{Server, check};
use crate::source::NEVER;
use eviction::Eviction;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A [`Server`] whose requests go through a page cache.
///
/// A read of pages that are all in memory takes the memory's time. The others wait for the requests
/// that bring their pages in, their own or earlier ones. Writes go to memory; the device gets them
/// later, and a writer waits only if too much is dirty. Flushes and discards go to the device.
#[derive(Clone, Debug)]
pub struct Cached<S> {
    server: S,
    cache: PageCache,
    /// The device as one file: its readahead.
    file: OpenFile,
    memory: Nanos,
    /// Neighbours that take memory, if there are any.
    eviction: Option<Eviction>,
    /// Pages from the beginning of the device that are in memory at first.
    warm_pages: u64,
    /// Whether pages of refused reads are brought in.
    brings_in: bool,
    /// Answers from memory, in order of time.
    from_memory: VecDeque<(Nanos, Request)>,
    /// Reads that wait for pages, by slot, and the slots that are free.
    waiting: Vec<Waiting>,
    free: Vec<u32>,
    /// Writers that wait until something has been written.
    throttled: VecDeque<(Nanos, Request)>,
    /// Requests on the device, by the number that it knows them by.
    below: BTreeMap<u64, OnDevice>,
    /// How many of them the cache has nothing to do with.
    direct: usize,
    next_below: u64,
    asked: Vec<Below>,
    served: VecDeque<Served>,
    /// Pages that have been in memory and are not: the first [`MOST_GONE`] of them.
    gone: BTreeSet<u64>,
    /// Host events since they were taken last; `None`: they are not told.
    events: Option<Vec<CacheEvent>>,
    now: Nanos,
}

/// The most pages that are remembered to have been in memory. Others count as never read.
const MOST_GONE: usize = 1 << 20;

/// A read that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    arrived: Nanos,
    /// Requests on the device that it waits for.
    left: u32,
    failed: bool,
}

/// A request on the device.
#[derive(Clone, Debug)]
enum OnDevice {
    /// Brings pages in, for these reads.
    Read { first: u64, pages: u64, readers: Vec<u32> },
    /// Writes pages.
    Write { first: u64, pages: u64 },
    /// A request that the cache has nothing to do with.
    Direct(Request),
}

impl<S: Server> Cached<S> {
    /// A device below a page cache.
    ///
    /// # Panics
    /// The description has not been [checked](CacheSpec::check).
    pub fn new(server: S, spec: &CacheSpec, seed: u64) -> Self {
        let profile = spec.profile();
        let cache = PageCache::new(&profile).expect("the description was checked");
        let file = OpenFile::new(0, server.capacity() / PAGE);
        let warm_pages = if spec.warm { u64::from(profile.pages).min(file.pages()) } else { 0 };
        let now = server.now();
        let mut cached = Self {
            server,
            cache,
            file,
            memory: spec.memory(),
            eviction: spec.evict.map(|evict| Eviction::new(&evict, seed, now)),
            warm_pages,
            brings_in: false,
            from_memory: VecDeque::new(),
            waiting: Vec::new(),
            free: Vec::new(),
            throttled: VecDeque::new(),
            below: BTreeMap::new(),
            direct: 0,
            next_below: 0,
            asked: Vec::new(),
            served: VecDeque::new(),
            gone: BTreeSet::new(),
            events: None,
            now,
        };
        cached.warm_up();
        cached.cache.tell_evicted();
        cached
    }

    /// Holds the beginning of the device, if it is to be warm. Writes that make room for it are sent
    /// with the next request.
    fn warm_up(&mut self) {
        // In pieces, each of which is there before the next is asked for.
        for page in 0..self.warm_pages {
            self.cache.read(&mut self.file, page, 1, &mut self.asked);
            for below in std::mem::take(&mut self.asked) {
                match below {
                    Below::Read { first, pages, .. } => {
                        self.cache.filled(first, pages);
                        self.tell_filled(first, pages);
                    }
                    Below::Write { .. } => self.asked.push(below),
                }
            }
        }
        self.tell_evicted();
    }

    /// Neighbours take no memory from now on. A cache that was warm at first is warm again.
    pub fn end_evictions(&mut self) {
        if self.eviction.take().is_some() {
            self.warm_up();
        }
    }

    /// The device.
    pub const fn server(&self) -> &S {
        &self.server
    }

    /// The device, to be changed from outside.
    pub const fn server_mut(&mut self) -> &mut S {
        &mut self.server
    }

    /// The cache.
    #[must_use]
    pub const fn cache(&self) -> &PageCache {
        &self.cache
    }

    /// Brings the pages of refused reads in from now on, as MittCache does (MittOS, §4.2.4).
    pub const fn bring_in_refused(&mut self) {
        self.brings_in = true;
    }

    /// Tells from now on which pages come and go. Those that are there are told first, and those that
    /// were there and have gone.
    pub fn tell_pages(&mut self) {
        let mut events = Vec::new();
        for &first in &self.gone {
            events.push(CacheEvent::Filled { first, pages: 1 });
            events.push(CacheEvent::Evicted { first, pages: 1 });
        }
        let mut resident: Vec<u64> = self.cache.resident().collect();
        resident.sort_unstable();
        resident.into_iter().for_each(|page| push(&mut events, page));
        self.events = Some(events);
    }

    fn answer(&mut self, at: Nanos, request: &Request, issue: Nanos, outcome: Outcome) {
        let completion = Completion {
            request: request.id,
            device: request.device,
            issue,
            complete: at,
            outcome,
        };
        let breakdown = Default::default();
        self.served.push_back(Served { completion, breakdown });
    }

    /// Sends what the cache has asked for; `reader` waits for the reads.
    fn send_asked(&mut self, mut reader: Option<u32>) -> Result<(), Error> {
        for below in std::mem::take(&mut self.asked) {
            let (op, first, pages) = match below {
                Below::Read { first, pages, .. } => (Op::Read, first, pages),
                Below::Write { first, pages } => (Op::Write, first, pages),
            };
            let on_device = match below {
                Below::Write { .. } => OnDevice::Write { first, pages },
                Below::Read { is_readahead, .. } => {
                    let readers = reader.filter(|_| !is_readahead).into_iter().collect();
                    OnDevice::Read { first, pages, readers }
                }
            };
            if let (Some(reader), OnDevice::Read { readers, .. }) = (&mut reader, &on_device) {
                self.waiting[*reader as usize].left += readers.len() as u32;
            }
            self.send(op, first * PAGE, pages * PAGE, on_device)?;
        }
        Ok(())
    }

    fn send(&mut self, op: Op, offset: u64, length: u64, what: OnDevice) -> Result<(), Error> {
        let id = RequestId(self.next_below);
        self.next_below += 1;
        let request = Request::new(id, DeviceId(0), self.now, op, offset, length);
        let request = match &what {
            OnDevice::Direct(own) => Request { id, ..*own },
            OnDevice::Read { readers, .. } => match readers.first() {
                Some(&reader) => {
                    Request { id, offset, length, ..self.waiting[reader as usize].request }
                }
                None => request,
            },
            OnDevice::Write { .. } => request,
        };
        self.direct += usize::from(matches!(what, OnDevice::Direct(_)));
        self.below.insert(id.0, what);
        self.server.submit(self.now, &request)
    }

    fn read(&mut self, request: &Request) -> Result<(), Error> {
        let first = request.offset / PAGE;
        let pages = (request.offset + request.length).div_ceil(PAGE) - first;
        let lookup = self.cache.read(&mut self.file, first, pages, &mut self.asked);
        self.tell_evicted();
        if lookup.resident == pages.min(self.file.pages() - first) {
            self.from_memory.push_back((self.now + self.memory, *request));
            return self.send_asked(None);
        }
        let waiting = Waiting { request: *request, arrived: self.now, left: 0, failed: false };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.waiting[slot as usize] = waiting;
                slot
            }
            None => {
                self.waiting.push(waiting);
                self.waiting.len() as u32 - 1
            }
        };
        // Pages that earlier requests are bringing in.
        if lookup.in_flight > 0 {
            for on_device in self.below.values_mut() {
                if let OnDevice::Read { first: from, pages: count, readers } = on_device
                    && *from < first + pages
                    && first < *from + *count
                {
                    readers.push(slot);
                    self.waiting[slot as usize].left += 1;
                }
            }
        }
        self.send_asked(Some(slot))?;
        if self.waiting[slot as usize].left == 0 {
            self.read_ended(slot);
        }
        Ok(())
    }

    /// A read has all its pages.
    fn read_ended(&mut self, slot: u32) {
        let Waiting { request, arrived, failed, .. } = self.waiting[slot as usize];
        self.free.push(slot);
        let outcome = if failed { Outcome::Error } else { Outcome::Done };
        self.answer(self.now, &request, arrived, outcome);
    }

    fn write(&mut self, request: &Request) -> Result<(), Error> {
        let first = request.offset / PAGE;
        let pages = (request.offset + request.length).div_ceil(PAGE) - first;
        let lookup = self.cache.write(first, pages, &mut self.asked);
        self.tell_filled(first, pages);
        if lookup.is_throttled {
            self.throttled.push_back((self.now, *request));
        } else {
            self.from_memory.push_back((self.now + self.memory, *request));
        }
        self.send_asked(None)
    }

    /// Notes what has been evicted: before what is filled in its place.
    fn tell_evicted(&mut self) {
        let Self { cache, gone, events, .. } = self;
        cache.take_evicted(|first| {
            if gone.len() < MOST_GONE {
                gone.insert(first);
            }
            if let Some(events) = events {
                events.push(CacheEvent::Evicted { first, pages: 1 });
            }
        });
    }

    fn tell_filled(&mut self, first: u64, pages: u64) {
        self.tell_evicted();
        let Self { cache, gone, events, .. } = self;
        for page in (first..first + pages).filter(|&page| cache.is_resident(page)) {
            if !gone.is_empty() {
                gone.remove(&page);
            }
            if let Some(events) = events {
                push(events, page);
            }
        }
    }

    /// Takes the device's completions.
    fn collect(&mut self) {
        let mut ended = Vec::new();
        self.server.drain(|served| ended.push(*served));
        for served in ended {
            let Completion { request, outcome, complete, issue, .. } = served.completion;
            match self.below.remove(&request.0) {
                Some(OnDevice::Read { first, pages, readers }) => {
                    self.cache.filled(first, pages);
                    self.tell_filled(first, pages);
                    for slot in readers {
                        let waiting = &mut self.waiting[slot as usize];
                        waiting.failed |= outcome != Outcome::Done;
                        waiting.left -= 1;
                        if waiting.left == 0 {
                            self.read_ended(slot);
                        }
                    }
                }
                Some(OnDevice::Write { first, pages }) => {
                    self.cache.written(first, pages);
                    for (arrived, request) in std::mem::take(&mut self.throttled) {
                        self.answer(self.now, &request, arrived, Outcome::Done);
                    }
                }
                Some(OnDevice::Direct(own)) => {
                    self.direct -= 1;
                    self.answer(complete, &own, issue, outcome);
                }
                None => {}
            }
        }
    }

    /// The next event of its own.
    fn next_own(&self) -> Nanos {
        let memory = self.from_memory.front().map_or(NEVER, |(at, _)| *at);
        memory.min(self.eviction.as_ref().map_or(NEVER, Eviction::next))
    }

    /// Advances to the next event, or to `until` if that is earlier.
    fn step(&mut self, until: Nanos) {
        let at = self.next_event().map_or(until, |at| at.min(until)).max(self.now);
        self.now = at;
        self.server.advance(at);
        self.collect();
        while self.from_memory.front().is_some_and(|(due, _)| *due <= at)
            && let Some((due, request)) = self.from_memory.pop_front()
        {
            self.answer(due, &request, due - self.memory, Outcome::Done);
        }
        if let Some(eviction) = &mut self.eviction {
            eviction.advance(at, &mut self.cache);
        }
        self.tell_evicted();
    }
}

/// Adds a page to the last event, if it follows that.
fn push(events: &mut Vec<CacheEvent>, page: u64) {
    match events.last_mut() {
        Some(CacheEvent::Filled { first, pages }) if *first + *pages == page => *pages += 1,
        _ => events.push(CacheEvent::Filled { first: page, pages: 1 }),
    }
}

impl<S: Server> Server for Cached<S> {
    fn capacity(&self) -> u64 {
        self.server.capacity()
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn in_flight(&self) -> usize {
        let waiting = self.waiting.len() - self.free.len();
        self.from_memory.len() + waiting + self.throttled.len() + self.direct
    }

    fn submit(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        check(self, now, request)?;
        self.advance(now);
        match request.op {
            Op::Read => self.read(request)?,
            Op::Write => self.write(request)?,
            Op::Flush | Op::Discard => {
                let (offset, length) = (request.offset, request.length);
                self.send(request.op, offset, length, OnDevice::Direct(*request))?;
            }
        }
        self.collect();
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        let own = self.next_own();
        let next = self.server.next_event().map_or(own, |at| at.min(own));
        (next != NEVER).then_some(next)
    }

    fn advance(&mut self, until: Nanos) {
        while self.next_event().is_some_and(|at| at <= until) {
            self.step(until);
        }
        if until > self.now && until != NEVER {
            self.step(until);
        }
    }

    fn advance_to_answer(&mut self, until: Nanos) -> Nanos {
        while self.served.is_empty() && self.next_event().is_some_and(|at| at <= until) {
            self.step(until);
        }
        if self.served.is_empty() && until > self.now && until != NEVER {
            self.step(until);
        }
        self.now
    }

    fn drain(&mut self, mut take: impl FnMut(&Served)) {
        self.served.drain(..).for_each(|served| take(&served));
    }

    fn take_dispatches(&mut self, mut take: impl FnMut(Dispatch)) {
        let Self { server, below, waiting, .. } = self;
        server.take_dispatches(|dispatch| match below.get(&dispatch.request.0) {
            Some(OnDevice::Read { readers, .. }) => {
                for &reader in readers {
                    take(Dispatch { request: waiting[reader as usize].request.id, ..dispatch });
                }
            }
            Some(OnDevice::Direct(own)) => take(Dispatch { request: own.id, ..dispatch }),
            Some(OnDevice::Write { .. }) | None => {}
        });
    }

    fn tell_dispatches(&mut self) -> bool {
        self.server.tell_dispatches()
    }

    fn tells_events(&self) -> bool {
        self.events.is_some() || self.server.tells_events()
    }

    fn take_host_events(&mut self, mut take: impl FnMut(HostEvent)) {
        if let Some(events) = &mut self.events {
            events.drain(..).for_each(|event| take(event.into()));
        }
        self.server.take_host_events(take);
    }

    fn refused(&mut self, now: Nanos, request: &Request) -> Result<(), Error> {
        if !self.brings_in || request.op != Op::Read {
            return Ok(());
        }
        self.advance(now);
        let first = request.offset / PAGE;
        let pages = (request.offset + request.length).div_ceil(PAGE) - first;
        self.cache.read(&mut self.file, first, pages, &mut self.asked);
        self.tell_evicted();
        self.send_asked(None)
    }

    fn study(&self) -> SsdStats {
        self.server.study()
    }
}

#[cfg(test)]
mod tests;
