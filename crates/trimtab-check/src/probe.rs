//! Collects findings on the running machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use trimtab_bpf::{Arrival, available, check_privilege};
use trimtab_io::monotonic;
use trimtab_record::{Recorder, RecorderOptions};
use trimtab_state::{PIN_NAME, StateMemory};
use trimtab_tracker::{StateTracker, TrackerOptions};

use crate::devices::State;
use crate::facilities::{self, BpfFiles, Check, Refusal, Tracker, Tried};

/// `BPF_FS_MAGIC` (include/uapi/linux/magic.h)
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;

/// The findings, before their evaluation.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) release: String,
    pub(crate) tracepoints: Tried,
    pub(crate) privilege: Tried,
    /// `None`: not tried.
    pub(crate) state_programs: Option<Tried>,
    pub(crate) record_programs: Option<Tried>,
    pub(crate) refuse_programs: Option<Tried>,
    pub(crate) fuse: Result<(), io::ErrorKind>,
    pub(crate) loops: Result<(), io::ErrorKind>,
    pub(crate) ublk: Result<(), io::ErrorKind>,
    pub(crate) uring_disabled: Option<String>,
    pub(crate) uring: Result<(), io::ErrorKind>,
    pub(crate) locked: Option<u64>,
    pub(crate) bpf_files: BpfFiles,
    pub(crate) tracker: Tracker,
    pub(crate) pins: PathBuf,
}

impl Found {
    /// Probes the running machine.
    pub(crate) fn probe(pins: &Path) -> Self {
        let said = |error: &dyn std::error::Error| Refusal(error.to_string());
        let tracepoints = available(Arrival::Auto).map(drop).map_err(|e| said(&e));
        let privilege = check_privilege().map_err(|e| said(&e));
        let may_load = tracepoints.is_ok() && privilege.is_ok();
        // For no device: they see nothing.
        let state = || StateTracker::load(&[], &TrackerOptions::default()).map(drop);
        let record = || Recorder::load(&[], &RecorderOptions::default()).map(drop);
        Self {
            release: rustix::system::uname().release().to_string_lossy().into_owned(),
            state_programs: may_load.then(|| state().map_err(|e| said(&e))),
            record_programs: may_load.then(|| record().map_err(|e| said(&e))),
            refuse_programs: may_load.then(|| trimtab_refuse::check_kernel().map_err(|e| said(&e))),
            tracepoints,
            privilege,
            fuse: opened("/dev/fuse"),
            loops: opened("/dev/loop-control"),
            ublk: opened("/dev/ublk-control"),
            uring_disabled: fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok(),
            uring: io_uring::IoUring::new(1).map(drop).map_err(|e| e.kind()),
            locked: getrlimit(Resource::Memlock).current,
            bpf_files: bpf_files(Path::new("/sys/fs/bpf")),
            tracker: tracker(pins),
            pins: pins.to_owned(),
        }
    }

    /// Evaluates the findings.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let (reads, served) = ("predicted reads", "emulated drives");
        vec![
            facilities::kernel(&self.release),
            facilities::tracepoints(&self.tracepoints),
            facilities::privilege(&self.privilege),
            facilities::programs("state programs", reads, self.state_programs.as_ref()),
            facilities::programs("recording programs", "recording", self.record_programs.as_ref()),
            facilities::programs(
                "refusing programs (BPF LSM)",
                "trimtab run",
                self.refuse_programs.as_ref(),
            ),
            facilities::bpf_files(self.bpf_files),
            facilities::tracker(&self.tracker, &self.pins.to_string_lossy()),
            facilities::io_uring(self.uring_disabled.as_deref(), self.uring),
            facilities::memory_lock(self.locked),
            facilities::device_file("FUSE", served, "/dev/fuse", self.fuse, "fuse"),
            facilities::device_file(
                "loop devices",
                served,
                "/dev/loop-control",
                self.loops,
                "loop",
            ),
            facilities::device_file(
                "ublk",
                "emulated drives, arrays that outlive their server",
                "/dev/ublk-control",
                self.ublk,
                "ublk_drv",
            ),
        ]
    }

    /// Drives whose state is tracked, or can be.
    pub(crate) fn state(&self) -> State {
        let tracked = match &self.tracker {
            Tracker::Open(drives) => drives.clone(),
            Tracker::Missing | Tracker::Closed(_) => Vec::new(),
        };
        State { tracked, can_track: matches!(self.state_programs, Some(Ok(()))) }
    }
}

fn opened(path: &str) -> Result<(), io::ErrorKind> {
    let opened = fs::File::options().read(true).write(true).open(path);
    opened.map(drop).map_err(|e| e.kind())
}

fn bpf_files(at: &Path) -> BpfFiles {
    use std::os::unix::fs::PermissionsExt as _;
    let kind = rustix::fs::statfs(at).map(|fs| fs.f_type.cast_unsigned() & 0xffff_ffff);
    match (kind, fs::metadata(at)) {
        (Ok(BPF_FS_MAGIC), Ok(metadata)) => {
            BpfFiles::Mounted(metadata.permissions().mode() & 0o7777)
        }
        _ => BpfFiles::Missing,
    }
}

fn tracker(pins: &Path) -> Tracker {
    let file = pins.join(PIN_NAME);
    match fs::metadata(&file) {
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            return Tracker::Closed(format!("{} cannot be entered: chmod 755", pins.display()));
        }
        Err(_) => return Tracker::Missing,
        Ok(_) => {}
    }
    match StateMemory::open(&file) {
        Ok(memory) => {
            let now = monotonic();
            let tracked = (0..memory.count()).filter(|&index| memory.is_tracked(index, now));
            Tracker::Open(tracked.map(|index| memory.tracker(index).number).collect())
        }
        Err(e) => Tracker::Closed(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_machine_fails_every_check() {
        let no = || Err(Refusal("no".to_owned()));
        let found = Found {
            release: "3.2.0".to_owned(),
            tracepoints: no(),
            privilege: no(),
            state_programs: None,
            record_programs: None,
            refuse_programs: None,
            fuse: Err(io::ErrorKind::NotFound),
            loops: Err(io::ErrorKind::NotFound),
            ublk: Err(io::ErrorKind::NotFound),
            uring_disabled: Some("2".to_owned()),
            uring: Err(io::ErrorKind::PermissionDenied),
            locked: Some(0),
            bpf_files: BpfFiles::Missing,
            tracker: Tracker::Missing,
            pins: "/pins".into(),
        };
        assert!(found.checks().iter().all(|check| !check.passed && check.advice.is_some()));
        assert!(!found.state().can_track && found.state().tracked.is_empty());
    }

    #[test]
    fn unusable_pins_are_distinguished() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(tracker(directory.path()), Tracker::Missing);
        fs::write(directory.path().join(PIN_NAME), "").unwrap();
        assert!(matches!(tracker(directory.path()), Tracker::Closed(_)));
        assert_eq!(bpf_files(directory.path()), BpfFiles::Missing);
    }
}
