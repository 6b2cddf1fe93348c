//! Reads with a deadline of devices built on others: decisions use the state of the drive
//! below, if there is only one.

use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_block::topology::Topology;
use trimtab_predict::Model;
use trimtab_read::{FailedOpen, ReadOptions, Reader, Source, Urgency};
use trimtab_state::LiveDrive;
use trimtab_testdisk::stack::{Array, MULTIPATH_MODULES, Mapped, Multipath, can_make};
use trimtab_testdisk::{self as disk, LoopDisk, with_bpf_files};
use trimtab_tracker::{StateTracker, TrackerOptions};

mod models;
use models::{strictly, stubborn};

/// One at a time: each test counts its own reads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Skips a test, with a note, if the machine lacks something.
macro_rules! needs {
    ($programs:expr, $modules:expr) => {
        if !can_make(&$programs, &$modules) {
            return;
        }
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    };
}

const MIB: u64 = 1 << 20;
const CRITICAL: Urgency = Urgency::LatencyCritical;

/// Tracks these devices for this model, and pins their state in a directory.
fn tracked(devices: &[BlockDevice], model: &Model, pins: &Path) -> StateTracker {
    let functions = vec![model.trained.functions().to_vec(); devices.len()];
    let options = TrackerOptions { functions, ..TrackerOptions::default() };
    let mut tracker = StateTracker::load(devices, &options).unwrap();
    tracker.pin(pins).unwrap();
    tracker
}

/// Options to decide by the pinned state alone.
fn options(model: Model, drive: &LiveDrive, pins: &Path) -> ReadOptions {
    let source = Source::Pinned(pins.to_owned());
    ReadOptions { source, direct: true, ..strictly(model, drive) }
}

struct Page(Vec<u8>);

impl Page {
    fn new() -> Self {
        Self(disk::aligned(8192))
    }

    fn of(&mut self, bytes: usize) -> &mut [u8] {
        disk::window(&mut self.0, bytes)
    }
}

#[test]
fn volume_of_two_drives_uses_the_state_of_the_drive_read() {
    needs!(["dmsetup"], ["dm-mod"]);
    with_bpf_files(0o755, |bpf| {
        let disks = [LoopDisk::new(8), LoopDisk::new(8), LoopDisk::new(8)];
        let [a, b, untracked] = &disks;
        let rows = [
            (2048, format!("linear {} 4096", a.path)),
            (2048, format!("linear {} 0", b.path)),
            (2048, format!("linear {} 0", untracked.path)),
        ];
        let volume = Mapped::of_rows(&rows);
        let late = stubborn(true);
        let devices = [&a.path, &b.path].map(|path| BlockDevice::find(path).unwrap());
        let pins = bpf.join("pins");
        let tracker = tracked(&devices, &late, &pins);
        let [on_a, on_b] = [0, 1].map(|index| tracker.drive(index).unwrap());
        let reader = Reader::open(&volume.path, &options(late, &on_a, &pins)).unwrap();
        assert_eq!(reader.device(), None, "it is not one");
        assert_eq!(reader.device_at(0, 4096).unwrap().name, a.name());
        assert_eq!(reader.device_at(MIB, 4096).unwrap().name, b.name());
        assert_eq!(reader.device_offset(4096), Some(2 * MIB + 4096));
        assert_eq!(reader.device_offset(MIB + 4096), Some(4096));

        let mut page = Page::new();
        let before = [on_a.sent(), on_b.sent()];
        assert!(reader.read_at(page.of(4096), 4096, CRITICAL).is_err());
        assert!(reader.read_at(page.of(4096), MIB, CRITICAL).is_err());
        assert_eq!([on_a.sent(), on_b.sent()], before, "what is refused is not sent");
        assert!(reader.expect(4096, MIB).unwrap().is_late);
        reader.read_exact_at(page.of(4096), 4096, Urgency::None).unwrap();
        assert_eq!([on_a.sent(), on_b.sent()], [before[0] + 1, before[1]]);
        reader.read_exact_at(page.of(4096), MIB, Urgency::None).unwrap();
        assert_eq!([on_a.sent(), on_b.sent()], [before[0] + 1, before[1] + 1]);
        // Neither drive's state predicts when both complete.
        assert_eq!(reader.read_at(page.of(8192), MIB - 4096, CRITICAL).unwrap(), 8192);
        // The third is not tracked.
        assert_eq!(reader.read_at(page.of(4096), 2 * MIB, CRITICAL).unwrap(), 4096);
        let figures = reader.figures();
        let expected = FailedOpen { several_drives: 1, not_tracked: 1, ..FailedOpen::default() };
        assert_eq!(figures.failed_open, expected);
        assert_eq!(
            (figures.with_deadline, figures.refused, figures.without_deadline),
            (4, 2, 2),
            "{figures:?}"
        );
    });
}

#[test]
fn file_on_a_volume_is_located_by_its_extents() {
    needs!(["dmsetup", "mkfs.ext4"], ["dm-mod"]);
    with_bpf_files(0o755, |bpf| {
        let disks = [LoopDisk::new(24), LoopDisk::new(24)];
        let [a, b] = &disks;
        let rows = [
            (20 << 11, format!("linear {} 2048", a.path)),
            (20 << 11, format!("linear {} 2048", b.path)),
        ];
        let volume = Mapped::of_rows(&rows);
        disk::run("mkfs.ext4", &["-q", "-F", &volume.path]);
        let mounted = bpf.parent().unwrap().join("trimtab-topology");
        std::fs::create_dir_all(&mounted).unwrap();
        let at = mounted.to_str().unwrap();
        disk::run("mount", &[&volume.path, at]);
        let path = mounted.join("file");
        let mut file = std::fs::File::create(&path).unwrap();
        let blocks = 24 * MIB / 4096;
        for number in 0..blocks {
            file.write_all(&number.to_ne_bytes().repeat(512)).unwrap();
        }
        file.sync_all().unwrap();
        rustix::fs::sync();
        let late = stubborn(true);
        let devices = [&a.path, &b.path].map(|path| BlockDevice::find(path).unwrap());
        let pins = bpf.join("pins");
        let tracker = tracked(&devices, &late, &pins);
        let options = options(late, &tracker.drive(0).unwrap(), &pins);
        let reader = Reader::open(&path, &options).unwrap();
        let mut page = Page::new();
        let mut on = [0_u64; 2];
        for number in 0..blocks {
            let offset = number * 4096;
            let device = reader.device_at(offset, 4096).expect("one drive");
            let held = disks.iter().position(|disk| disk.name() == device.name).unwrap();
            on[held] += 1;
            let place = reader.device_offset(offset).expect("it is known");
            let mut word = [0; 8];
            let lower = std::fs::File::open(&disks[held].file).unwrap();
            std::os::unix::fs::FileExt::read_exact_at(&lower, &mut word, place).unwrap();
            assert_eq!(u64::from_ne_bytes(word), number, "on {} at {place}", device.name);
        }
        assert!(on[0] > 0 && on[1] > 0, "{on:?}");
        assert!(reader.read_at(page.of(4096), 0, CRITICAL).is_err());
        assert!(reader.read_at(page.of(4096), 24 * MIB - 4096, CRITICAL).is_err());
        assert_eq!(reader.figures().refused, 2);
        drop(reader);
        drop(file);
        disk::run("umount", &[at]);
        std::fs::remove_dir(&mounted).unwrap();
    });
}

#[test]
fn mirror_is_read_without_forecast_until_one_drive_is_left() {
    needs!(["mdadm"], ["raid1"]);
    with_bpf_files(0o755, |bpf| {
        let disks = [LoopDisk::new(8), LoopDisk::new(8)];
        let paths = disks.each_ref().map(|disk| &*disk.path);
        let array = Array::new(&["--level=1", "--assume-clean", "--bitmap=none"], &paths);
        let late = stubborn(true);
        let devices = paths.map(|path| BlockDevice::find(path).unwrap());
        let pins = bpf.join("pins");
        let tracker = tracked(&devices, &late, &pins);
        let options = options(late, &tracker.drive(0).unwrap(), &pins);
        let reader = Reader::open(&array.path, &options).unwrap();
        let mut page = Page::new();
        assert_eq!(reader.read_at(page.of(4096), 0, CRITICAL).unwrap(), 4096);
        assert_eq!(reader.figures().failed_open.several_drives, 1);
        array.fail(paths[0]);
        let begun = Instant::now();
        while reader.read_at(page.of(4096), 0, CRITICAL).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", reader.figures());
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(reader.device_at(0, 4096).unwrap().name, disks[1].name());
    });
}

#[test]
fn unknown_mapping_is_counted() {
    needs!(["dmsetup"], ["dm-unstripe"]);
    with_bpf_files(0o755, |bpf| {
        let disks = [LoopDisk::new(8), LoopDisk::new(8)];
        let [a, b] = &disks;
        let late = stubborn(true);
        let devices = [BlockDevice::find(&a.path).unwrap()];
        let pins = bpf.join("pins");
        let tracker = tracked(&devices, &late, &pins);
        let options = options(late, &tracker.drive(0).unwrap(), &pins);
        let mut page = Page::new();
        // A target whose mapping trimtab does not know, on one drive: the drive is known.
        let one = Mapped::new(&format!("0 2048 unstriped 2 16 0 {} 0", a.path));
        let reader = Reader::open(&one.path, &options).unwrap();
        assert!(reader.read_at(page.of(4096), 0, CRITICAL).is_err());
        assert_eq!(
            (reader.device().unwrap().name.as_str(), reader.device_offset(0)),
            (a.name(), None)
        );
        drop(reader);
        drop(one);
        // On two it is not.
        let rows = [
            (2048, format!("unstriped 2 16 0 {} 0", a.path)),
            (2048, format!("linear {} 0", b.path)),
        ];
        let two = Mapped::of_rows(&rows);
        let reader = Reader::open(&two.path, &options).unwrap();
        assert_eq!(reader.read_at(page.of(4096), 0, CRITICAL).unwrap(), 4096);
        let expected = FailedOpen { unknown_mapping: 1, ..FailedOpen::default() };
        assert_eq!(reader.figures().failed_open, expected);
    });
}

/// The tracker sees the requests of the head's path, by the path's number.
#[test]
fn nvme_multipath_uses_the_state_of_its_path() {
    needs!([], MULTIPATH_MODULES);
    with_bpf_files(0o755, |bpf| {
        let lower = LoopDisk::new(16);
        let namespace = Multipath::new(&lower.path);
        let topology = Topology::find(&namespace.path).unwrap();
        let path = topology.disks()[0].device.clone();
        disk::note(&format!("{}: {}, {:?}", namespace.path, topology.describe(), path.number));
        let late = stubborn(true);
        let pins = bpf.join("pins");
        let tracker = tracked(std::slice::from_ref(&path), &late, &pins);
        let drive = tracker.drive(0).unwrap();
        let reader = Reader::open(&namespace.path, &options(late, &drive, &pins)).unwrap();
        assert_eq!(reader.device().unwrap().name, path.name);
        let mut page = Page::new();
        let before = drive.sent();
        assert!(reader.read_at(page.of(4096), 8192, CRITICAL).is_err());
        assert_eq!(drive.sent(), before);
        for number in 0..10 {
            reader.read_exact_at(page.of(4096), number * 4096, Urgency::None).unwrap();
        }
        assert_eq!(drive.sent(), before + 10, "the path's requests are seen");
        assert_eq!(reader.figures().refused, 1);
    });
}
