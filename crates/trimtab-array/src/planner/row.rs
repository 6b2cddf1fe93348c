//! Rows: the parts of a stripe that a request touches.

use crate::layout::{Layout, Level, Piece};
use crate::members::{Member, Members};

/// The most rows of a piece.
pub(crate) const MOST_ROWS: usize = 3;

/// A range of bytes that is the same in the chunks of all members.
///
/// A piece of a request touches whole chunks, except for its first and its last. So a stripe is cut
/// where the piece begins in its first chunk and where it ends in the last one, and each row
/// between two cuts is a code word: any as many strips of it as there are chunks of data give the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The first byte of the chunk.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
    /// Members whose data the user reads or writes.
    pub user: Members,
    /// Members whose strips are needed: the user's, or what parity is computed from.
    pub(crate) wanted: Members,
    /// Members whose strips have been read.
    pub(crate) have: Members,
    /// Members that have been asked, and have not answered.
    pub(crate) asked: Members,
    /// With a write: whether parity is changed by what the data change (read-modify-write), not
    /// computed from all data.
    pub(crate) modify: bool,
}

impl Row {
    const fn new(offset: u32, end: u32, user: Members) -> Self {
        Self {
            offset,
            length: end - offset,
            user,
            wanted: user,
            have: Members::NONE,
            asked: Members::NONE,
            modify: false,
        }
    }

    /// The first bytes of a member's chunk, to be written again.
    pub(crate) const fn refreshed(bytes: u32, member: Member) -> Self {
        Self { wanted: Members::one(member), ..Self::new(0, bytes, Members::NONE) }
    }

    /// The first byte behind it.
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.offset + self.length
    }

    /// Whether the wanted strips are there, or can be computed from `needed` strips.
    pub(crate) const fn is_ready(&self, needed: u32) -> bool {
        self.wanted.without(self.have).is_empty() || self.have.count() >= needed
    }

    /// Whether it will be, if all answer that have been asked.
    pub(crate) const fn will_be_ready(&self, needed: u32) -> bool {
        let present = self.have.and(self.asked);
        self.wanted.without(present).is_empty() || present.count() >= needed
    }

    /// Members whose strips must be computed, once it is ready.
    pub(crate) const fn missing(&self) -> Members {
        self.wanted.without(self.have)
    }
}

/// The rows of a piece, in order; unused places are empty.
pub(crate) fn rows_of(layout: &Layout, piece: &Piece) -> ([Row; MOST_ROWS], usize) {
    let mut rows = [Row::default(); MOST_ROWS];
    let start = piece.start;
    let chunk = layout.chunk();
    let into = start.offset + piece.length;
    let holder = |index| Member(member_of(layout, start.stripe, index) as u8);
    if into <= chunk {
        let user = Members::one(holder(start.index));
        rows[0] = Row::new(start.offset as u32, into as u32, user);
        return (rows, 1);
    }
    // The first chunk from `a` on, whole chunks, the last one up to `b`.
    let last = (into - 1) / chunk;
    let (a, b) = (start.offset as u32, (into - last * chunk) as u32);
    let first_member = Members::one(holder(start.index));
    let last_member = Members::one(holder(start.index + last as usize));
    let middle = (1..last).map(|i| holder(start.index + i as usize)).collect::<Members>();
    let cuts = [0, a.min(b), a.max(b), chunk as u32];
    let mut count = 0;
    for cut in cuts.windows(2) {
        let (from, end) = (cut[0], cut[1]);
        let of_first = if from >= a { first_member } else { Members::NONE };
        let of_last = if end <= b { last_member } else { Members::NONE };
        let user = middle.and(of_first).and(of_last);
        if from < end && !user.is_empty() {
            rows[count] = Row::new(from, end, user);
            count += 1;
        }
    }
    (rows, count)
}

/// The member that is read for a chunk of data. With RAID 1 the stripes take turns.
pub(crate) fn member_of(layout: &Layout, stripe: u64, index: usize) -> usize {
    match layout.level() {
        Level::Raid1 => (stripe % layout.members() as u64) as usize,
        _ => layout.data_member(stripe, index),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Rotation;
    use proptest::prelude::*;

    proptest! {
        /// Each byte of a request is in one row, under its member; rows are in order.
        #[test]
        fn rows_cover_a_request(
            members in 3_usize..9,
            offset in 0_u64..400_000,
            length in 1_u64..200_000,
        ) {
            let rotation = Rotation::LeftSymmetric;
            let layout = Layout::new(Level::Raid5, rotation, members, 16384, 1 << 20).unwrap();
            let length = length.min(layout.capacity() - offset);
            let mut bytes = 0;
            for piece in layout.pieces(offset, length) {
                let (rows, count) = rows_of(&layout, &piece);
                prop_assert!(rows[..count].windows(2).all(|two| two[0].end() <= two[1].offset));
                for row in &rows[..count] {
                    bytes += u64::from(row.length) * u64::from(row.user.count());
                    for member in row.user.iter() {
                        for at in [row.offset, row.end() - 1] {
                            let at = layout.member_offset(piece.start.stripe, at.into());
                            let user = layout.user_offset(member.index(), at).unwrap();
                            let from = offset + piece.buffer_offset;
                            prop_assert!((from..from + piece.length).contains(&user));
                        }
                    }
                }
            }
            prop_assert_eq!(bytes, length);
        }
    }
}
