//! A second, slow implementation of the cache, for tests: lists are vectors that are searched.

use super::readahead::Window;
use super::{Below, CacheProfile, Lookup, MOST_SCANNED, OpenFile, PAGE, WRITE_BATCH};

#[derive(Clone, Debug, Default)]
struct Entry {
    page: u64,
    referenced: bool,
    in_flight: bool,
    marked: bool,
    dirty: bool,
    being_written: bool,
}

/// The newest entry is the first of each list.
#[derive(Clone, Debug)]
pub(super) struct Naive {
    inactive: Vec<Entry>,
    active: Vec<Entry>,
    /// Pages, the newest first.
    dirty: Vec<u64>,
    profile: CacheProfile,
    limit: usize,
}

impl Naive {
    pub(super) fn new(profile: &CacheProfile) -> Self {
        let limit = profile.pages as usize;
        Self { inactive: vec![], active: vec![], dirty: vec![], profile: *profile, limit }
    }

    pub(super) fn lengths(&self) -> (u32, u32) {
        (self.inactive.len() as u32, self.active.len() as u32)
    }

    fn entry(&mut self, page: u64) -> Option<&mut Entry> {
        self.inactive.iter_mut().chain(&mut self.active).find(|entry| entry.page == page)
    }

    fn has(&self, page: u64) -> bool {
        self.inactive.iter().chain(&self.active).any(|entry| entry.page == page)
    }

    /// Whether a page is in memory, and whether it is active.
    pub(super) fn state(&mut self, page: u64) -> (bool, bool) {
        let is_active = self.active.iter().any(|entry| entry.page == page);
        (self.entry(page).is_some_and(|entry| !entry.in_flight), is_active)
    }

    pub(super) fn read(
        &mut self,
        file: &mut OpenFile,
        page: u64,
        pages: u64,
        below: &mut Vec<Below>,
    ) -> Lookup {
        let mut lookup = Lookup::default();
        let limit = self.profile.readahead / PAGE;
        let end = (page + pages).min(file.pages());
        for at in page..end {
            let on_drive = file.on_drive(at);
            if let Some(entry) = self.entry(on_drive)
                && entry.marked
            {
                entry.marked = false;
                let window = file.at_marker(at, end - at, limit, |p| self.has(p));
                self.request(file, window, end, below);
            }
            if !self.has(on_drive) {
                let window = file.at_miss(at, end - at, limit, |p| self.has(p));
                self.request(file, window, end, below);
                lookup.missing += 1;
                if !self.has(on_drive) {
                    lookup.bypassed += 1;
                    super::push_read(below, on_drive, false);
                }
            } else if self.entry(on_drive).unwrap().in_flight {
                lookup.in_flight += 1;
            } else {
                lookup.resident += 1;
            }
            self.accessed(on_drive);
            file.read(at);
        }
        lookup
    }

    fn request(&mut self, file: &OpenFile, window: Window, wanted: u64, below: &mut Vec<Below>) {
        for at in window.start..window.start + window.pages {
            let page = file.on_drive(at);
            if at >= file.pages() || self.has(page) {
                continue;
            }
            if !self.make_room(below) {
                return;
            }
            let marked = window.marker == Some(at);
            self.inactive.insert(0, Entry { page, in_flight: true, marked, ..Entry::default() });
            super::push_read(below, page, at >= wanted);
        }
    }

    pub(super) fn filled(&mut self, first: u64, pages: u64) {
        for page in first..first + pages {
            if let Some(entry) = self.entry(page) {
                entry.in_flight = false;
            }
        }
    }

    pub(super) fn write(&mut self, first: u64, pages: u64, below: &mut Vec<Below>) -> Lookup {
        let mut lookup = Lookup::default();
        for page in first..first + pages {
            if self.has(page) {
                lookup.resident += 1;
            } else {
                lookup.missing += 1;
                if !self.make_room(below) {
                    lookup.bypassed += 1;
                    super::push_write(below, page);
                    continue;
                }
                self.inactive.insert(0, Entry { page, ..Entry::default() });
            }
            let entry = self.entry(page).unwrap();
            entry.in_flight = false;
            if !std::mem::replace(&mut entry.dirty, true) {
                self.dirty.insert(0, page);
            }
            self.accessed(page);
        }
        let share = |share: f64| (f64::from(self.profile.pages) * share) as usize;
        let (background, most) =
            (share(self.profile.background_dirty), share(self.profile.most_dirty));
        while self.dirty.len() > background {
            self.write_some(below);
        }
        let written = |entry: &&Entry| entry.being_written;
        let all = self.inactive.iter().chain(&self.active);
        lookup.is_throttled = self.dirty.len() + all.filter(written).count() > most;
        lookup
    }

    pub(super) fn written(&mut self, first: u64, pages: u64) {
        for page in first..first + pages {
            if let Some(entry) = self.entry(page) {
                entry.being_written = false;
            }
        }
    }

    pub(super) fn take(&mut self, pages: u32, below: &mut Vec<Below>) -> u32 {
        for taken in 0..pages {
            if self.limit == 0 || !self.make_room(below) {
                return taken;
            }
            self.limit -= 1;
        }
        pages
    }

    pub(super) fn give_back(&mut self, pages: u32) {
        self.limit = (self.limit + pages as usize).min(self.profile.pages as usize);
    }

    fn accessed(&mut self, page: u64) {
        if let Some(at) = self.inactive.iter().position(|entry| entry.page == page) {
            if self.inactive[at].referenced {
                let mut entry = self.inactive.remove(at);
                entry.referenced = false;
                self.active.insert(0, entry);
            } else {
                self.inactive[at].referenced = true;
            }
        } else if let Some(entry) = self.entry(page) {
            entry.referenced = true;
        }
    }

    fn make_room(&mut self, below: &mut Vec<Below>) -> bool {
        if self.inactive.len() + self.active.len() < self.limit {
            return true;
        }
        for _ in 0..2 {
            if self.inactive.len() as u64 * self.profile.ratio() < self.active.len() as u64 {
                let mut entry = self.active.pop().unwrap();
                entry.referenced = false;
                self.inactive.insert(0, entry);
            }
        }
        for _ in 0..MOST_SCANNED {
            let Some(last) = self.inactive.last() else { return false };
            if !(last.in_flight || last.dirty || last.being_written) {
                self.inactive.pop();
                return true;
            }
            if last.dirty {
                self.write_some(below);
            }
            let last = self.inactive.pop().unwrap();
            self.inactive.insert(0, last);
        }
        false
    }

    fn write_some(&mut self, below: &mut Vec<Below>) {
        for _ in 0..WRITE_BATCH {
            let Some(page) = self.dirty.pop() else { return };
            let entry = self.entry(page).unwrap();
            (entry.dirty, entry.being_written) = (false, true);
            super::push_write(below, page);
        }
    }
}
