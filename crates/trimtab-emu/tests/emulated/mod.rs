//! Emulated drives with known content that tests of other crates can stall and break: they include
//! this file by its path.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use trimtab_device::Profile;
use trimtab_emu::{
    Data, Drive, Effect, Error, Fault, FaultOps, Fill, Helper, RunDirectory, Server, Spec,
};
use trimtab_io::RUN_VARIABLE;
use trimtab_testdisk as disk;

/// A small drive.
const PROFILE: &str = r#"
name = "small"
[geometry]
channels = 2
chips_per_channel = 2
blocks_per_plane = 256
pages_per_block = 32
page_bytes = 4096
over_provisioning = 0.15
[timing]
read_us = 40
program_us = 60
erase_us = 200
channel_mb_s = 800
"#;

const MIB: u64 = 1 << 20;
/// The pages of the drive that hold data: each its number, in every byte.
pub(crate) const PAGES: u64 = 8 * MIB / 4096;

/// Whether the machine can run these tests.
pub(crate) fn can_run() -> bool {
    disk::requires(&[disk::REAL_DISKS, &[disk::Feature::Fuse]].concat())
}

/// The jobs that the drive's server has this program run in another process.
#[test]
#[ignore = "not a test: the drive's server runs it"]
fn assist() {
    trimtab_emu::assist().unwrap();
}

/// The directory of the drives of this process. Removed when dropped, after the drives.
pub(crate) struct Home {
    directory: RunDirectory,
    _run: Option<tempfile::TempDir>,
    // Last: the tests of a process have one directory, one after the other.
    _alone: Option<MutexGuard<'static, ()>>,
}

/// Held while a directory is there: its name is in the environment of the process.
static ALONE: Mutex<()> = Mutex::new(());

impl Home {
    pub(crate) fn new() -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let run = tempfile::tempdir().unwrap();
        // SAFETY: tests with a directory run one after the other, and none leaves a thread
        // running that reads it.
        unsafe { std::env::set_var(RUN_VARIABLE, run.path()) };
        Self { directory: RunDirectory::from_environment(), _run: Some(run), _alone: Some(alone) }
    }

    /// The directory of the process that started this one, which is not removed.
    pub(crate) fn inherited() -> Self {
        Self { directory: RunDirectory::from_environment(), _run: None, _alone: None }
    }

    /// Removes what a killed drive left.
    pub(crate) fn remove_dead(&self, name: &str) -> Result<(), Error> {
        self.directory.remove_dead(name, true).map(drop)
    }
}

/// An emulated drive, removed when dropped.
pub(crate) struct Emulated {
    drive: Drive,
    pub(crate) path: String,
    server: Option<thread::JoinHandle<Result<(), Error>>>,
    /// Of a drive that has it for itself.
    own_home: Option<Home>,
}

impl Emulated {
    /// The only drive of this process.
    pub(crate) fn new() -> Self {
        let home = Home::new();
        let mut this = Self::in_home(&home, "stalls");
        this.own_home = Some(home);
        this
    }

    /// One of several drives, with this name.
    pub(crate) fn in_home(home: &Home, name: &str) -> Self {
        let home = &home.directory;
        let spec = Spec {
            fill: Fill { share: 0.0, overwrites: 0.0 },
            data: Data::Memory { cap_bytes: 64 * MIB },
            block_bytes: 4096,
            ..Spec::new(name, Profile::parse(PROFILE).unwrap().with_capacity(64 * MIB).unwrap())
        };
        let assist = ["emulated::assist", "--exact", "--ignored", "--nocapture"];
        let helper = Helper::new("/proc/self/exe", assist);
        let go_on = &mut |_| ControlFlow::Continue(());
        let server = Server::start(home, spec, helper, go_on).unwrap();
        let path = server.device().to_str().unwrap().to_owned();
        let server = Some(thread::spawn(|| server.serve(&AtomicBool::new(false))));
        let drive = Drive::find(home, name).unwrap();
        let this = Self { drive, path, server, own_home: None };
        this.fill();
        this
    }

    fn fill(&self) {
        let mut content = disk::aligned(PAGES as usize * 4096);
        let content = disk::window(&mut content, PAGES as usize * 4096);
        for (number, page) in content.chunks_mut(4096).enumerate() {
            page.fill(number as u8);
        }
        let device = std::fs::File::options().write(true).open(&self.path).unwrap();
        device.write_all_at(content, 0).unwrap();
        device.sync_all().unwrap();
        rustix::fs::fadvise(&device, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }

    /// Completes nothing from now on.
    pub(crate) fn stall(&self) {
        self.fault(Effect::Stall, 3600.0);
    }

    /// Completes nothing for this time, unless it is healed.
    pub(crate) fn stall_for(&self, time: Duration) {
        self.fault(Effect::Stall, time.as_secs_f64());
    }

    /// Fails all reads from now on.
    pub(crate) fn fail(&self) {
        self.fault(Effect::Error { ops: FaultOps::Reads, share: 1.0 }, 3600.0);
    }

    fn fault(&self, effect: Effect, for_s: f64) {
        self.drive.fault(Fault::once(effect, 0.0, for_s)).unwrap();
    }

    /// Completes requests again, including those submitted meanwhile.
    pub(crate) fn heal(&self) {
        self.drive.clear_faults().unwrap();
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // Releases waiting threads, also after a failed test.
        _ = self.drive.clear_faults();
        _ = self.drive.remove(true);
        _ = self.server.take().map(thread::JoinHandle::join);
    }
}
