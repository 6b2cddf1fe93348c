//! Ranges of an array, divided into stripes and chunks.

use super::{Layout, Position};

/// The part of a range in one stripe. It begins in the middle of a chunk only where the range does,
/// and ends there only where the range ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte.
    pub start: Position,
    /// Bytes.
    pub length: u64,
    /// The distance of its first byte from the range's: where it is in the buffer of a request.
    pub buffer_offset: u64,
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
    /// The distance of its first byte from the range's: where it is in the buffer of a request.
    pub buffer_offset: u64,
}

impl Piece {
    /// Nothing, of a request that has no range.
    pub(crate) const fn of_flush(layout: &Layout) -> Self {
        let start = Position { stripe: 0, index: 0, offset: 0 };
        Self { start, length: 0, buffer_offset: 0, chunk: layout.chunk() }
    }

    /// The first bytes of a stripe.
    pub(crate) const fn of_stripe(layout: &Layout, stripe: u64, length: u64) -> Self {
        let start = Position { stripe, index: 0, offset: 0 };
        Self { start, length, buffer_offset: 0, chunk: layout.chunk() }
    }

    /// Its chunks, in the order of their index.
    pub fn chunks(self) -> impl Iterator<Item = ChunkRange> {
        let (mut index, mut offset, mut done) = (self.start.index, self.start.offset, 0);
        std::iter::from_fn(move || {
            let length = (self.chunk - offset).min(self.length - done);
            let range =
                ChunkRange { index, offset, length, buffer_offset: self.buffer_offset + done };
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
    buffer_offset: u64,
}

impl Pieces {
    pub(super) const fn new(layout: Layout, offset: u64, length: u64) -> Self {
        Self { layout, offset, left: length, buffer_offset: 0 }
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
        let piece = Piece { start, length, buffer_offset: self.buffer_offset, chunk };
        self.offset += length;
        self.left -= length;
        self.buffer_offset += length;
        Some(piece)
    }
}
