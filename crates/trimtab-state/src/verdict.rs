//! Published decisions of LinnOS's network in the kernel.

use trimtab_predict::Verdict;

/// The two classes of reads for which the kernel decides.
///
/// LinnOS's network counts the pages in flight with those of the read itself, so a
/// decision that is published before the read must assume a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeClass {
    /// Up to 64 KiB; decided as for a read of 4 KiB.
    Small,
    /// Larger; decided as for a read of 128 KiB.
    Large,
}

impl SizeClass {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Small, Self::Large];

    /// The class of a read of this many bytes.
    #[must_use]
    pub const fn of(length: u64) -> Self {
        if length <= 64 << 10 { Self::Small } else { Self::Large }
    }

    /// The size of the read that is assumed, bytes.
    #[must_use]
    pub const fn length(self) -> u64 {
        match self {
            Self::Small => 4 << 10,
            Self::Large => 128 << 10,
        }
    }
}

/// Unpacks a published word: the verdict, and the sequence count of its state.
pub(crate) const fn unpack(word: u64) -> (Option<Verdict>, u64) {
    let verdict = match word & 3 {
        1 => Some(Verdict::Fast),
        2 => Some(Verdict::Late),
        _ => None,
    };
    (verdict, word >> 2)
}
