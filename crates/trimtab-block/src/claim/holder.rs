//! Users of a device or file, as text.

use std::fmt;
use std::path::PathBuf;

/// Something that uses a device or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A mounted file system.
    Mount {
        /// The mount point.
        at: PathBuf,
        /// Its type: `ext4`.
        kind: String,
        /// A process that sees the mount, if this one does not.
        process: Option<u32>,
    },
    /// The kernel swaps to it.
    Swap,
    /// A device is built on it: device mapper, RAID.
    Device(String),
    /// A loop device is attached to it.
    Loop(String),
    /// The kernel's NVMe target exports it, with this qualified name.
    Exported(String),
    /// It is an emulated drive, or an array.
    Drive {
        /// Which of them.
        kind: Served,
        /// Its name.
        name: String,
        /// Its server's process, if known.
        process: Option<u32>,
    },
    /// An emulated drive or an array stores its content there.
    Content {
        /// Which of them.
        kind: Served,
        /// Its name.
        name: String,
        /// Its server's process, if known.
        process: Option<u32>,
    },
    /// Something has claimed or locked it, and a process has it open.
    Process {
        /// Its process number.
        process: u32,
        /// Its name.
        name: String,
    },
    /// The user is not visible from here.
    Unseen,
}

/// A kind of device that a process of trimtab serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// `trimtab drive`.
    Drive,
    /// `trimtab array`.
    Array,
}

/// Which part of the named object is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Itself,
    /// A partition of it.
    Partition(String),
    /// The disk that it is a partition of.
    Disk(String),
    /// The back end of a loop device.
    BackEnd(String),
}

/// Something else uses the named object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The part that is used.
    pub part: Part,
    /// Its user.
    pub holder: Holder,
}

impl fmt::Display for InUse {
    /// The rest of a sentence that begins with the path.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Part::Itself => {}
            Part::Partition(name) => write!(f, "has the partition {name}, which ")?,
            Part::Disk(name) => write!(f, "is a partition of {name}, which ")?,
            Part::BackEnd(name) => write!(f, "is a loop device over {name}, which ")?,
        }
        self.holder.fmt(f)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = |process: &Option<u32>| {
            process.map_or_else(String::new, |process| format!(" (process {process})"))
        };
        match self {
            Self::Mount { at, kind, process } => {
                write!(f, "is mounted at {} ({kind})", at.display())?;
                if let Some(process) = process {
                    write!(f, " in process {process}'s namespace")?;
                }
                f.write_str(": unmount it first")
            }
            Self::Swap => f.write_str("is active swap: swapoff it first"),
            Self::Device(name) => write!(f, "is part of {name}: take that apart first"),
            Self::Loop(name) => write!(f, "is behind /dev/{name}: detach that first (losetup -d)"),
            Self::Exported(nqn) => {
                write!(f, "is exported as the NVMe drive {nqn}: unexport that first")
            }
            Self::Drive { kind, name, process: server } => {
                let (what, end) = match kind {
                    Served::Drive => ("emulated drive", "remove"),
                    Served::Array => ("array", "stop"),
                };
                write!(f, "is the {what} `{name}`{}: {end} that first", process(server))
            }
            Self::Content { kind, name, process: server } => {
                let (what, end) = match kind {
                    Served::Drive => ("holds the content of the emulated drive", "remove"),
                    Served::Array => ("is a member of the array", "stop"),
                };
                write!(f, "{what} `{name}`{}: {end} that first", process(server))
            }
            Self::Process { process, name } => {
                write!(f, "is claimed, and process {process} ({name}) has it open: end that first")
            }
            Self::Unseen => f.write_str(
                "is claimed by something that cannot be seen from here (a mount in another \
                 namespace, a RAID or volume, another user's process): end that first",
            ),
        }
    }
}
