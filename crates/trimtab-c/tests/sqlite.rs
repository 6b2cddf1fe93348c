//! SQLite over a set of replicas: the example's VFS gives what a plain file gives.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use trimtab_testdisk::{self as disk, Feature};

#[path = "../../trimtab-emu/tests/emulated/mod.rs"]
mod emulated;
mod programs;
use emulated::Emulated;
use programs::{LIBRARIES, ROOT, compile_with, stderr};

/// A program, and a database of which there are three copies and one more.
struct Place {
    directory: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Option<Self> {
        if !disk::requires(&[Feature::Sqlite, Feature::Program("sqlite3")]) {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("test.c"), directory.path().join("test"));
        let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
        fs::write(&source, format!("#include \"{tests}/sqlite.c\"\n")).unwrap();
        let vfs = Path::new(ROOT).join("examples/sqlite-replicas/trimtab_vfs.c");
        compile_with(&[&source, &vfs], &program, &["-lsqlite3"])?;
        let this = Self { directory, program };
        this.fill();
        Some(this)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn fill(&self) {
        let made = Command::new("sqlite3")
            .arg(self.path("plain"))
            .arg(
                "CREATE TABLE kv (key INTEGER PRIMARY KEY, word TEXT, value TEXT);
                 WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
                 INSERT INTO kv SELECT i, 'w' || (i * 7919 % 13), hex(randomblob(150)) FROM n;
                 CREATE INDEX words ON kv (word);",
            )
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", stderr(&made));
        for copy in ["a", "b", "c"] {
            fs::copy(self.path("plain"), self.path(copy)).unwrap();
        }
    }

    /// Runs the program on these copies; `change` is done when it has opened them. Returns reads
    /// served and errors of each.
    fn run(&self, copies: &[&Path; 3], more: &str, what: &str, change: impl FnOnce()) -> Vec<u64> {
        let [a, b, c] = copies.map(|path| path.to_str().unwrap());
        let mut command = Command::new(&self.program);
        command.env("LD_LIBRARY_PATH", &*LIBRARIES).env("TRIMTAB_RUN", self.path("run"));
        if more.is_empty() {
            command.env("TRIMTAB_REPLICAS", format!("{b}:{c}"));
            command.arg(format!("file:{a}?vfs=trimtab"));
        } else {
            command.arg(format!("file:{a}?vfs=trimtab&replica1={b}&replica2={c}&{more}"));
        }
        command.arg(self.path("plain")).arg(what);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = pipes.spawn().unwrap();
        let mut to = running.stdin.take().unwrap();
        let mut from = BufReader::new(running.stdout.take().unwrap()).lines();
        if from.next().is_some_and(|said| said.unwrap() == "ready") {
            change();
            to.write_all(b"go on\n").unwrap();
        }
        let told = from.next().map(Result::unwrap);
        drop(to);
        let output = running.wait_with_output().unwrap();
        assert!(output.status.success(), "{told:?} {}", stderr(&output));
        told.unwrap().split_whitespace().map(|number| number.parse().unwrap()).collect()
    }
}

#[test]
fn queries_give_what_a_plain_file_gives() {
    let Some(place) = Place::new() else { return };
    let [a, b, c] = ["a", "b", "c"].map(|name| place.path(name));
    for more in ["", "direct=1", "strategy=base", "strategy=hedge&strategy_us=1000", "direct=0"] {
        let told = place.run(&[&a, &b, &c], more, "same", || ());
        // Each MiB has its replica, drawn by its number.
        let served = told.iter().step_by(2).filter(|served| **served > 0).count();
        assert!(served > 1 && told[1] + told[3] + told[5] == 0, "{more}: {told:?}");
    }
    // A copy that becomes empty counts as failed.
    let empty = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(0);
    let told = place.run(&[&a, &b, &c], "direct=1", "same", || empty(&b).unwrap());
    assert!(told[3] > 0 && told[0] + told[4] > 0, "{told:?}");
}

/// A file system on an emulated drive, unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(drive: &Emulated, at: PathBuf) -> Self {
        fs::create_dir(&at).unwrap();
        let made = Command::new("mkfs.ext4").args(["-q", "-F", &drive.path]).output().unwrap();
        assert!(made.status.success(), "{}", stderr(&made));
        let mounted = Command::new("mount").arg(&drive.path).arg(&at).output().unwrap();
        assert!(mounted.status.success(), "{}", stderr(&mounted));
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The kernel closes the files of a program's last requests after its end.
        for _ in 0..100 {
            let done = Command::new("umount").arg(&self.0).output();
            if done.is_ok_and(|done| done.status.success()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}

#[test]
fn queries_go_on_while_a_drive_fails_or_stalls() {
    let needs = [Feature::Mount, Feature::Ext4, Feature::Program("mkfs.ext4")];
    if !emulated::can_run() || !disk::requires(&needs) {
        return;
    }
    let Some(place) = Place::new() else { return };
    let drive = Emulated::new();
    let mounted = Mounted::new(&drive, place.path("drive"));
    let (a, b, c) = (place.path("a"), mounted.0.join("b"), place.path("c"));
    fs::copy(place.path("b"), &b).unwrap();
    rustix::fs::sync();
    let copies = [&*a, &*b, &*c];
    let told = place.run(&copies, "direct=1", "same", || ());
    assert!(told[2] > 0, "{told:?}");
    let told = place.run(&copies, "direct=1", "same", || drive.fail());
    assert!(told[3] > 0 && told[1] + told[5] == 0, "{told:?}");
    drive.heal();
    // It answers after a second at the latest; long before that it is not asked any more.
    let stall = || drive.stall_for(std::time::Duration::from_secs(3));
    let told = place.run(&copies, "direct=1", "same", stall);
    assert!(told[0] + told[4] > 0 && told[1] + told[3] + told[5] == 0, "{told:?}");
    drive.heal();
}

#[test]
fn page_that_no_copy_has_is_an_error() {
    let Some(place) = Place::new() else { return };
    if !emulated::can_run() || !disk::requires(&[Feature::Mount, Feature::Ext4]) {
        return;
    }
    let drive = Emulated::new();
    let mounted = Mounted::new(&drive, place.path("drive"));
    let copies = ["a", "b", "c"].map(|name| {
        let copy = mounted.0.join(name);
        fs::copy(place.path(name), &copy).unwrap();
        copy
    });
    rustix::fs::sync();
    let [a, b, c] = &copies;
    let told = place.run(&[a, b, c], "direct=1", "fails", || drive.fail());
    assert!(told[1] > 0 && told[3] > 0 && told[5] > 0, "{told:?}");
    drive.heal();
}
