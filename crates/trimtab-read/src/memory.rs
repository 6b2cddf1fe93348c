//! Reads that are expected in memory: their deadline is shorter than any read of the drive.
//!
//! ```text
//!   in the page cache? ── yes ──> copy
//!         │ no
//!   were all its pages seen there? ── no ──> first access: sent
//!         │ yes
//!   evicted: Refusal (EBUSY), and the pages are brought in in the background
//! ```
//!
//! MittCache (MittOS, dissertation §4.2.4): the refusal signals contention for memory.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use trimtab_io::Nanos;
use trimtab_predict::PageRecord;

use crate::admission::{Admission, ReadRequest};
use crate::error::{Refusal, RefusalCause, Urgency};
use crate::forecast::duration;
use crate::lane::Lane;
use crate::options::nanos;
use crate::page_fetch::{PageRange, fetch};
use crate::reader::Reader;
use crate::token::AdmissionReason;

/// What a reader knows of its file's pages.
#[derive(Debug)]
pub(super) struct Memory {
    below: Option<Duration>,
    /// Made by the first read that is expected in memory.
    record: OnceLock<PageRecord>,
}

/// The decision on a read that may be expected in memory.
pub(super) enum InMemory<'a, 'b> {
    Decided(Result<Admission<'a>, Refusal>),
    /// It is a read of the drive: decide by forecast.
    Undecided(ReadRequest<'b>),
}

impl Memory {
    pub(super) const fn new(below: Option<Duration>) -> Self {
        Self { below, record: OnceLock::new() }
    }
}

/// The pages of a range, first and number.
fn pages(offset: u64, length: u64) -> (u64, u64) {
    let page = rustix::param::page_size() as u64;
    let first = offset / page;
    (first, offset.saturating_add(length).div_ceil(page) - first)
}

impl Reader {
    /// Decides on a read that is expected in memory.
    pub(super) fn expected_in_memory<'a, 'b>(
        &'a self,
        lane: &'a Lane,
        wanted: ReadRequest<'b>,
        offset: u64,
        urgency: Urgency,
        number: u64,
    ) -> InMemory<'a, 'b> {
        let Urgency::Deadline(within) = urgency else { return InMemory::Undecided(wanted) };
        if self.is_direct {
            return InMemory::Undecided(wanted);
        }
        let floor = lane.outstanding.floor.get();
        let below = self.memory.below.map(nanos).or(floor).unwrap_or(Nanos::ZERO);
        if nanos(within) >= below {
            return InMemory::Undecided(wanted);
        }
        let mut wanted = wanted;
        let length = wanted.length();
        let Ok(held) = self.held(wanted.reborrow(), offset) else {
            // The kernel does not report what is cached.
            return InMemory::Undecided(wanted);
        };
        if let Some(bytes) = held {
            let read = if matches!(wanted, ReadRequest::Data(_)) { bytes as u64 } else { length };
            let (first, count) = pages(offset, read);
            self.record().saw(first, count);
            lane.counters().cached();
            return InMemory::Decided(Ok(Admission::Done(bytes)));
        }
        let (first, count) = pages(offset, self.length_to_end(length, offset).unwrap_or(length));
        if !self.record().has_seen(first, count) {
            lane.counters().first_access();
            let token = lane.token(AdmissionReason::NoForecast, None);
            return InMemory::Decided(Ok(Admission::Send(token)));
        }
        if !lane.limiter.may_refuse(number) {
            return InMemory::Undecided(wanted);
        }
        lane.counters().evicted();
        fetch(PageRange::File(Arc::clone(&self.file), offset, length));
        let refusal = Refusal { expected_wait: duration(floor), cause: RefusalCause::Evicted };
        InMemory::Decided(Err(refusal))
    }

    fn record(&self) -> &PageRecord {
        self.memory.record.get_or_init(|| {
            let length = self.file.metadata().map_or(0, |metadata| metadata.len());
            // The length of a device is not in its metadata.
            let pages = if length == 0 { PageRecord::MOST_PAGES } else { pages(0, length).1 };
            PageRecord::new(pages)
        })
    }

    /// A read has copied this range from memory, or brought it there.
    pub(super) fn saw(&self, offset: u64, length: u64) {
        // Before a read was expected in memory there is a record only if one surely will be.
        let is_announced = self.memory.below.is_some_and(|below| !below.is_zero());
        let record = match self.memory.record.get() {
            None if is_announced && !self.is_direct => Some(self.record()),
            record => record,
        };
        if let Some(record) = record {
            let (first, count) = pages(offset, length);
            record.saw(first, count);
        }
    }
}
