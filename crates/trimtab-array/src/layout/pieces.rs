//! Ranges of an array, divided into stripes and chunks.

use super::{Layout, Location};

/// The part of a range in one stripe. It begins in the middle of a chunk only where the range does,
/// and ends there only where the range ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte.
    pub start: Location,
    /// Bytes.
    pub length: u64,
    /// The distance of the first byte from the range's, such as in the buffer of a request.
    pub position: u64,
    chunk: u64,
}

/// The part of a range in one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRange {
    /// Which chunk of data of the stripe.
    pub index: usize,
    /// The first byte of the chunk.
    pub offset: u64,
    /// Bytes, at least 1.
    pub length: u64,
    /// The distance of the first byte from the range's, such as in the buffer of a request.
    pub position: u64,
}

impl Piece {
    /// Nothing, of a request that has no range.
    pub(crate) const fn of_flush(layout: &Layout) -> Self {
        let start = Location { stripe: 0, index: 0, offset: 0 };
        Self { start, length: 0, position: 0, chunk: layout.chunk() }
    }

    /// Its chunks, in the order of their index. None allocates.
    pub fn chunks(self) -> impl Iterator<Item = ChunkRange> {
        let (mut index, mut offset, mut done) = (self.start.index, self.start.offset, 0);
        std::iter::from_fn(move || {
            let length = (self.chunk - offset).min(self.length - done);
            let range = ChunkRange { index, offset, length, position: self.position + done };
            (index, offset, done) = (index + 1, 0, done + length);
            (length > 0).then_some(range)
        })
    }
}

/// The pieces of a range, in order.
#[derive(Clone, Debug)]
pub struct Pieces {
    layout: Layout,
    offset: u64,
    left: u64,
    position: u64,
}

impl Pieces {
    pub(super) const fn new(layout: Layout, offset: u64, length: u64) -> Self {
        Self { layout, offset, left: length, position: 0 }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.left == 0 {
            return None;
        }
        let start = self.layout.locate(self.offset);
        let chunk = self.layout.chunk();
        let into = start.index as u64 * chunk + start.offset;
        let length = (self.layout.stripe_bytes() - into).min(self.left);
        let piece = Piece { start, length, position: self.position, chunk };
        self.offset += length;
        self.left -= length;
        self.position += length;
        Some(piece)
    }
}
