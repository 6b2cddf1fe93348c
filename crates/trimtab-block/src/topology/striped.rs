//! Arrays that distribute chunks over their members, with parity or without (the kernel's
//! drivers/md/raid0.c and raid5.c).

use super::Member;

/// Chunks distributed round-robin over the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Striped {
    /// Bytes, not 0.
    pub(super) chunk: u64,
    /// Added to a chunk's number when its member is chosen: a zone of a RAID 0 of unequal
    /// members counts from the array's beginning.
    pub(super) first: u64,
    pub(super) parity: Parity,
    /// `None`: it is missing, or not rebuilt yet.
    pub(super) members: Vec<Option<Member>>,
}

/// The position of a stripe's parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parity {
    None,
    /// On this many members at the end: RAID 4, and similar layouts.
    Last(u64),
    /// On the first members.
    First(u64),
    /// It moves by one member with each stripe.
    Rotating {
        /// Members with parity: 1 or 2.
        count: u64,
        /// It moves from the last member to the first, otherwise the reverse.
        left: bool,
        /// Data start behind the parity and wrap around, otherwise they start at member 0.
        symmetric: bool,
    },
}

impl Parity {
    /// By md's number for a layout (`md/layout`) of RAID 5 or 6.
    pub(super) const fn of_layout(layout: u32, count: u64) -> Option<Self> {
        match layout {
            0..=3 => {
                let (left, symmetric) = (layout.is_multiple_of(2), layout >= 2);
                Some(Self::Rotating { count, left, symmetric })
            }
            4 => Some(Self::First(count)),
            5 => Some(Self::Last(count)),
            _ => None,
        }
    }

    const fn count(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Last(count) | Self::First(count) | Self::Rotating { count, .. } => count,
        }
    }

    /// The member that holds the data chunk with this number in a stripe.
    const fn member(self, stripe: u64, number: u64, members: u64) -> u64 {
        match self {
            Self::None | Self::Last(_) => number,
            Self::First(count) => number + count,
            Self::Rotating { count, left, symmetric } => {
                let turn = stripe % members;
                // The second parity chunk follows the first, wrapping around.
                let first = if left { members - 1 - turn } else { turn };
                if symmetric {
                    (first + count + number) % members
                } else if first + count > members {
                    // The second parity chunk is on member 0.
                    number + 1
                } else if number >= first {
                    number + count
                } else {
                    number
                }
            }
        }
    }
}

/// A part of a range on one member: the member, the offset on it and the length. `None`: the
/// member is missing.
type Piece = Option<(Member, u64, u64)>;

impl Striped {
    /// Data chunks of a stripe.
    fn width(&self) -> u64 {
        (self.members.len() as u64).saturating_sub(self.parity.count())
    }

    /// Whether its parameters are usable.
    pub(super) fn is_valid(&self) -> bool {
        self.chunk > 0 && self.width() > 0
    }

    /// The parts of a range, in order. They end when every member has had its turn: more would
    /// add no drives.
    pub(super) fn pieces(&self, offset: u64, length: u64) -> impl Iterator<Item = Piece> {
        let most = 2 * self.members.len();
        let end = offset.saturating_add(length);
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let into = at % self.chunk;
            let piece = (self.chunk - into).min(end - at);
            let found = self.piece(at, piece);
            at += piece;
            Some(found)
        })
        .take(most)
    }

    fn piece(&self, offset: u64, length: u64) -> Piece {
        let (number, into) = (offset / self.chunk, offset % self.chunk);
        let (stripe, in_stripe) = (number / self.width(), number % self.width());
        let index = match self.parity {
            Parity::None => self.first.wrapping_add(number) % self.width(),
            parity => parity.member(stripe, in_stripe, self.members.len() as u64),
        };
        let member = self.members[usize::try_from(index).ok()?]?;
        Some((member, stripe.checked_mul(self.chunk)?.checked_add(into)?, length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn striped(members: usize, parity: Parity) -> Striped {
        let members = (0..members).map(|node| Some(Member { node, at: 0 })).collect();
        Striped { chunk: 1, first: 0, parity, members }
    }

    /// The members of the first data chunks.
    fn order(striped: &Striped, chunks: u64) -> Vec<usize> {
        (0..chunks).map(|at| striped.piece(at, 1).unwrap().0.node).collect()
    }

    /// According to the tables in the manual of md (md(4)) and the SNIA's "Common RAID Disk
    /// Data Format", §4.2.
    #[test]
    fn layouts_place_data_as_documented() {
        let of =
            |members, layout, count| striped(members, Parity::of_layout(layout, count).unwrap());
        // RAID 5 of four: parity on 3, 2, 1, 0.
        assert_eq!(order(&of(4, 0, 1), 12), [0, 1, 2, 0, 1, 3, 0, 2, 3, 1, 2, 3]);
        assert_eq!(order(&of(4, 2, 1), 12), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]);
        // Parity on 0, 1, 2, 3.
        assert_eq!(order(&of(4, 1, 1), 12), [1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]);
        assert_eq!(order(&of(4, 3, 1), 12), [1, 2, 3, 2, 3, 0, 3, 0, 1, 0, 1, 2]);
        assert_eq!(order(&of(4, 4, 1), 6), [1, 2, 3, 1, 2, 3]);
        assert_eq!(order(&of(4, 5, 1), 6), [0, 1, 2, 0, 1, 2]);
        // RAID 6 of four: P and Q on (3, 0), (2, 3), (1, 2), (0, 1).
        assert_eq!(order(&of(4, 0, 2), 8), [1, 2, 0, 1, 0, 3, 2, 3]);
        assert_eq!(order(&of(4, 2, 2), 8), [1, 2, 0, 1, 3, 0, 2, 3]);
        assert_eq!(order(&of(4, 1, 2), 8), [2, 3, 0, 3, 0, 1, 1, 2]);
        assert_eq!(Parity::of_layout(6, 2), None);
    }

    fn parities() -> impl Strategy<Value = Parity> {
        prop_oneof![
            Just(Parity::None),
            (0_u32..6, 1_u64..3).prop_map(|(layout, count)| {
                Parity::of_layout(layout, count).expect("one of the six")
            }),
        ]
    }

    proptest! {
        /// No two data chunks share a place, and none is at a parity chunk's.
        #[test]
        fn each_stripe_uses_distinct_members(
            parity in parities(), members in 3_usize..12, stripe in 0_u64..1 << 40,
        ) {
            let array = striped(members, parity);
            let width = array.width();
            let mut seen = vec![false; members];
            for number in 0..width {
                let (member, at, _) = array.piece(stripe * width + number, 1).unwrap();
                prop_assert_eq!(at, stripe);
                prop_assert!(!std::mem::replace(&mut seen[member.node], true));
            }
        }

        /// Pieces cover a range without a gap, and none crosses a chunk's end.
        #[test]
        fn pieces_cover_the_range(
            parity in parities(), members in 3_usize..12, chunk in 1_u64..1 << 20,
            offset: u64, chunks in 0_u64..6,
        ) {
            let array = Striped { chunk, ..striped(members, parity) };
            let length = chunks * chunk / 2;
            let sum: u64 = array
                .pieces(offset, length)
                .map(|piece| piece.map_or(0, |(_, at, length)| {
                    assert!(at % chunk + length <= chunk);
                    length
                }))
                .sum();
            prop_assert_eq!(sum, length.min(u64::MAX - offset));
        }
    }
}
