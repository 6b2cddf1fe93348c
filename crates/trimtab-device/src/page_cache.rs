//! A page cache above a drive: which pages are in memory, and what is read from below.
//!
//! [`PageCache`] is the memory that several tenants share, as Linux manages it for files: an
//! inactive and an active list, readahead by open file, and eviction. A read says which of its
//! pages are in memory, and names what has to come from the drive; the caller reports the data's
//! arrival. There is no time in it: a page's state depends on the order of calls alone.
//!
//! ```text
//!   new page ──> inactive ── accessed twice ──> active
//!                 │    ^                          │
//!        evicted <┘    └── inactive list is low ──┘
//! ```
//!
//! - **Second chance.** A page enters the inactive list. The first access marks it, the second
//!   moves it to the active list, where an access marks it again. Pages leave at the end of the
//!   inactive list, in order.
//! - **Ratio.** While the active list is longer than `ratio` times the inactive one, its oldest
//!   pages move there. The ratio is √(10 · GiB of memory), at least 1.
//! - **Readahead** ([`OpenFile`]): a window that doubles with sequential reads, up to
//!   [`CacheProfile::readahead`], and asks for the next one when its marked page is read.
//! - **Neighbours** take pages by reading, or for good ([`PageCache::take`]).
//! - **Writes** dirty pages. Beyond [`CacheProfile::background_dirty`] the oldest are written
//!   below; beyond [`CacheProfile::most_dirty`] the writer has to wait. That is as far as waiting
//!   time needs it: there is no write-back by age.
//!
//! Source: the rules are those of Linux 6.x (Documentation/mm, "Page Reclaim"; the readahead
//! algorithm is Wu et al., *On the design of a new Linux readahead framework*, 2008). Not
//! modelled: refault distances, several zones and groups, mapped pages' references, large
//! folios. A test compares the windows with the running kernel's.
//!
//! Each page costs constant time, memory is allocated once (at most 64 bytes for each
//! page), and no order depends on a hash table.
//!
//! ```
//! use trimtab_device::{Below, CacheProfile, OpenFile, PageCache};
//!
//! let profile = CacheProfile { pages: 1024, ..CacheProfile::default() };
//! let mut cache = PageCache::new(&profile)?;
//! let mut file = OpenFile::new(0, 512);
//! let mut below = Vec::new();
//! let read = cache.read(&mut file, 7, 1, &mut below);
//! assert_eq!(read.missing, 1);
//! let [Below::Read { first, pages, .. }] = below[..] else { unreachable!() };
//! cache.filled(first, pages);
//! assert!(cache.is_resident(7));
//! assert_eq!(cache.read(&mut file, 7, 1, &mut below).resident, 1);
//! # Ok::<(), trimtab_device::CacheProfileError>(())
//! ```

mod frames;
mod index;
#[cfg(test)]
mod naive;
mod profile;
mod readahead;
#[cfg(test)]
mod tests;

use frames::{Frames, List, NONE};
use index::Index;

pub use profile::{CacheProfile, CacheProfileError};
pub use readahead::OpenFile;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// The most pages at the end of the inactive list that are passed over, because they are in
/// flight or dirty, before an allocation fails.
const MOST_SCANNED: u32 = 32;
/// Dirty pages that are written below at a time.
const WRITE_BATCH: u32 = 32;

/// What the cache asks of the drive below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// Read these pages; then call [`PageCache::filled`].
    Read {
        /// The first page of the drive.
        first: u64,
        /// Their number.
        pages: u64,
        /// Whether no program waits for any of them yet.
        is_readahead: bool,
    },
    /// Write these pages; then call [`PageCache::written`].
    Write {
        /// The first page of the drive.
        first: u64,
        /// Their number.
        pages: u64,
    },
}

/// The pages of a read or write, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// In memory.
    pub resident: u64,
    /// Requested before, and not there yet: the read has to wait for them too.
    pub in_flight: u64,
    /// Not in memory: requested from below with this read.
    pub missing: u64,
    /// Of the missing: no page was free, so the data bypasses the cache.
    pub bypassed: u64,
    /// Of a write: so many pages are dirty that the writer has to wait until some are written.
    pub is_throttled: bool,
}

/// Events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Pages that were read from memory.
    pub hits: u64,
    /// Pages that a read had to wait for.
    pub misses: u64,
    /// Pages requested by readahead.
    pub read_ahead: u64,
    /// Pages that were evicted.
    pub evicted: u64,
    /// Pages that moved to the active list.
    pub activated: u64,
    /// Pages that moved back.
    pub deactivated: u64,
    /// Pages written below.
    pub written: u64,
}

/// The cache. A clone continues exactly as its original.
#[derive(Clone, Debug)]
pub struct PageCache {
    frames: Frames,
    index: Index,
    /// Pages that may be in use: without those that neighbours have taken.
    limit: u32,
    ratio: u64,
    readahead: u64,
    background_dirty: u32,
    most_dirty: u32,
    stats: CacheStats,
    /// Pages evicted since they were taken last; `None`: not noted.
    evicted: Option<Vec<u64>>,
}

impl PageCache {
    /// An empty cache.
    ///
    /// # Errors
    /// A value of the profile is out of range.
    pub fn new(profile: &CacheProfile) -> Result<Self, CacheProfileError> {
        profile.check()?;
        let share = |share: f64| (f64::from(profile.pages) * share) as u32;
        Ok(Self {
            frames: Frames::new(profile.pages),
            index: Index::new(profile.pages),
            limit: profile.pages,
            ratio: profile.ratio(),
            readahead: profile.readahead / PAGE,
            background_dirty: share(profile.background_dirty),
            most_dirty: share(profile.most_dirty),
            stats: CacheStats::default(),
            evicted: None,
        })
    }

    /// Whether a page of the drive is in memory, with its data.
    #[must_use]
    pub fn is_resident(&self, page: u64) -> bool {
        self.frame(page).is_some_and(|frame| !self.frames[frame].is_in_flight)
    }

    /// The pages of the drive that are in memory, in no particular order.
    pub fn resident(&self) -> impl Iterator<Item = u64> {
        self.frames.used().filter(|frame| !frame.is_in_flight).map(|frame| frame.page)
    }

    /// Whether a page is on the active list.
    #[must_use]
    pub fn is_active(&self, page: u64) -> bool {
        self.frame(page).is_some_and(|frame| self.frames[frame].list == List::Active)
    }

    /// Pages on the inactive and the active list.
    #[must_use]
    pub const fn lengths(&self) -> (u32, u32) {
        (self.frames.length(List::Inactive), self.frames.length(List::Active))
    }

    /// Dirty pages.
    #[must_use]
    pub const fn dirty(&self) -> u32 {
        self.frames.dirty()
    }

    /// Events since the start.
    #[must_use]
    pub const fn stats(&self) -> &CacheStats {
        &self.stats
    }

    fn frame(&self, page: u64) -> Option<u32> {
        self.index.find(page, |frame| self.frames[frame].page)
    }

    /// A program reads pages of a file (from its beginning, `page`). What is to be read from
    /// below is appended, and so are writes that make room.
    pub fn read(
        &mut self,
        file: &mut OpenFile,
        page: u64,
        pages: u64,
        below: &mut Vec<Below>,
    ) -> Lookup {
        let mut lookup = Lookup::default();
        let end = page.saturating_add(pages).min(file.pages());
        for at in page.min(end)..end {
            let mut frame = self.frame(file.on_drive(at));
            if let Some(marked) = frame
                && self.frames[marked].is_marked
            {
                self.frames[marked].is_marked = false;
                let next = file.at_marker(at, end - at, self.readahead, |p| self.has(p));
                self.request(file, next, end, below);
                // In a very small cache the window may have taken its place.
                frame = self.frame(file.on_drive(at));
            }
            if frame.is_none() {
                let window = file.at_miss(at, end - at, self.readahead, |p| self.has(p));
                self.request(file, window, end, below);
                frame = self.frame(file.on_drive(at));
                lookup.missing += 1;
                self.stats.misses += 1;
                if frame.is_none() {
                    lookup.bypassed += 1;
                    push_read(below, file.on_drive(at), false);
                }
            } else if frame.is_some_and(|frame| self.frames[frame].is_in_flight) {
                // Requested by this call, or before.
                lookup.in_flight += 1;
                self.stats.misses += 1;
            } else {
                lookup.resident += 1;
                self.stats.hits += 1;
            }
            if let Some(frame) = frame {
                self.accessed(frame);
            }
            file.read(at);
        }
        lookup
    }

    /// Whether a page of the drive has a frame.
    fn has(&self, page: u64) -> bool {
        self.frame(page).is_some()
    }

    /// Requests the pages of a window that have no frame. The read ends before `wanted`.
    fn request(
        &mut self,
        file: &OpenFile,
        window: readahead::Window,
        wanted: u64,
        below: &mut Vec<Below>,
    ) {
        for at in window.start..(window.start + window.pages).min(file.pages()) {
            let page = file.on_drive(at);
            if self.has(page) {
                continue;
            }
            let Some(frame) = self.allocate(page, below) else { return };
            self.frames[frame].is_in_flight = true;
            self.frames[frame].is_marked = Some(at) == window.marker;
            let is_readahead = at >= wanted;
            self.stats.read_ahead += u64::from(is_readahead);
            push_read(below, page, is_readahead);
        }
    }

    /// The drive has delivered these pages. Those that are not in flight are ignored.
    pub fn filled(&mut self, first: u64, pages: u64) {
        for page in first..first + pages {
            if let Some(frame) = self.frame(page) {
                self.frames[frame].is_in_flight = false;
            }
        }
    }

    /// A program writes whole pages of the drive.
    pub fn write(&mut self, first: u64, pages: u64, below: &mut Vec<Below>) -> Lookup {
        let mut lookup = Lookup::default();
        for page in first..first + pages {
            let found = self.frame(page);
            match found {
                Some(_) => lookup.resident += 1,
                None => lookup.missing += 1,
            }
            match found.or_else(|| self.allocate(page, below)) {
                Some(frame) => {
                    self.frames[frame].is_in_flight = false;
                    self.frames.set_dirty(frame);
                    self.accessed(frame);
                }
                None => {
                    lookup.bypassed += 1;
                    push_write(below, page);
                    self.stats.written += 1;
                }
            }
        }
        while self.frames.dirty() > self.background_dirty && self.write_some(below) {}
        lookup.is_throttled = self.frames.unwritten() > self.most_dirty;
        lookup
    }

    /// The drive has written these pages.
    pub fn written(&mut self, first: u64, pages: u64) {
        for page in first..first + pages {
            if let Some(frame) = self.frame(page) {
                self.frames.set_written(frame);
            }
        }
    }

    /// Drops pages that are neither in flight nor dirty, as `posix_fadvise(POSIX_FADV_DONTNEED)`
    /// does.
    pub fn drop_pages(&mut self, first: u64, pages: u64) {
        for page in first..first + pages {
            if let Some(frame) = self.frame(page)
                && !self.frames[frame].is_kept()
            {
                self.evict(frame);
            }
        }
    }

    /// Notes evicted pages from now on, for [`take_evicted`](Self::take_evicted).
    pub fn tell_evicted(&mut self) {
        self.evicted = Some(Vec::new());
    }

    /// Calls `take` for each page that was evicted since the last call, if they are noted.
    pub fn take_evicted(&mut self, take: impl FnMut(u64)) {
        if let Some(evicted) = &mut self.evicted {
            evicted.drain(..).for_each(take);
        }
    }

    /// Neighbours take this many pages, as a program's memory: they are evicted, and the cache
    /// is smaller until they are [given back](Self::give_back). Returns how many could be taken.
    pub fn take(&mut self, pages: u32, below: &mut Vec<Below>) -> u32 {
        for taken in 0..pages {
            if self.frames.len() >= self.limit && !self.evict_one(below) {
                return taken;
            }
            if self.limit == 0 {
                return taken;
            }
            self.limit -= 1;
        }
        pages
    }

    /// Neighbours give pages back.
    pub fn give_back(&mut self, pages: u32) {
        self.limit = self.limit.saturating_add(pages).min(self.frames.capacity());
    }

    /// A page is accessed: the second chance.
    fn accessed(&mut self, frame: u32) {
        let (list, was_referenced) = (self.frames[frame].list, self.frames[frame].is_referenced);
        if list == List::Inactive && was_referenced {
            self.frames[frame].is_referenced = false;
            self.frames.move_to(frame, List::Active);
            self.stats.activated += 1;
        } else {
            self.frames[frame].is_referenced = true;
        }
    }

    /// A frame for a page that has none, at the beginning of the inactive list.
    fn allocate(&mut self, page: u64, below: &mut Vec<Below>) -> Option<u32> {
        if self.frames.len() >= self.limit && !self.evict_one(below) {
            return None;
        }
        let frame = self.frames.insert(page);
        self.index.insert(page, frame);
        Some(frame)
    }

    /// Evicts the oldest inactive page that is neither in flight nor dirty. False if there is
    /// none among the last.
    fn evict_one(&mut self, below: &mut Vec<Below>) -> bool {
        self.balance();
        for _ in 0..MOST_SCANNED {
            let frame = self.frames.last(List::Inactive);
            if frame == NONE {
                return false;
            }
            let found = &self.frames[frame];
            if found.is_kept() {
                if found.is_dirty {
                    self.write_some(below);
                }
                self.frames.move_to(frame, List::Inactive);
                continue;
            }
            self.evict(frame);
            return true;
        }
        false
    }

    fn evict(&mut self, frame: u32) {
        let page = self.frames[frame].page;
        self.index.remove(page, frame);
        self.frames.remove(frame);
        self.stats.evicted += 1;
        if let Some(evicted) = &mut self.evicted {
            evicted.push(page);
        }
    }

    /// Moves up to two pages from the active list, if the inactive one is low: more than one
    /// page enters it for each that is evicted, so it catches up.
    fn balance(&mut self) {
        for _ in 0..2 {
            let (inactive, active) = self.lengths();
            if u64::from(inactive) * self.ratio >= u64::from(active) {
                return;
            }
            let frame = self.frames.last(List::Active);
            self.frames[frame].is_referenced = false;
            self.frames.move_to(frame, List::Inactive);
            self.stats.deactivated += 1;
        }
    }

    /// Writes the oldest dirty pages. False if there are none.
    fn write_some(&mut self, below: &mut Vec<Below>) -> bool {
        for written in 0..WRITE_BATCH {
            let Some(frame) = self.frames.oldest_dirty() else { return written > 0 };
            self.frames.begin_write(frame);
            push_write(below, self.frames[frame].page);
            self.stats.written += 1;
        }
        true
    }
}

/// Appends a page, to the last request if it follows that.
fn push_read(below: &mut Vec<Below>, page: u64, ahead: bool) {
    match below.last_mut() {
        Some(Below::Read { first, pages, is_readahead }) if *first + *pages == page => {
            *pages += 1;
            *is_readahead &= ahead;
        }
        _ => below.push(Below::Read { first: page, pages: 1, is_readahead: ahead }),
    }
}

fn push_write(below: &mut Vec<Below>, page: u64) {
    match below.last_mut() {
        Some(Below::Write { first, pages }) if *first + *pages == page => *pages += 1,
        _ => below.push(Below::Write { first: page, pages: 1 }),
    }
}
