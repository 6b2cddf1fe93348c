//! How the kernel reaches a served device.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::ublk::Control;
use crate::{fuse, loopdev};

/// A way from the kernel to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// ublk: `/dev/ublkbN`, whose requests the server takes from the kernel.
    Ublk,
    /// A file in FUSE, and a loop device over it.
    #[default]
    Fuse,
}

impl Backend {
    /// Its name in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ublk => "ublk",
            Self::Fuse => "fuse",
        }
    }

    /// What it is, in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Ublk => "ublk",
            Self::Fuse => "FUSE and loop",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which back end a device is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendChoice {
    /// ublk where the kernel has it, otherwise FUSE.
    #[default]
    Auto,
    /// ublk.
    Ublk,
    /// FUSE and a loop device.
    Fuse,
}

impl BackendChoice {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("ublk", Self::Ublk), ("fuse", Self::Fuse)];

    /// The back end that this is on this machine.
    ///
    /// # Errors
    /// The kernel lacks something, or the process privileges.
    pub fn resolve(self) -> Result<Backend, Error> {
        match self {
            Self::Auto if Control::open().is_ok() => Ok(Backend::Ublk),
            Self::Ublk => Control::open().map(|_| Backend::Ublk),
            Self::Auto | Self::Fuse => {
                fuse::open_device()?;
                loopdev::open_control()?;
                Ok(Backend::Fuse)
            }
        }
    }
}

impl FromStr for BackendChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|one| one.0 == name);
        found.map(|one| one.1).ok_or_else(|| {
            let all = Self::ALL.map(|one| one.0).join(", ");
            format!("`{name}`: no such back end; there are {all}")
        })
    }
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|one| one.1 == *self);
        f.write_str(found.map_or("", |one| one.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_names() {
        for (name, choice) in BackendChoice::ALL {
            assert_eq!(name.parse(), Ok(choice));
            assert_eq!(choice.to_string(), name);
        }
        assert!("loop".parse::<BackendChoice>().unwrap_err().contains("auto, ublk, fuse"));
    }
}
