//! Readahead of an open file.
//!
//! A window is the range that was requested last. One of its pages is marked: reading it asks
//! for the next window, so that a sequential reader does not wait. The first window is two or
//! four times the read, the next twice or four times the one before, up to the limit. A read in
//! the middle of nothing gets what it asks for.

/// An open file: where it lies on the drive, and the state of its readahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// The page of the drive at which it begins; it is contiguous.
    first: u64,
    pages: u64,
    /// The window that was requested last: its start, length, and how many of its pages are left
    /// when the next one is asked for.
    start: u64,
    length: u64,
    ahead: u64,
    /// The page read last; none: before the first.
    previous: Option<u64>,
}

/// Pages to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) pages: u64,
    /// The page to mark.
    pub(super) marker: Option<u64>,
}

impl OpenFile {
    /// A file that begins at this page of the drive, and has this many pages.
    #[must_use]
    pub const fn new(first: u64, pages: u64) -> Self {
        Self { first, pages, start: 0, length: 0, ahead: 0, previous: None }
    }

    /// Its length, pages.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.pages
    }

    /// The page of the drive that holds a page of the file.
    #[must_use]
    pub const fn on_drive(&self, page: u64) -> u64 {
        self.first + page
    }

    /// A page has been read.
    pub(super) const fn read(&mut self, page: u64) {
        self.previous = Some(page);
    }

    /// A read of `wanted` pages finds that the one at `at` is missing; at most `limit` pages are
    /// read ahead, and `has` tells which pages of the drive have frames.
    pub(super) fn at_miss(
        &mut self,
        at: u64,
        wanted: u64,
        limit: u64,
        has: impl Fn(u64) -> bool,
    ) -> Window {
        if limit == 0 {
            return Window { start: at, pages: wanted, marker: None };
        }
        let is_next = self.previous.is_some_and(|last| at.wrapping_sub(last) <= 1);
        if at == 0 || wanted > limit || is_next {
            let length = first_length(wanted, limit);
            let ahead = if length > wanted { length - wanted } else { length / 2 };
            return self.window(at, length, ahead);
        }
        // Pages before it that have been read are the history of a stream, also of one that
        // another descriptor has read.
        let longest = limit.min(at);
        let history = (1..=longest).take_while(|back| has(self.on_drive(at - back))).count() as u64;
        if history <= wanted {
            return Window { start: at, pages: wanted, marker: None };
        }
        let history = if history == at { 2 * history } else { history };
        self.window(at, (history + wanted).min(limit), 1)
    }

    /// The marked page at `at` is read, in a read of which `wanted` pages are left.
    pub(super) fn at_marker(
        &mut self,
        at: u64,
        wanted: u64,
        limit: u64,
        has: impl Fn(u64) -> bool,
    ) -> Window {
        if limit == 0 {
            return Window { start: at, pages: 0, marker: None };
        }
        if at == self.start + self.length - self.ahead.min(self.length) {
            let length = next_length(self.length, limit);
            return self.window(self.start + self.length, length, length);
        }
        // A window of another reader: it continues behind what is there.
        let behind = (1..=limit).find(|ahead| !has(self.on_drive(at + ahead)));
        let Some(behind) = behind else { return Window { start: at, pages: 0, marker: None } };
        let length = next_length(behind + wanted, limit);
        self.window(at + behind, length, length)
    }

    fn window(&mut self, start: u64, length: u64, ahead: u64) -> Window {
        (self.start, self.length, self.ahead) = (start, length, ahead);
        Window { start, pages: length, marker: Some(start + length - ahead) }
    }
}

/// The length of a first window.
fn first_length(wanted: u64, limit: u64) -> u64 {
    let length = wanted.next_power_of_two();
    if length <= limit / 32 {
        length * 4
    } else if length <= limit / 4 {
        length * 2
    } else {
        limit
    }
}

/// The length of the window after one of this length.
const fn next_length(length: u64, limit: u64) -> u64 {
    if length < limit / 16 {
        4 * length
    } else if length <= limit / 2 {
        2 * length
    } else {
        limit
    }
}
