//! What a device is to its array.

use std::fmt;

/// What a device is to its array (`dev_roles`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceRole {
    /// The member with this index, from 0: which one of the layout it is.
    Active(u16),
    /// It waits until it is needed. Numbers that no device has are spares too.
    Spare,
    /// It failed, or was removed.
    Faulty,
    /// The journal of another consistency policy.
    Journal,
}

impl DeviceRole {
    const SPARE: u16 = 0xffff;
    const FAULTY: u16 = 0xfffe;
    const JOURNAL: u16 = 0xfffd;

    pub(crate) const fn from_word(word: u16) -> Self {
        match word {
            Self::SPARE => Self::Spare,
            Self::FAULTY => Self::Faulty,
            Self::JOURNAL => Self::Journal,
            index => Self::Active(index),
        }
    }

    pub(crate) const fn to_word(self) -> u16 {
        match self {
            Self::Active(index) => index,
            Self::Spare => Self::SPARE,
            Self::Faulty => Self::FAULTY,
            Self::Journal => Self::JOURNAL,
        }
    }

    /// The index of an active member.
    #[must_use]
    pub const fn index(self) -> Option<usize> {
        match self {
            Self::Active(index) => Some(index as usize),
            _ => None,
        }
    }
}

impl fmt::Display for DeviceRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(index) => write!(f, "member {index}"),
            Self::Spare => f.write_str("spare"),
            Self::Faulty => f.write_str("faulty"),
            Self::Journal => f.write_str("journal"),
        }
    }
}
