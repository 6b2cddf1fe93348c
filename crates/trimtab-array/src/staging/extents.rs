//! What of a member is staged, and in which record.

use std::collections::BTreeMap;

use super::Piece;

/// The staged ranges of one member: no two overlap, and each is part of one record.
#[derive(Debug, Default)]
pub(super) struct Extents {
    by_offset: BTreeMap<u64, Extent>,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    length: u64,
    record: u32,
    /// Its first byte in the record.
    from: u64,
}

impl Extents {
    pub(super) fn is_empty(&self) -> bool {
        self.by_offset.is_empty()
    }

    /// Enters a range that overlaps no other.
    pub(super) fn insert(&mut self, piece: Piece) {
        let Piece { record, from, offset, length } = piece;
        self.by_offset.insert(offset, Extent { length, record, from });
    }

    /// Takes a range out; `gone` is told what was in it.
    pub(super) fn cut(&mut self, offset: u64, end: u64, mut gone: impl FnMut(Piece)) {
        while let Some(extent) = self.last_before(end).filter(|extent| extent.end() > offset) {
            self.by_offset.remove(&extent.offset);
            let part = extent.within(offset, end);
            if extent.offset < offset {
                self.insert(extent.within(extent.offset, offset));
            }
            if end < extent.end() {
                self.insert(extent.within(end, extent.end()));
            }
            gone(part);
        }
    }

    /// Takes out what is left of a piece that was in here before: what was not overwritten since.
    pub(super) fn remove(&mut self, piece: &Piece, mut gone: impl FnMut(Piece)) {
        let mut at = piece.offset;
        while let Some(extent) = self.first_in(at, piece.end()) {
            if extent.record == piece.record {
                self.by_offset.remove(&extent.offset);
                gone(extent);
            }
            at = extent.end();
        }
    }

    /// What is staged of a range, in order, clipped to it.
    pub(super) fn pieces(&self, offset: u64, end: u64) -> impl Iterator<Item = Piece> {
        let first = self.last_before(offset).filter(|piece| piece.end() > offset);
        let from = first.map_or(offset, |piece| piece.offset);
        self.by_offset.range(from..end.max(from)).map(move |found| whole(found).within(offset, end))
    }

    /// The first extent at or behind an offset, whole.
    pub(super) fn at_or_behind(&self, offset: u64) -> Option<Piece> {
        self.by_offset.range(offset..).next().map(whole)
    }

    /// The first extent that overlaps a range, whole.
    fn first_in(&self, offset: u64, end: u64) -> Option<Piece> {
        let before = self.last_before(offset).filter(|piece| piece.end() > offset);
        before.or_else(|| self.at_or_behind(offset).filter(|piece| piece.offset < end))
    }

    /// The last extent that begins before an offset, whole.
    fn last_before(&self, offset: u64) -> Option<Piece> {
        self.by_offset.range(..offset).next_back().map(whole)
    }
}

fn whole((&offset, extent): (&u64, &Extent)) -> Piece {
    let Extent { length, record, from } = *extent;
    Piece { record, from, offset, length }
}

impl Piece {
    /// The first byte of the member behind it.
    pub(super) const fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// What of it is in a range that it overlaps.
    fn within(&self, offset: u64, end: u64) -> Self {
        let (first, end) = (self.offset.max(offset), self.end().min(end));
        let from = self.from + (first - self.offset);
        Self { record: self.record, from, offset: first, length: end - first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPACE: usize = 64;

    proptest! {
        /// The map is that of an array with a record and a place for each byte.
        #[test]
        fn extents_follow_each_byte(
            steps in prop::collection::vec((0_u64..60, 1_u64..20, 0_u8..3), 1..60),
        ) {
            let mut extents = Extents::default();
            let mut bytes: [Option<(u32, u64)>; SPACE + 20] = [None; SPACE + 20];
            for (record, &(offset, length, what)) in (0..).zip(&steps) {
                let range = offset as usize..(offset + length) as usize;
                let mut cut = 0;
                match what {
                    // Written.
                    0 => {
                        extents.cut(offset, offset + length, |piece| cut += piece.length);
                        let staged = bytes[range.clone()].iter().flatten().count() as u64;
                        prop_assert_eq!(cut, staged);
                        extents.insert(Piece { record, from: 0, offset, length });
                        for (from, byte) in (0..).zip(&mut bytes[range.clone()]) {
                            *byte = Some((record, from));
                        }
                    }
                    // One that was staged in a record is written to the member, as far as it is
                    // still staged.
                    1 => {
                        let of = record / 2;
                        let (offset, length, _) = steps[of as usize];
                        let piece = Piece { record: of, from: 0, offset, length };
                        extents.remove(&piece, |_| {});
                        for byte in &mut bytes {
                            *byte = byte.filter(|&(record, _)| record != of);
                        }
                    }
                    _ => {
                        extents.cut(offset, offset + length, |_| {});
                        bytes[range.clone()].fill(None);
                    }
                }
                for (offset, end) in [(offset, offset + length), (0, bytes.len() as u64)] {
                    let mut found = [None; SPACE + 20];
                    let mut at = 0;
                    for piece in extents.pieces(offset, end) {
                        prop_assert!(piece.offset >= at.max(offset) && piece.end() <= end);
                        prop_assert!(piece.length > 0);
                        at = piece.end();
                        for place in 0..piece.length {
                            let byte = (piece.offset + place) as usize;
                            found[byte] = Some((piece.record, piece.from + place));
                        }
                    }
                    let range = offset as usize..end as usize;
                    prop_assert_eq!(&found[range.clone()], &bytes[range]);
                }
            }
        }
    }
}
