//! Running emulated drives and arrays, of any user and in any run directory.

use std::fs;
use std::path::Path;

use super::holder::Served;
use super::mounts::Mount;
use super::number::{FileId, Identity, Kind};
use crate::EMULATED_FILE_SYSTEM;

/// The part of an emulated drive's `info.json` that is needed here.
#[derive(serde::Deserialize)]
struct Info {
    /// Its server's process.
    pid: u32,
}

/// An emulated drive or an array.
#[derive(Clone, Debug)]
pub(super) struct Emulated {
    pub(super) kind: Served,
    pub(super) name: String,
    /// Its server's process, if known.
    pub(super) process: Option<u32>,
    /// The file system with its file, which its loop device is attached to.
    pub(super) file_system: u64,
}

impl Emulated {
    /// The emulated drives and arrays whose file system is among these mounts.
    pub(super) fn among(mounts: &[Mount]) -> Vec<Self> {
        let ours = mounts.iter().filter(|mount| mount.kind == EMULATED_FILE_SYSTEM);
        ours.filter_map(Self::of).collect()
    }

    fn of(mount: &Mount) -> Option<Self> {
        let directory = mount.at.parent()?;
        // The path belongs to the mount's own namespace.
        let root = mount.process.map_or_else(|| "/".into(), |pid| format!("/proc/{pid}/root"));
        let info = Path::new(&root).join(directory.strip_prefix("/").ok()?).join("info.json");
        let info: Option<Info> =
            fs::read(info).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let is_array = directory.parent().is_some_and(|parent| parent.ends_with("arrays"));
        Some(Self {
            kind: if is_array { Served::Array } else { Served::Drive },
            name: directory.file_name()?.to_string_lossy().into_owned(),
            process: info.map(|info| info.pid),
            file_system: mount.number,
        })
    }

    /// Whether its server has this file open, that is, stores its content there. This process knows
    /// what it does itself.
    pub(super) fn keeps_content_in(&self, file: FileId) -> bool {
        self.process.is_some_and(|process| {
            process != std::process::id() && has_open(process, Identity(Kind::File(file)))
        })
    }
}

/// Whether a process has it open.
pub(super) fn has_open(process: u32, what: Identity) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    // The link's target, even if it was renamed.
    let mut open = open.filter_map(|entry| fs::metadata(entry.path()).ok());
    open.any(|metadata| Identity::of_metadata(&metadata) == Some(what))
}
