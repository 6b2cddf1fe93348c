//! Names and sets of members.

use crate::MOST_MEMBERS;

/// A drive of an array, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u8);

impl Member {
    /// Its place in a list of all members.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Some of an array's members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members(u32);

impl Members {
    /// None.
    pub const NONE: Self = Self(0);

    /// The first `count` members.
    ///
    /// # Panics
    /// More than [`MOST_MEMBERS`].
    #[must_use]
    pub const fn first(count: usize) -> Self {
        assert!(count <= MOST_MEMBERS, "too many members");
        Self(((1_u64 << count) - 1) as u32)
    }

    /// This one.
    #[must_use]
    pub const fn one(member: Member) -> Self {
        Self(1 << member.0)
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn has(self, member: Member) -> bool {
        self.0 >> member.0 & 1 == 1
    }

    /// These and those.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Those that are in both.
    #[must_use]
    pub const fn both(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// These without those.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// How many.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// By number.
    pub fn iter(self) -> impl Iterator<Item = Member> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = (left != 0).then(|| Member(left.trailing_zeros() as u8))?;
            left &= left - 1;
            Some(next)
        })
    }
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Self {
        members.into_iter().fold(Self::NONE, |all, member| all.and(Self::one(member)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_all_members() {
        let all = Members::first(MOST_MEMBERS);
        assert_eq!((all.count(), all.iter().count()), (32, 32));
        let last = Members::one(Member(31));
        assert!(last.has(Member(31)) && !last.has(Member(30)));
        assert_eq!(all.without(last), Members::first(31));
        assert_eq!(Members::first(4).both(all), [0, 1, 2, 3].map(Member).into_iter().collect());
    }
}
