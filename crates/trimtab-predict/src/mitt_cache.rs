//! `mitt-cache`: whether a read that was expected in memory is refused.
//!
//! MittCache (MittOS, dissertation §4.2.4) looks up the pages of a read, and decides by three
//! facts: whether they are in memory, whether they ever were, and whether the deadline leaves
//! time for any read of the drive.
//!
//! ```text
//!   in memory? ── yes ──> fast
//!       │ no
//!   deadline shorter than any read of the drive? ── no ──> the drive's predictor decides
//!       │ yes: memory was expected
//!   were all its pages in memory before? ── no ──> first access: sent
//!       │ yes
//!   evicted: refused, and brought in nevertheless
//! ```
//!
//! A lookup cannot be wrong, so there is no probability in it.

use trimtab_io::{CacheEvent, HostEvent, Nanos, Op, Request};

use crate::page_record::PageRecord;
use crate::predictor::{Forecast, Predictor, Ticket, Verdict};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// The ticket of a read that the drive does not see.
const IN_MEMORY: Ticket = Ticket(u32::MAX);

/// Parameters of [`MittCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MittCacheOptions {
    /// Pages of 4 KiB of the drive, by which the records are sized: at most 2 MiB of memory,
    /// exact for drives of up to 16 GiB or as many pages in use. Beyond that, forgotten pages
    /// count as never seen, and are not refused.
    pub pages: u64,
    /// The least latency of a read of the drive: a shorter deadline expects memory.
    pub floor: Nanos,
    /// The latency of a read from memory.
    pub memory: Nanos,
    /// The deadline of reads that have none of their own, counted from the decision.
    pub deadline: Option<Nanos>,
}

/// A decision, by its reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CacheRuling {
    /// All pages are in memory.
    InMemory(Forecast),
    /// Memory was expected, and some pages are gone: refuse the read, and bring its pages in.
    Evicted(Forecast),
    /// Memory was expected, and some pages were never there: send it.
    FirstAccess(Forecast),
    /// The deadline permits a read of the drive: its predictor's forecast.
    Drive(Forecast),
}

impl CacheRuling {
    /// The forecast.
    #[must_use]
    pub const fn forecast(&self) -> &Forecast {
        match self {
            Self::InMemory(f) | Self::Evicted(f) | Self::FirstAccess(f) | Self::Drive(f) => f,
        }
    }
}

/// The page cache above a drive, and the drive's predictor.
///
/// The caller reports what comes into memory and what leaves it ([`filled`](Self::filled),
/// [`evicted`](Self::evicted)): in a simulation the model of the cache knows, live the kernel is
/// asked (`cachestat`, `mincore`). After [`CacheRuling::Evicted`] it also reads the pages in the
/// background; otherwise memory would hold less and less of what is read with short deadlines.
#[derive(Clone)]
pub struct MittCache {
    options: MittCacheOptions,
    resident: PageRecord,
    /// Of the same size, and filled together: so a page that the one has lost, the other has too.
    seen: PageRecord,
    below: Box<dyn Predictor>,
    /// Pages (first and number) of reads in flight, by the ticket of the predictor below.
    reads: Vec<(u64, u64)>,
}

impl std::fmt::Debug for MittCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let below = self.below.name();
        f.debug_struct("MittCache").field("options", &self.options).field("below", &below).finish()
    }
}

/// The pages of a request, first and number.
const fn pages(request: &Request) -> (u64, u64) {
    let first = request.offset / PAGE;
    (first, request.offset.saturating_add(request.length).div_ceil(PAGE) - first)
}

impl MittCache {
    /// An empty cache above the drive of this predictor.
    #[must_use]
    pub fn new(options: MittCacheOptions, below: Box<dyn Predictor>) -> Self {
        let record = PageRecord::new(options.pages);
        Self { options, resident: record.clone(), seen: record, below, reads: Vec::new() }
    }

    /// These pages of the drive are in memory now.
    pub fn filled(&mut self, first: u64, pages: u64) {
        self.resident.saw(first, pages);
        self.seen.saw(first, pages);
    }

    /// These pages are not in memory any more.
    pub fn evicted(&mut self, first: u64, pages: u64) {
        self.resident.forget(first, pages);
    }

    /// The decision on a request that would be sent at `now`. Changes nothing.
    #[must_use]
    pub fn ruling(&self, now: Nanos, request: &Request) -> CacheRuling {
        let (first, count) = pages(request);
        if request.op == Op::Read && self.resident.has_seen(first, count) {
            let wait = Some(self.options.memory);
            let forecast = Forecast { wait, fast: wait, ..Forecast::bare(Verdict::Fast) };
            return CacheRuling::InMemory(forecast);
        }
        let below = self.below.predict(now, request);
        let within = request.deadline.map(|deadline| deadline.since(now)).or(self.options.deadline);
        let expects_memory =
            request.op == Op::Read && within.is_some_and(|within| within < self.options.floor);
        if !expects_memory {
            return CacheRuling::Drive(below);
        }
        // No read takes less, whatever the predictor says.
        let wait = Some(below.wait.unwrap_or(Nanos::ZERO).max(self.options.floor));
        if self.seen.has_seen(first, count) {
            return CacheRuling::Evicted(Forecast { wait, ..Forecast::bare(Verdict::Late) });
        }
        let forecast = Forecast { verdict: Verdict::Fast, wait, fast: wait, ..below };
        CacheRuling::FirstAccess(forecast)
    }
}

impl Predictor for MittCache {
    fn name(&self) -> &'static str {
        "mitt-cache"
    }

    fn predict(&self, now: Nanos, request: &Request) -> Forecast {
        *self.ruling(now, request).forecast()
    }

    fn sent(&mut self, now: Nanos, request: &Request) -> Ticket {
        let (first, count) = pages(request);
        let is_read = request.op == Op::Read;
        if is_read && self.resident.has_seen(first, count) {
            return IN_MEMORY;
        }
        let ticket = self.below.sent(now, request);
        let index = ticket.0 as usize;
        if self.reads.len() <= index {
            self.reads.resize(index + 1, (0, 0));
        }
        self.reads[index] = if is_read { (first, count) } else { (0, 0) };
        ticket
    }

    fn completed(&mut self, now: Nanos, ticket: Ticket, data: bool) {
        if ticket == IN_MEMORY {
            return;
        }
        let (first, count) = self.reads[ticket.0 as usize];
        if data {
            self.filled(first, count);
        }
        self.below.completed(now, ticket, data);
    }

    fn dispatched(&mut self, now: Nanos, ticket: Ticket) {
        if ticket != IN_MEMORY {
            self.below.dispatched(now, ticket);
        }
    }

    fn next_cancelled(&mut self) -> Option<Ticket> {
        self.below.next_cancelled()
    }

    fn observe(&mut self, event: &HostEvent) {
        match *event {
            HostEvent::Cache(CacheEvent::Filled { first, pages }) => self.filled(first, pages),
            HostEvent::Cache(CacheEvent::Evicted { first, pages }) => self.evicted(first, pages),
            HostEvent::Flash(_) => self.below.observe(event),
        }
    }

    fn boxed_clone(&self) -> Box<dyn Predictor> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
