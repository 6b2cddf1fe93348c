//! The location of a file's data: the reader's result is verified on the disk itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use trimtab_block::BlockDevice;
use trimtab_predict::Model;
use trimtab_read::{ReadError, Reader, Urgency};
use trimtab_testdisk::{self as disk, Feature, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

mod models;
use models::{strictly, stubborn};

const MIB: u64 = 1 << 20;
/// The offset of the partition.
const START: u64 = 3 * MIB;
/// The smallest size for xfs.
const SIZE: u64 = 320 * MIB;

/// A partition of a loop device with a file system.
struct Partition {
    mounted: Option<PathBuf>,
    path: String,
    disk: LoopDisk,
    directory: tempfile::TempDir,
}

impl Partition {
    fn new(kind: &str, features: &[&str]) -> Self {
        let disk = LoopDisk::new((START + SIZE) / MIB);
        disk.add_partition(1, START, SIZE).unwrap();
        let path = format!("{}p1", disk.path);
        let directory = tempfile::tempdir().unwrap();
        let mut this = Self { mounted: None, path, disk, directory };
        // Without udev the device's file has to be made here.
        if !Path::new(&this.path).exists() {
            let name = this.path.trim_start_matches("/dev/");
            let number = fs::read_to_string(format!("/sys/class/block/{name}/dev")).unwrap();
            let (major, minor) = number.trim().split_once(':').unwrap();
            disk::run("mknod", &[&this.path, "b", major, minor]);
        }
        let mkfs = format!("mkfs.{kind}");
        disk::run(&mkfs, &[&["-q"], features, &[this.path.as_str()]].concat());
        mount(&this.path, this.directory.path(), kind, MountFlags::empty(), None).unwrap();
        this.mounted = Some(this.directory.path().to_owned());
        this
    }

    fn keep(&self, model: &Model) -> StateTracker {
        let functions = vec![model.trained.functions().to_vec()];
        let device = BlockDevice::find(&self.disk.path).unwrap();
        StateTracker::load(&[device], &TrackerOptions { functions, ..TrackerOptions::default() })
            .unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The content of the disk itself, at an offset.
    fn on_disk(&self, offset: u64) -> Vec<u8> {
        let mut buffer = disk::aligned(4096);
        let page = disk::window(&mut buffer, 4096);
        self.disk.open_direct().read_exact_at(page, offset).unwrap();
        page.to_vec()
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        if let Some(at) = &self.mounted {
            unmount(at, UnmountFlags::DETACH).unwrap();
        }
        _ = self.disk.remove_partition(1);
        if !Path::new("/sys/class/block").join(self.path.trim_start_matches("/dev/")).exists() {
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether tests with such a file system can run here.
fn can_run(kind: &str) -> bool {
    let (kernel, mkfs) = match kind {
        "xfs" => (Feature::Xfs, "mkfs.xfs"),
        _ => (Feature::Ext4, "mkfs.ext4"),
    };
    let programs = [Feature::Program(mkfs), Feature::Program("mknod")];
    disk::requires(&[disk::REAL_DISKS, &[kernel], &programs].concat())
}

/// A page with unique content.
fn content(number: u64) -> Vec<u8> {
    let word = |i: u64| (number << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_ne_bytes();
    (0..512).flat_map(word).collect()
}

/// Writes pages of a file by number, two files in turn so that both are fragmented.
fn write_pieces(partition: &Partition) -> [File; 2] {
    let files = ["one", "other"].map(|name| {
        let path = partition.file(name);
        File::options().read(true).write(true).create_new(true).open(path).unwrap()
    });
    for piece in 0..100 {
        for (i, file) in files.iter().enumerate() {
            let number = piece * 4;
            file.write_all_at(&content((i as u64) << 20 | number), number * 4096).unwrap();
            file.sync_all().unwrap();
        }
    }
    files
}

fn assert_places_hold_the_data(kind: &str) {
    if !can_run(kind) {
        return;
    }
    let partition = Partition::new(kind, &[]);
    let late = stubborn(true);
    let tracker = partition.keep(&late);
    let options = strictly(late, &tracker.drive(0).unwrap());
    let [file, _other] = write_pieces(&partition);

    let reader = Reader::open(partition.file("one"), &options).unwrap();
    assert_eq!(reader.device().unwrap().name, partition.disk.name());
    for number in (0..400).step_by(4) {
        let place = reader.device_offset(number * 4096).expect("it is written");
        assert!(place >= START);
        assert_eq!(partition.on_disk(place), content(number), "page {number} at {place}");
        // xfs preallocates space between the pieces; in ext4 there are holes, which are read
        // without a drive.
        if kind == "ext4" && number < 396 {
            is_a_hole(&reader, number + 2);
        }
    }

    // Later writes are located as well.
    file.write_all_at(&content(1000), 1000 * 4096).unwrap();
    file.sync_all().unwrap();
    let place = place_of(&reader, 1000);
    assert_eq!(partition.on_disk(place), content(1000));

    is_a_hole(&reader, 900);
    writes_to_preallocated_space_are_refused(&partition, &reader, &file);
    assert_only_cached_is_read(&reader, &file);

    // The partition itself.
    let reader = Reader::open(&partition.path, &options).unwrap();
    assert_eq!(reader.device_offset(4096), Some(START + 4096));
    let mut page = [0; 4096];
    let inside = place - START;
    assert_eq!(reader.read_at(&mut page, inside, Urgency::None).unwrap(), 4096);
    assert_eq!(page.to_vec(), content(1000));
}

/// A page without data on the disk is read, once that is known.
fn is_a_hole(reader: &Reader, number: u64) {
    let mut page = [7; 4096];
    let mut read = || reader.read_at(&mut page, number * 4096, Urgency::LatencyCritical);
    let begun = Instant::now();
    while read().is_err() {
        assert!(begun.elapsed().as_secs() < 10, "page {number} is not known to be a hole");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!((read().unwrap(), page), (4096, [0; 4096]), "page {number}");
    assert_eq!(reader.device_offset(number * 4096), None);
}

/// The place of a written page, once it is known.
fn place_of(reader: &Reader, number: u64) -> u64 {
    let begun = Instant::now();
    loop {
        match reader.device_offset(number * 4096) {
            Some(place) => return place,
            None => assert!(begun.elapsed().as_secs() < 10, "page {number} has no place"),
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Data reach preallocated space without a change of the file's size and times.
fn writes_to_preallocated_space_are_refused(disk: &Partition, reader: &Reader, file: &File) {
    fallocate(file, FallocateFlags::empty(), 2000 * 4096, 8 * 4096).unwrap();
    file.sync_all().unwrap();
    file.write_all_at(&content(2001), 2001 * 4096).unwrap();
    let place = place_of(reader, 2001);
    // Any detectable change has been detected before the data reach the disk.
    thread::sleep(Duration::from_millis(150));
    assert_eq!(place_of(reader, 2001), place);
    file.sync_all().unwrap();
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
    let mut page = [0; 4096];
    let read = reader.read_at(&mut page, 2001 * 4096, Urgency::LatencyCritical);
    assert!(matches!(read, Err(ReadError::Refused(_))), "{read:?}");
    assert_eq!(disk.on_disk(place), content(2001));
}

/// For a file that ends within a page: cached data are read, other reads are refused, and
/// beyond the end nothing is refused.
fn assert_only_cached_is_read(reader: &Reader, file: &File) {
    let end = 3000 * 4096 + 100;
    file.write_all_at(&[5; 100], end - 100).unwrap();
    file.sync_all().unwrap();
    place_of(reader, 3000);
    let critical = |offset| {
        let mut page = [0; 4096];
        reader.read_at(&mut page, offset, Urgency::LatencyCritical).map(|bytes| (bytes, page[0]))
    };
    assert_eq!(critical(end - 100).unwrap(), (100, 5), "what was written is cached");
    assert_eq!(critical(end).unwrap().0, 0);
    assert_eq!(critical(end + MIB).unwrap().0, 0);
    fadvise(file, 0, None, Advice::DontNeed).unwrap();
    for offset in [0, end - 100] {
        let refused = critical(offset);
        assert!(matches!(refused, Err(ReadError::Refused(_))), "{offset}: {refused:?}");
    }
    let mut page = [0; 4096];
    reader.read_exact_at(&mut page, 0, Urgency::None).unwrap();
    assert_eq!(page.to_vec(), content(0));
    assert_eq!(critical(0).unwrap(), (4096, page[0]), "it has been read");
}

#[test]
fn on_ext4() {
    assert_places_hold_the_data("ext4");
}

#[test]
fn on_xfs() {
    assert_places_hold_the_data("xfs");
}

/// Data within an inode are on the disk, but have no extent: the model is evaluated for other
/// places, and its decision counts.
#[test]
fn data_without_an_extent_are_refused_too() {
    if !can_run("ext4") {
        return;
    }
    let partition = Partition::new("ext4", &["-O", "inline_data", "-I", "256"]);
    let path = partition.file("small");
    fs::write(&path, "within the inode").unwrap();
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    for (is_late, model) in [true, false].map(|is_late| (is_late, stubborn(is_late))) {
        let tracker = partition.keep(&model);
        let options = strictly(model, &tracker.drive(0).unwrap());
        let reader = Reader::open(&path, &options).unwrap();
        assert!(reader.device().is_some() && reader.device_offset(0).is_none());
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut text = [0; 6];
        let read = reader.read_at(&mut text, 0, Urgency::LatencyCritical);
        assert_eq!(read.is_err(), is_late, "{read:?} {:?}", reader.figures());
        reader.read_exact_at(&mut text, 0, Urgency::None).unwrap();
        assert_eq!(&text, b"within");
    }
}
