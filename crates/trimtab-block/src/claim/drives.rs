//! Running emulated drives and arrays, of any user and in any run directory. Over FUSE they are found by
//! their mounts, over ublk by the processes that serve ublk devices; those that wait for a server, because
//! theirs was killed, in this run directory only.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use trimtab_io::run_directory;

use super::holder::Served;
use super::mounts::Mount;
use super::number::{FileId, Identity, Kind, Number};
use crate::EMULATED_FILE_SYSTEM;

/// The part of an emulated drive's `info.json` that is needed here.
#[derive(serde::Deserialize)]
struct Info {
    /// Its server's process.
    pid: u32,
    /// Its block device.
    #[serde(default)]
    device: PathBuf,
    /// How the kernel reaches it.
    #[serde(default)]
    backend: String,
}

/// What the kernel has of an emulated drive or an array.
#[derive(Clone, Debug)]
enum Reached {
    /// The file system with its file, which its loop device is attached to.
    FileSystem(u64),
    /// Its block device, over ublk.
    Device(Number),
}

/// An emulated drive or an array.
#[derive(Clone, Debug)]
pub(super) struct Emulated {
    pub(super) kind: Served,
    pub(super) name: String,
    /// Its server's process, if known.
    pub(super) process: Option<u32>,
    reached: Reached,
}

impl Emulated {
    /// The emulated drives and arrays whose file system is among these mounts, and those over ublk.
    pub(super) fn among(mounts: &[Mount]) -> Vec<Self> {
        let ours = mounts.iter().filter(|mount| mount.kind == EMULATED_FILE_SYSTEM);
        let mut found: Vec<_> = ours.filter_map(Self::of).collect();
        found.extend(Self::serving_ublk());
        for (directory, kind) in [("drives", Served::Drive), ("arrays", Served::Array)] {
            let all = fs::read_dir(run_directory().join(directory)).into_iter().flatten();
            found.extend(all.flatten().filter_map(|one| Self::over_ublk(&one.path(), kind)));
        }
        found
    }

    /// Those whose server has a ublk device open. The lock that it holds tells its directory.
    fn serving_ublk() -> Vec<Self> {
        let devices = fs::read_dir("/sys/class/ublk-char").into_iter().flatten().flatten();
        let names = devices.filter_map(|one| one.file_name().into_string().ok());
        let names: Vec<_> =
            names.filter_map(|name| name.strip_prefix("ublkc").map(str::to_owned)).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = processes.filter_map(|one| one.file_name().to_str()?.parse().ok());
        processes.filter_map(|process| Self::served_by(process, &names)).collect()
    }

    /// The one that a process serves over one of these ublk devices.
    fn served_by(process: u32, devices: &[String]) -> Option<Self> {
        let open = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten();
        let open: Vec<_> = open.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
        let is_open = |path: &String| open.iter().any(|link| link == Path::new(path));
        let number = devices.iter().find(|number| is_open(&format!("/dev/ublkc{number}")))?;
        let device = fs::metadata(format!("/dev/ublkb{number}")).ok()?;
        open.iter().filter(|link| link.ends_with("lock")).find_map(|lock| {
            let directory = lock.parent()?;
            let kind = match directory.parent()?.file_name()?.to_str()? {
                "drives" => Served::Drive,
                "arrays" => Served::Array,
                _ => return None,
            };
            Some(Self {
                kind,
                name: directory.file_name()?.to_string_lossy().into_owned(),
                process: Some(process),
                reached: Reached::Device(Number(device.rdev())),
            })
        })
    }

    /// The one of this run directory's, if it is over ublk and its device is there.
    fn over_ublk(directory: &Path, kind: Served) -> Option<Self> {
        let info: Info =
            serde_json::from_slice(&fs::read(directory.join("info.json")).ok()?).ok()?;
        let device = fs::metadata(&info.device).ok()?;
        let is_it = info.backend == "ublk" && device.file_type().is_block_device();
        is_it.then(|| Self {
            kind,
            name: directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            process: Some(info.pid),
            reached: Reached::Device(Number(device.rdev())),
        })
    }

    /// Whether loop devices over files of this file system are its device.
    pub(super) const fn has_file_system(&self, number: u64) -> bool {
        matches!(self.reached, Reached::FileSystem(own) if own == number)
    }

    /// Whether this disk is its device.
    pub(super) fn is(&self, disk: Number) -> bool {
        matches!(self.reached, Reached::Device(own) if own == disk)
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
            reached: Reached::FileSystem(mount.number),
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
