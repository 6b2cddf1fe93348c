//! Levels and rotations, by their names in mdadm.

use std::fmt;
use std::str::FromStr;

/// How an array protects data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Chunks in turn on members of equal size, without protection.
    Raid0,
    /// Replication: each member has all data.
    Raid1,
    /// One parity, on the last member.
    Raid4,
    /// One parity, on all members in turn.
    Raid5,
    /// Two parities.
    Raid6,
}

impl Level {
    /// All, in ascending order.
    pub const ALL: [Self; 5] = [Self::Raid0, Self::Raid1, Self::Raid4, Self::Raid5, Self::Raid6];

    /// Its name in files and options, and in sysfs (`md/level`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid4 => "raid4",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
        }
    }

    /// Parities of a stripe: so many members can be lost. (RAID 1 has none: all but one can.)
    #[must_use]
    pub const fn parities(self) -> usize {
        match self {
            Self::Raid0 | Self::Raid1 => 0,
            Self::Raid4 | Self::Raid5 => 1,
            Self::Raid6 => 2,
        }
    }

    /// The fewest members. md can run RAID 4 and 5 with two, on the way from or to RAID 1: such an
    /// array holds the same as a RAID 1, and is refused here.
    #[must_use]
    pub const fn least_members(self) -> usize {
        match self {
            Self::Raid0 | Self::Raid1 => 2,
            Self::Raid4 | Self::Raid5 => 3,
            Self::Raid6 => 4,
        }
    }
}

/// How parity moves over the members, with RAID 5 and 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rotation {
    /// P moves from the last member to the first, Q follows it, and data begin behind them: what
    /// mdadm chooses. Any run of chunks, as many as there are members, is on all of them.
    #[default]
    LeftSymmetric,
    /// Parity stays on the last members (the kernel's "parity-n").
    ParityLast,
}

impl Rotation {
    /// All, the default first.
    pub const ALL: [Self; 2] = [Self::LeftSymmetric, Self::ParityLast];

    /// Its name in files and options: mdadm's.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeftSymmetric => "left-symmetric",
            Self::ParityLast => "parity-last",
        }
    }
}

/// There is no level or rotation of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: `{name}` is unknown; there are {known}")]
pub struct UnknownName {
    /// The parameter.
    pub key: &'static str,
    /// The name.
    pub name: String,
    /// The names that are known.
    pub known: String,
}

macro_rules! named {
    ($type:ty, $key:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;

            fn from_str(text: &str) -> Result<Self, UnknownName> {
                Self::ALL.into_iter().find(|one| one.name() == text).ok_or_else(|| UnknownName {
                    key: $key,
                    name: text.to_owned(),
                    known: Self::ALL.map(Self::name).join(", "),
                })
            }
        }
    };
}

named!(Level, "level");
named!(Rotation, "rotation");
