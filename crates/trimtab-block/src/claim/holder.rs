//! What uses a device or file, in words.

use std::fmt;
use std::path::PathBuf;

/// Something that uses a device or file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A mounted file system.
    Mount {
        /// Where.
        at: PathBuf,
        /// `ext4`.
        kind: String,
        /// A process that sees it there, if this one does not.
        process: Option<u32>,
    },
    /// The kernel swaps to it.
    Swap,
    /// A device is made of it: a mapped one, a RAID.
    Device(String),
    /// A loop device is attached to it.
    Loop(String),
    /// It is an emulated drive.
    Drive {
        /// The drive's name.
        name: String,
        /// Its server, if that is known.
        process: Option<u32>,
    },
    /// An emulated drive keeps its content there.
    Content {
        /// The drive's name.
        name: String,
        /// Its server, if that is known.
        process: Option<u32>,
    },
    /// Something has claimed or locked it, and a process has it open.
    Process {
        /// Its number.
        process: u32,
        /// What it is called.
        name: String,
    },
    /// Something that cannot be seen from here.
    Unseen,
}

/// Which part of what was named is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Itself,
    /// A partition of it.
    Partition(String),
    /// The disk that it is a partition of.
    Disk(String),
    /// What is behind a loop device.
    BackEnd(String),
}

/// What was named is used by something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// What of it.
    pub part: Part,
    /// By what.
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
            Self::Drive { name, process: server } => {
                write!(f, "is the emulated drive `{name}`{}: remove that first", process(server))
            }
            Self::Content { name, process: server } => write!(
                f,
                "holds the content of the emulated drive `{name}`{}: remove that first",
                process(server)
            ),
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
