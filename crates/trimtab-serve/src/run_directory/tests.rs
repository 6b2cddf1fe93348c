use std::time::Duration;

use serde::Deserialize;

use super::super::fuse;
use super::*;

#[derive(Clone, Serialize, Deserialize)]
struct Info {
    name: String,
    device: PathBuf,
}

impl DeviceInfo for Info {
    const KIND: DeviceKind = DeviceKind::DRIVE;

    fn name(&self) -> &str {
        &self.name
    }

    fn device(&self) -> &Path {
        &self.device
    }

    fn pid(&self) -> u32 {
        1
    }
}

/// A run directory that does not exist yet.
fn new_run_directory() -> (tempfile::TempDir, RunDirectory<Info>) {
    let directory = tempfile::tempdir().unwrap();
    let devices = directory.path().join("run/drives");
    (directory, RunDirectory { devices, kind: PhantomData })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_devices_directories_are_private() {
    let (_directory, run_directory) = new_run_directory();
    let claimed = run_directory.claim("a").unwrap();
    assert_eq!(mode(run_directory.devices.parent().unwrap()), 0o755);
    assert_eq!(
        (mode(&run_directory.devices), mode(&run_directory.devices.join("a"))),
        (0o700, 0o700)
    );
    drop(claimed);
    assert!(!run_directory.devices.exists());
}

#[test]
fn status_check_does_not_prevent_a_claim() {
    let (_directory, run_directory) = new_run_directory();
    let directory = run_directory.device_directory("a");
    fs::create_dir_all(directory.mount()).unwrap();
    fs::remove_dir(directory.mount()).unwrap();
    let shared = File::create(directory.lock()).unwrap();
    rustix::fs::flock(&shared, FlockOperation::NonBlockingLockShared).unwrap();
    let reader = std::thread::spawn(move || {
        // As long as on a stalled machine.
        std::thread::sleep(Duration::from_millis(500));
        drop(shared);
    });
    let claimed = run_directory.claim("a").unwrap();
    reader.join().unwrap();
    let refused = run_directory.claim("a").err().unwrap().to_string();
    assert_eq!(refused, "`a`: the drive already exists");
    drop(claimed);
}

/// A mount that is removed however the test ends.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        fuse::unmount(&self.0).unwrap();
    }
}

#[test]
fn failed_unmount_is_an_error() {
    use rustix::process::Uid;

    let (_directory, run_directory) = new_run_directory();
    let directory = run_directory.device_directory("a");
    fs::create_dir_all(directory.mount()).unwrap();
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Root]) {
        return;
    }
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", directory.mount(), "tmpfs", flags, None).unwrap();
    let mounted = Mount(directory.mount());
    let error = std::thread::scope(|scope| {
        let unprivileged = scope.spawn(|| {
            let user = Uid::from_raw(65_534);
            // Affects this thread only.
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            directory.sweep().unwrap_err().to_string()
        });
        unprivileged.join().unwrap()
    });
    assert!(error.starts_with("cannot unmount ") && error.lines().count() == 1, "{error}");
    drop(mounted);
    directory.sweep().unwrap();
}
