//! The frames of the cache, and the lists that they are on.

use std::ops::{Index, IndexMut};

/// No frame.
pub(super) const NONE: u32 = u32::MAX;

/// The lists of reclaim, and the free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Inactive,
    Active,
    Free,
}

/// A frame of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The page of the drive.
    pub(super) page: u64,
    before: u32,
    after: u32,
    dirty_before: u32,
    dirty_after: u32,
    pub(super) list: List,
    pub(super) is_referenced: bool,
    /// Requested from the drive, and not there yet.
    pub(super) is_in_flight: bool,
    /// Reading it asks for the next readahead window.
    pub(super) is_marked: bool,
    /// Changed, and on the list of dirty frames.
    pub(super) is_dirty: bool,
    pub(super) is_being_written: bool,
}

impl Frame {
    /// Whether its page cannot be evicted now.
    pub(super) const fn is_kept(&self) -> bool {
        self.is_in_flight || self.is_dirty || self.is_being_written
    }
}

/// The ends of a list: the newest and the oldest frame.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
    length: u32,
}

const EMPTY: Ends = Ends { first: NONE, last: NONE, length: 0 };

/// All frames.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    frames: Box<[Frame]>,
    /// By [`List`]; only the first frame of the free list is used.
    lists: [Ends; 3],
    dirty: Ends,
    being_written: u32,
}

impl Index<u32> for Frames {
    type Output = Frame;

    fn index(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }
}

impl IndexMut<u32> for Frames {
    fn index_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }
}

impl Frames {
    pub(super) fn new(count: u32) -> Self {
        let free = Frame {
            page: 0,
            before: NONE,
            after: NONE,
            dirty_before: NONE,
            dirty_after: NONE,
            list: List::Free,
            is_referenced: false,
            is_in_flight: false,
            is_marked: false,
            is_dirty: false,
            is_being_written: false,
        };
        let frames = vec![free; count as usize].into_boxed_slice();
        let mut this = Self { frames, lists: [EMPTY; 3], dirty: EMPTY, being_written: 0 };
        (0..count).rev().for_each(|frame| this.link(frame, List::Free));
        this
    }

    pub(super) const fn capacity(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Frames in use.
    pub(super) const fn len(&self) -> u32 {
        self.capacity() - self.length(List::Free)
    }

    pub(super) const fn length(&self, list: List) -> u32 {
        self.lists[list as usize].length
    }

    /// The oldest frame of a list.
    pub(super) const fn last(&self, list: List) -> u32 {
        self.lists[list as usize].last
    }

    /// Puts a page into a free frame, at the beginning of the inactive list. One must be free.
    pub(super) fn insert(&mut self, page: u64) -> u32 {
        let frame = self.lists[List::Free as usize].first;
        self.unlink(frame);
        let entry = &mut self[frame];
        entry.page = page;
        entry.is_referenced = false;
        entry.is_in_flight = false;
        entry.is_marked = false;
        self.link(frame, List::Inactive);
        frame
    }

    /// Frees a frame that is neither dirty nor being written.
    pub(super) fn remove(&mut self, frame: u32) {
        self.move_to(frame, List::Free);
    }

    /// Moves a frame to the beginning of a list.
    pub(super) fn move_to(&mut self, frame: u32, list: List) {
        self.unlink(frame);
        self.link(frame, list);
    }

    fn link(&mut self, frame: u32, list: List) {
        let first = self.lists[list as usize].first;
        let entry = &mut self[frame];
        (entry.list, entry.before, entry.after) = (list, NONE, first);
        if first == NONE {
            self.lists[list as usize].last = frame;
        } else {
            self[first].before = frame;
        }
        let ends = &mut self.lists[list as usize];
        ends.first = frame;
        ends.length += 1;
    }

    fn unlink(&mut self, frame: u32) {
        let Frame { before, after, list, .. } = self[frame];
        if before == NONE {
            self.lists[list as usize].first = after;
        } else {
            self[before].after = after;
        }
        if after == NONE {
            self.lists[list as usize].last = before;
        } else {
            self[after].before = before;
        }
        self.lists[list as usize].length -= 1;
    }

    /// Dirty frames that are not being written.
    pub(super) const fn dirty(&self) -> u32 {
        self.dirty.length
    }

    /// Frames whose content the drive does not have yet.
    pub(super) const fn unwritten(&self) -> u32 {
        self.dirty.length + self.being_written
    }

    pub(super) const fn oldest_dirty(&self) -> Option<u32> {
        if self.dirty.last == NONE { None } else { Some(self.dirty.last) }
    }

    /// A frame was changed. One that is dirty already keeps its age.
    pub(super) fn set_dirty(&mut self, frame: u32) {
        if self[frame].is_dirty {
            return;
        }
        let first = self.dirty.first;
        let entry = &mut self[frame];
        entry.is_dirty = true;
        (entry.dirty_before, entry.dirty_after) = (NONE, first);
        if first == NONE {
            self.dirty.last = frame;
        } else {
            self[first].dirty_before = frame;
        }
        self.dirty.first = frame;
        self.dirty.length += 1;
    }

    /// Frames that hold a page.
    pub(super) fn used(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().filter(|frame| frame.list != List::Free)
    }

    /// A dirty frame is being written.
    pub(super) fn begin_write(&mut self, frame: u32) {
        let Frame { dirty_before, dirty_after, is_being_written, .. } = self[frame];
        if dirty_before == NONE {
            self.dirty.first = dirty_after;
        } else {
            self[dirty_before].dirty_after = dirty_after;
        }
        if dirty_after == NONE {
            self.dirty.last = dirty_before;
        } else {
            self[dirty_after].dirty_before = dirty_before;
        }
        self.dirty.length -= 1;
        self.being_written += u32::from(!is_being_written);
        let entry = &mut self[frame];
        entry.is_dirty = false;
        entry.is_being_written = true;
    }

    pub(super) fn set_written(&mut self, frame: u32) {
        let entry = &mut self[frame];
        let was = std::mem::replace(&mut entry.is_being_written, false);
        self.being_written -= u32::from(was);
    }
}
