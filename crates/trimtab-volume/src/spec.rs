//! What an array is to be made of, and how it is run.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::pace::Rates;
use serde::{Deserialize, Serialize};
use trimtab_array::policy::{
    BusyTime, Flagged, Plain, ReadPolicy, Tolerance, Tolerant, Trimtab, TrimtabOptions,
};
use trimtab_serve::{Backend, BackendChoice, DeviceInfo, DeviceKind, Status};

/// The arrays' directories on this machine (or of one test).
pub type RunDirectory = trimtab_serve::RunDirectory<ArrayInfo>;

/// An array's status.
pub type ArrayStatus = Status<ArrayInfo>;

/// Everything that defines an array's server.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// Its name: letters, digits, `-` and `_`, at most 32.
    pub name: String,
    /// The members: block devices and files. For a new array in the order of the layout.
    pub members: Vec<PathBuf>,
    /// Where the array comes from.
    pub origin: Origin,
    /// How the kernel reaches it.
    #[serde(default)]
    pub backend: BackendChoice,
    /// Which members reads ask.
    pub policy: PolicyKind,
    /// How fast resynchronising, rebuilding, replacing and checking may be.
    pub rates: Rates,
}

/// Where an array comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Origin {
    /// It is made: what the members hold is lost.
    Create {
        /// The level: 0, 1, 4, 5 or 6.
        level: u8,
        /// Bytes of a chunk.
        chunk: u64,
        /// What says after a crash where members may differ.
        consistency: Consistency,
        /// The members agree already: nothing is resynchronised.
        assume_clean: bool,
        /// Members with a file system, or of another array, are overwritten.
        force: bool,
    },
    /// The members have it.
    Assemble {
        /// Members that md would not start by itself are used.
        force: bool,
    },
}

/// What says after a crash where members may differ. RAID 0 has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Consistency {
    /// A write-intent bitmap.
    Bitmap,
    /// Partial parity logs, which close the write hole: level 5 only.
    Ppl,
}

impl FromStr for Consistency {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "bitmap" => Ok(Self::Bitmap),
            "ppl" => Ok(Self::Ppl),
            _ => Err(format!("`{name}`: expected bitmap or ppl")),
        }
    }
}

/// Which members reads ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// Those that hold the data.
    Plain,
    /// What is late compared with the other members of its read is computed ("Tail at Store", Hao et
    /// al.): without a model.
    Adaptive,
    /// Each member's state decides, and computing has a budget.
    Trimtab,
    /// The firmware of the members helps: they clean in turns, and refuse reads that cleaning would
    /// delay (IODA, Li et al.). For emulated drives; other members are read plainly.
    Ioda,
}

impl PolicyKind {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("plain", Self::Plain),
        ("adaptive", Self::Adaptive),
        ("trimtab", Self::Trimtab),
        ("ioda", Self::Ioda),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|one| one.1 == self).map_or("", |one| one.0)
    }

    pub(crate) fn policy(self, members: usize) -> Box<dyn ReadPolicy> {
        match self {
            Self::Plain => Box::new(Plain),
            Self::Adaptive => Box::new(Tolerant::new(Tolerance::ADAPTIVE)),
            Self::Trimtab => Box::new(Trimtab::new(members, TrimtabOptions::default())),
            Self::Ioda => Box::new(Flagged::new(BusyTime::Ignored)),
        }
    }
}

impl FromStr for PolicyKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|one| one.0 == name);
        found.map(|one| one.1).ok_or_else(|| {
            let all = Self::ALL.map(|one| one.0).join(", ");
            format!("`{name}`: no such policy; there are {all}")
        })
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An array's description.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayInfo {
    /// Its name.
    pub name: String,
    /// Its block device.
    pub device: PathBuf,
    /// The server's process number.
    pub pid: u32,
    /// Its capacity, bytes.
    pub capacity: u64,
    /// Its level, as mdadm names it.
    pub level: String,
    /// How many members it has when it is complete.
    pub members: usize,
    /// What it is called in md's format.
    pub uuid: String,
    /// How the kernel reaches it.
    #[serde(default)]
    pub backend: Backend,
    /// The loop device's I/O scheduler before, if it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_before: Option<String>,
}

impl DeviceInfo for ArrayInfo {
    const KIND: DeviceKind = DeviceKind::ARRAY;

    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> &Path {
        &self.device
    }

    fn pid(&self) -> u32 {
        self.pid
    }
}
