//! Whether mapped memory can be used without waiting for a drive.
//!
//! An access to mapped memory is no system call: if its page is gone, the thread is held until
//! the drive has delivered it, and no error can be returned. So the program asks before the
//! access (`addrcheck`, MittOS, dissertation §4.2.4).

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustix::io::Errno;
use trimtab_io::Nanos;
use trimtab_predict::PageRecord;

use crate::error::{ReadError, Refusal, RefusalCause};
use crate::forecast::duration;
use crate::mapping::{self, Mapping};
use crate::options::nanos;
use crate::page_fetch::{PageRange, fetch, usual_wait};
use crate::resident::{MOST, Residency, are_resident};

/// The most mappings whose pages are recorded.
const MOST_MAPPINGS: usize = 64;
/// The expected wait before one has been measured: a read of flash takes about as long.
const ASSUMED_WAIT: Nanos = Nanos(100_000);

/// What is known of this process's mapped files.
struct Known {
    /// By page number.
    pages: PageRecord,
    mappings: ArcSwap<Vec<Mapping>>,
    changing: Mutex<()>,
}

impl Known {
    fn get() -> &'static Self {
        static KNOWN: OnceLock<Known> = OnceLock::new();
        KNOWN.get_or_init(|| Self {
            pages: PageRecord::new(PageRecord::MOST_PAGES),
            mappings: ArcSwap::default(),
            changing: Mutex::new(()),
        })
    }

    /// The known mapping at this address; an unknown one is looked up.
    fn mapping(&self, address: usize) -> Option<Mapping> {
        let known = self.mappings.load().iter().find(|one| one.contains(address)).copied();
        known.or_else(|| {
            let found = mapping::find(address)?;
            self.learn(found);
            Some(found)
        })
    }

    /// Whether the mapping at this address is still the one whose pages were recorded. If it is
    /// not, they are forgotten.
    fn is_current(&self, address: usize) -> bool {
        let known = self.mappings.load().iter().find(|one| one.contains(address)).copied();
        let now = mapping::find(address);
        if let Some(now) = now {
            self.learn(now);
        }
        known.zip(now).is_some_and(|(known, now)| known.is_same_file(&now))
    }

    /// Adds a mapping, in place of those that were there. The oldest is forgotten if there are
    /// too many.
    fn learn(&self, found: Mapping) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mappings = Vec::clone(&self.mappings.load());
        let before = mappings.len();
        let is_other = |one: &Mapping| one.overlaps(&found) && !one.is_same_file(&found);
        // Without knowledge of which pages were of a mapping that is forgotten, all are.
        let mut has_other = mappings.iter().any(is_other);
        mappings.retain(|one| !one.overlaps(&found));
        if mappings.len() >= MOST_MAPPINGS && mappings.len() == before {
            mappings.remove(0);
            has_other = true;
        }
        mappings.push(found);
        if has_other {
            self.pages.clear();
        }
        self.mappings.store(mappings.into());
    }

    /// Records pages (by number) that are resident, if they are a file's.
    fn saw(&self, first: usize, pages: usize, page: usize) {
        if self.pages.has_seen(first as u64, pages as u64) {
            return;
        }
        let (mut at, end) = (first * page, (first + pages) * page);
        while at < end {
            let Some(mapping) = self.mapping(at) else { return };
            let until = mapping.end.min(end);
            self.pages.saw((at / page) as u64, ((until - at) / page) as u64);
            at = until;
        }
    }
}

/// Whether `length` bytes of mapped memory at `address` can be read within `deadline`: they are
/// in memory, or the drive is expected to deliver them by then.
///
/// For memory that is mapped from a file (`mmap(2)`), before an access that must not wait. The
/// answer holds for the moment: pages may be evicted right after it. Memory of no file, a
/// length of zero, and files of which the kernel does not report residency (those that the
/// process neither owns nor may write) are always accepted.
///
/// Pages are refused only if they were in memory at an earlier check and are gone, never at
/// their first check. Refused pages are brought in in the background, at most 1 MiB at a time.
/// The pages that have been seen are recorded in 1 MiB for the process, exact for 16 GiB
/// of addresses in at most 64 mappings; a forgotten page is accepted. The expected wait is the
/// moving mean of the time that refused pages took to come in; 100 µs is assumed before one has
/// been measured.
///
/// Costs one system call for 512 pages, and at most some tens of nanoseconds more. A range that
/// was not checked before, and a refusal, cost some microseconds more.
///
/// Source: `addrcheck` of MittCache (MittOS, dissertation §4.2.4).
///
/// # Errors
/// [`ReadError::Refused`] (`EBUSY`): some pages are gone, and would take longer. Use another
/// replica. [`ReadError::Io`] with `ENOMEM`: some of the range is not mapped, or it passes the
/// end of the address space.
pub fn addrcheck(address: *const u8, length: usize, deadline: Duration) -> Result<(), ReadError> {
    if length == 0 {
        return Ok(());
    }
    let page = rustix::param::page_size();
    let start = address.addr();
    let end = start.checked_add(length - 1).ok_or_else(unmapped)?;
    let (first, last) = (start / page, end / page);
    let mut residency = Residency::new();
    let mut at = first;
    while at <= last {
        let pages = (last - at + 1).min(MOST);
        let resident = residency.ask(at * page, pages, page)?;
        if are_resident(resident) {
            Known::get().saw(at, pages, page);
        } else {
            check_missing(resident, at, page, deadline)?;
        }
        at += pages;
    }
    Ok(())
}

fn unmapped() -> ReadError {
    ReadError::Io(Errno::NOMEM.into())
}

/// Decides on pages (from this number on) of which some are missing.
fn check_missing(
    resident: &[u8],
    first: usize,
    page: usize,
    deadline: Duration,
) -> Result<(), ReadError> {
    let known = Known::get();
    let was_seen = |i: usize| known.pages.has_seen((first + i) as u64, 1);
    let is_evicted = resident.iter().enumerate().all(|(i, f)| !is_missing(f) || was_seen(i));
    for (i, _) in resident.iter().enumerate().filter(|(_, flag)| !is_missing(flag)) {
        known.saw(first + i, 1, page);
    }
    let measured = usual_wait();
    if !is_evicted || nanos(deadline) >= measured.unwrap_or(ASSUMED_WAIT) {
        return Ok(());
    }
    let ends = (resident.iter().position(is_missing), resident.iter().rposition(is_missing));
    let (Some(from), Some(to)) = ends else { return Ok(()) };
    // A mapping of another file at this address has not been read before.
    if !known.is_current((first + from) * page) {
        return Ok(());
    }
    fetch(PageRange::Mapped((first + from) * page, (to - from + 1) * page));
    let refusal = Refusal { expected_wait: duration(measured), cause: RefusalCause::Evicted };
    Err(refusal.into())
}

const fn is_missing(flag: &u8) -> bool {
    *flag & 1 == 0
}
