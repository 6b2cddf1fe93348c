//! Erase blocks: which are free, which are being written, which are full.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read, Write};

use crate::error::Inconsistency;
use crate::firmware::Candidates;
use crate::layout::Layout;
use crate::map::Map;
use crate::ssd::save::{damaged, get, get_all, put, put_all};

/// Free blocks of each plane reserved for cleaning.
pub(crate) const RESERVED_FOR_CLEANING: usize = 1;

/// The source of a write. Each source writes to its own blocks, because data moved by cleaning
/// lives longer than new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteStream {
    User = 0,
    Cleaning = 1,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    Free,
    /// Being written, with the next page's number.
    Open(WriteStream, u32),
    /// All its pages have been programmed.
    Full,
}

/// The blocks of all planes.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    planes: Box<[Plane]>,
    /// By block: whether all its pages have been programmed.
    full: Box<[bool]>,
    /// By block: `fills` when that happened.
    filled_at: Box<[u64]>,
    /// By block.
    erases: Box<[u32]>,
    /// Total erases; and, by block, that total at its last erase.
    erasures: u64,
    erased_at: Box<[u64]>,
    /// Blocks filled so far.
    fills: u64,
    /// Free blocks of the whole drive.
    free: usize,
    /// Whether dynamic wear levelling is on: the least worn free block is taken first.
    level: bool,
}

#[derive(Clone, Debug)]
struct Plane {
    /// Free blocks, the next on top: ordered by erases, or by when they became free.
    free: BinaryHeap<Reverse<(u64, u32)>>,
    /// The blocks being written, by [`WriteStream`]: the next page's number.
    open: [Option<u32>; 2],
}

/// Beyond a drive's lifetime, and small enough to count on from there.
const MAX_FILLS: u64 = 1 << 62;
const MAX_ERASES: u64 = 1 << 31;

/// The error for inconsistent blocks in a saved drive.
fn inconsistent() -> io::Error {
    damaged("has inconsistent blocks")
}

impl Plane {
    /// Loads a plane, and marks its blocks as seen.
    fn load(
        layout: &Layout,
        number: u32,
        known: &mut [bool],
        from: &mut impl Read,
    ) -> io::Result<Self> {
        // Each block must belong to this plane, and appear once.
        let mut take = |block: u64| {
            let block = u32::try_from(block).ok().filter(|&block| block < layout.blocks())?;
            let is_new = layout.plane_of_block(block) == number
                && !std::mem::replace(&mut known[block as usize], true);
            is_new.then_some(block)
        };
        let count = get(from)?;
        // Cleaning needs one free block to start.
        if count < RESERVED_FOR_CLEANING as u64 || count > layout.blocks_per_plane.into() {
            return Err(inconsistent());
        }
        let mut free = Vec::new();
        for _ in 0..count {
            let key = get(from)?;
            free.push(Reverse((key, take(get(from)?).ok_or_else(inconsistent)?)));
        }
        let mut open = [None; 2];
        for open in &mut open {
            let page = get(from)?;
            if page != u64::MAX {
                // An open block has been started, or it would be free.
                let block =
                    take(page / u64::from(layout.pages_per_block)).ok_or_else(inconsistent)?;
                if page == u64::from(block) * u64::from(layout.pages_per_block) {
                    return Err(inconsistent());
                }
                *open = Some(page as u32);
            }
        }
        Ok(Self { free: free.into(), open })
    }
}

impl Blocks {
    /// All free.
    pub(crate) fn new(layout: &Layout, level: bool) -> Self {
        let blocks = layout.blocks() as usize;
        let per_plane = layout.blocks_per_plane;
        let plane = |p: u32| Plane {
            free: (p * per_plane..(p + 1) * per_plane).map(|b| Reverse((0, b))).collect(),
            open: [None; 2],
        };
        Self {
            planes: (0..layout.planes).map(plane).collect(),
            full: vec![false; blocks].into(),
            filled_at: vec![0; blocks].into(),
            erases: vec![0; blocks].into(),
            erasures: 0,
            erased_at: vec![0; blocks].into(),
            fills: 0,
            free: blocks,
            level,
        }
    }

    /// Free blocks of the drive available to users.
    pub(crate) fn free(&self) -> usize {
        self.free.saturating_sub(self.planes.len() * RESERVED_FOR_CLEANING)
    }

    /// Free blocks of a plane available to users.
    pub(crate) fn free_in(&self, plane: u32) -> usize {
        self.planes[plane as usize].free.len().saturating_sub(RESERVED_FOR_CLEANING)
    }

    /// The next page of the block being written; `None` if it will be a new block's first.
    pub(crate) fn open_page(&self, plane: u32, writer: WriteStream) -> Option<u32> {
        self.planes[plane as usize].open[writer as usize]
    }

    /// Whether a page is available.
    pub(crate) fn has_page(&self, plane: u32, writer: WriteStream) -> bool {
        let kept = match writer {
            WriteStream::User => RESERVED_FOR_CLEANING,
            WriteStream::Cleaning => 0,
        };
        let plane = &self.planes[plane as usize];
        plane.open[writer as usize].is_some() || plane.free.len() > kept
    }

    /// Takes the next page to write.
    ///
    /// # Panics
    /// There is none: check [`has_page`](Self::has_page) first.
    pub(crate) fn take_page(&mut self, layout: &Layout, plane: u32, writer: WriteStream) -> u32 {
        let plane = &mut self.planes[plane as usize];
        let open = &mut plane.open[writer as usize];
        let page = open.unwrap_or_else(|| {
            let Reverse((_, block)) = plane.free.pop().expect("has_page was checked");
            self.free -= 1;
            block * layout.pages_per_block
        });
        let is_last = layout.page_in_block(page) + 1 == layout.pages_per_block;
        *open = (!is_last).then_some(page + 1);
        page
    }

    /// A page has been programmed. Pages are programmed in order, so the last one makes its block
    /// full.
    pub(crate) fn programmed(&mut self, layout: &Layout, page: u32) {
        if layout.page_in_block(page) + 1 == layout.pages_per_block {
            let block = layout.block_of_page(page) as usize;
            self.fills += 1;
            self.full[block] = true;
            self.filled_at[block] = self.fills;
        }
    }

    /// A block is being cleaned, and is no candidate any more.
    pub(crate) fn take_victim(&mut self, block: u32) {
        self.full[block as usize] = false;
    }

    pub(crate) fn erased(&mut self, layout: &Layout, block: u32) {
        self.erases[block as usize] += 1;
        self.erasures += 1;
        self.erased_at[block as usize] = self.erasures;
        self.free += 1;
        let first = if self.level { self.erases[block as usize].into() } else { self.fills };
        let plane = layout.plane_of_block(block);
        self.planes[plane as usize].free.push(Reverse((first, block)));
    }

    /// The state of a block.
    pub(crate) fn state(&self, layout: &Layout, block: u32) -> BlockState {
        let plane = &self.planes[layout.plane_of_block(block) as usize];
        if self.full[block as usize] {
            return BlockState::Full;
        }
        for (writer, page) in [WriteStream::User, WriteStream::Cleaning].into_iter().zip(plane.open)
        {
            if let Some(page) = page.filter(|&page| layout.block_of_page(page) == block) {
                return BlockState::Open(writer, layout.page_in_block(page));
            }
        }
        BlockState::Free
    }

    /// Copies the blocks of another drive's plane: state, age order and wear of each.
    pub(crate) fn set_plane(
        &mut self,
        layout: &Layout,
        plane: u32,
        states: &[(BlockState, u32)],
        other: &Self,
    ) {
        let first = plane * layout.blocks_per_plane;
        let mut free = Vec::new();
        let mut open = [None; 2];
        for (block, &(state, from)) in (first..).zip(states) {
            let (here, there) = (block as usize, from as usize);
            self.full[here] = state == BlockState::Full;
            self.filled_at[here] = other.filled_at[there];
            self.erases[here] = other.erases[there];
            match state {
                BlockState::Full => {}
                BlockState::Free => free.push(Reverse((other.erases[there].into(), block))),
                BlockState::Open(writer, page) => {
                    open[writer as usize] = Some(block * layout.pages_per_block + page);
                }
            }
        }
        self.fills = self.fills.max(other.fills);
        let plane = &mut self.planes[plane as usize];
        self.free = self.free - plane.free.len() + free.len();
        plane.free = free.into();
        plane.open = open;
    }

    pub(crate) fn save(&self, to: &mut impl Write) -> io::Result<()> {
        put(to, self.fills)?;
        for plane in &self.planes {
            // Sorted, so that the same state gives the same bytes.
            let mut free: Vec<_> = plane.free.iter().map(|&Reverse(entry)| entry).collect();
            free.sort_unstable();
            put(to, free.len() as u64)?;
            for (key, block) in free {
                put(to, key)?;
                put(to, block.into())?;
            }
            for page in plane.open {
                put(to, page.map_or(u64::MAX, u64::from))?;
            }
        }
        for (&full, &filled_at) in self.full.iter().zip(&self.filled_at) {
            put(to, if full { filled_at } else { 0 })?;
        }
        put_all(to, &self.erases)
    }

    /// Loads a saved drive at rest. Memory grows with the data read, because a damaged file may
    /// claim any size.
    pub(crate) fn load(layout: &Layout, level: bool, from: &mut impl Read) -> io::Result<Self> {
        let blocks = layout.blocks() as usize;
        let fills = get(from)?;
        let mut known: Vec<bool> = vec![false; blocks];
        let mut planes = Vec::new();
        let mut free = 0;
        for number in 0..layout.planes {
            let plane = Plane::load(layout, number, &mut known, from)?;
            free += plane.free.len();
            planes.push(plane);
        }
        let mut filled_at = vec![0; blocks];
        for (filled_at, &mut known) in filled_at.iter_mut().zip(&mut known) {
            let read = get(from)?;
            if read > fills || fills > MAX_FILLS || known == (read != 0) {
                return Err(inconsistent());
            }
            if read != 0 {
                *filled_at = read;
            }
        }
        let mut erases = vec![0; blocks];
        get_all(from, &mut erases)?;
        if erases.iter().any(|&erases| u64::from(erases) > fills.min(MAX_ERASES)) {
            return Err(inconsistent());
        }
        let full = filled_at.iter().map(|&at| at != 0).collect();
        let (filled_at, erases) = (filled_at.into(), erases.into());
        // A drive at rest has no operation that remembers an earlier count.
        let (erasures, erased_at) = (0, vec![0; blocks].into());
        let planes = planes.into();
        Ok(Self { planes, full, filled_at, erases, erasures, erased_at, fills, free, level })
    }

    /// Total erases of all blocks.
    pub(crate) const fn erasures(&self) -> u64 {
        self.erasures
    }

    /// Whether a block has been erased since the total was `erasures`
    /// ([`erasures`](Self::erasures)). Mostly no block has, which is checked first.
    pub(crate) fn erased_since(&self, erasures: u64, block: u32) -> bool {
        self.erasures != erasures && self.erased_at[block as usize] > erasures
    }

    pub(crate) fn all_erases(&self) -> &[u32] {
        &self.erases
    }

    /// Checks that free blocks are empty, and that each block is in one state.
    pub(crate) fn verify(&self, layout: &Layout, map: &Map) -> Result<(), Inconsistency> {
        let mut free = 0;
        for plane in &self.planes {
            free += plane.free.len();
            for &Reverse((_, block)) in &plane.free {
                if self.full[block as usize] || map.valid_in(block) > 0 {
                    return Err(Inconsistency::FreeBlock { block });
                }
            }
            for page in plane.open.into_iter().flatten() {
                let block = layout.block_of_page(page);
                if self.full[block as usize] {
                    return Err(Inconsistency::OpenBlock { block });
                }
                let rest = page * layout.units_per_page..(block + 1) * layout.units_per_block;
                if map.next_valid(rest.start, rest.end).is_some() {
                    return Err(Inconsistency::BeyondOpenPage { block, page });
                }
            }
        }
        if free != self.free {
            return Err(Inconsistency::FreeCount { free, counted: self.free });
        }
        Ok(())
    }

    pub(crate) fn is_full(&self, block: u32) -> bool {
        self.full[block as usize]
    }

    pub(crate) fn candidates<'a>(
        &'a self,
        layout: &Layout,
        map: &'a Map,
        plane: u32,
    ) -> Candidates<'a> {
        let first = plane * layout.blocks_per_plane;
        let range = first as usize..(first + layout.blocks_per_plane) as usize;
        Candidates {
            first_block: first,
            units_per_block: layout.units_per_block as u16,
            units_per_page: layout.units_per_page as u16,
            valid: &map.valid_by_block()[range.clone()],
            full: &self.full[range.clone()],
            filled_at: &self.filled_at[range.clone()],
            erases: &self.erases[range],
            clock: self.fills,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;

    /// The next block written after block 0 has been erased twice and block 1 once, in a plane
    /// without other free blocks.
    fn next_block(level: bool) -> u32 {
        let mut profile = Profile::builtin("reference").unwrap();
        profile.geometry.pages_per_block = 1;
        let layout = Layout::new(&profile);
        let mut blocks = Blocks::new(&layout, level);
        while blocks.planes[0].free.pop().is_some() {}
        for block in [0, 0, 1] {
            blocks.planes[0].free.retain(|&Reverse((_, free))| free != block);
            blocks.programmed(&layout, block);
            blocks.take_victim(block);
            blocks.erased(&layout, block);
        }
        blocks.take_page(&layout, 0, WriteStream::User)
    }

    #[test]
    fn dynamic_levelling_takes_the_least_worn_block() {
        assert_eq!(next_block(true), 1);
        assert_eq!(next_block(false), 0);
    }
}
