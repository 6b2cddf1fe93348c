use std::path::Path;
use std::time::Duration;

use super::super::fuse;
use super::*;

/// A home in a directory that is not there yet.
fn home() -> (tempfile::TempDir, RunDirectory) {
    let directory = tempfile::tempdir().unwrap();
    let drives = directory.path().join("run/drives");
    (directory, RunDirectory { drives })
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_the_drives_are_private() {
    let (_directory, home) = home();
    let claimed = home.claim("a").unwrap();
    assert_eq!(mode(home.drives.parent().unwrap()), 0o755);
    assert_eq!((mode(&home.drives), mode(&home.drives.join("a"))), (0o700, 0o700));
    drop(claimed);
    assert!(!home.drives.exists());
}

#[test]
fn who_looks_keeps_nobody_from_it() {
    let (_directory, home) = home();
    let place = home.place("a");
    fs::create_dir_all(place.mount()).unwrap();
    fs::remove_dir(place.mount()).unwrap();
    let looks = File::create(place.lock()).unwrap();
    rustix::fs::flock(&looks, FlockOperation::NonBlockingLockShared).unwrap();
    let looker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10));
        drop(looks);
    });
    let claimed = home.claim("a").unwrap();
    looker.join().unwrap();
    let refused = home.claim("a").err().unwrap().to_string();
    assert_eq!(refused, "`a`: there is such a drive already");
    drop(claimed);
}

/// A file system that is gone with it, however the test ends.
struct Mount(PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        fuse::unmount(&self.0).unwrap();
    }
}

#[test]
fn what_cannot_be_unmounted_is_an_error() {
    use rustix::process::Uid;

    let (_directory, home) = home();
    let place = home.place("a");
    fs::create_dir_all(place.mount()).unwrap();
    if !trimtab_testdisk::requires(&[trimtab_testdisk::Feature::Root]) {
        return;
    }
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", place.mount(), "tmpfs", flags, None).unwrap();
    let mounted = Mount(place.mount());
    let error = std::thread::scope(|scope| {
        let nobody = scope.spawn(|| {
            let user = Uid::from_raw(65_534);
            // Of this thread only.
            rustix::thread::set_thread_res_uid(user, user, user).unwrap();
            place.sweep().unwrap_err().to_string()
        });
        nobody.join().unwrap()
    });
    assert!(error.starts_with("cannot unmount ") && error.lines().count() == 1, "{error}");
    drop(mounted);
    place.sweep().unwrap();
}

#[test]
fn word_of_a_drive_from_before_is_understood() {
    let text = r#"{"name": "a", "device": "/dev/loop0", "pid": 1, "capacity": 4096,
        "profile": "p", "seed": 1, "data": "none"}"#;
    let info: Info = serde_json::from_str(text).unwrap();
    assert_eq!(info.scheduler_before, None);
}
