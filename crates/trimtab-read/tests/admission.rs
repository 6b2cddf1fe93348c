//! Which reads are refused, and which counters change: on real block devices.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_predict::units::UnitFunction;
use trimtab_predict::{Identity, Model};
use trimtab_read::{Error, FailedOpen, ReadError, ReadOptions, Reader, Source, Urgency};
use trimtab_testdisk::{self as disk, Feature, LoopDisk};
use trimtab_tracker::{StateTracker, TrackerOptions};

mod models;
use models::{strictly, stubborn};

/// One at a time: each test counts its own reads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Skips a test, with a note, if the machine lacks something.
macro_rules! needs_real_disks {
    () => {
        if !disk::requires(disk::REAL_DISKS) {
            return;
        }
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    };
}

/// A disk with data, and a tracker of its state, for this model.
fn kept(model: &Model) -> (LoopDisk, StateTracker) {
    let disk = LoopDisk::new(16);
    let content: Vec<u8> = (0..16 << 20).map(|i: u32| (i >> 12) as u8).collect();
    disk.open_direct().write_all_at(aligned_copy(&content).as_slice(), 0).unwrap();
    let functions = vec![model.trained.functions().to_vec()];
    let options = TrackerOptions { functions, ..TrackerOptions::default() };
    let tracker = StateTracker::load(&[BlockDevice::find(&disk.path).unwrap()], &options).unwrap();
    (disk, tracker)
}

/// A buffer aligned for direct I/O.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn as_slice(&mut self) -> &mut [u8] {
        disk::window(&mut self.0, self.1)
    }
}

fn aligned_copy(content: &[u8]) -> Aligned {
    let mut aligned = Aligned(disk::aligned(content.len()), content.len());
    aligned.as_slice().copy_from_slice(content);
    aligned
}

fn page() -> Aligned {
    Aligned(disk::aligned(4096), 4096)
}

const CRITICAL: Urgency = Urgency::LatencyCritical;

#[test]
fn only_reads_that_would_be_late_are_refused() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let drive = tracker.drive(0).unwrap();
    let mut page = page();
    let direct = |model| ReadOptions { direct: true, ..strictly(model, &drive) };

    let reader = Reader::open(&disk.path, &direct(late)).unwrap();
    assert_eq!(reader.device().unwrap().name, disk.name());
    let before = drive.sent();
    let error = reader.read_at(page.as_slice(), 8192, CRITICAL).unwrap_err();
    let ReadError::Refused(refusal) = error else { panic!("{error}") };
    let wait = refusal.expected_wait.expect("a forest tells");
    assert_eq!(reader.expect(4096, 8192).unwrap().wait, Some(wait));
    // A deadline beyond the expected latency admits the read, an earlier one refuses it. It is
    // far beyond, because a busy machine may keep the thread waiting.
    let deadline = |wait| Urgency::Deadline(wait);
    assert!(reader.read_at(page.as_slice(), 8192, deadline(wait / 2)).is_err());
    assert_eq!(drive.sent(), before, "refused reads are not sent");
    assert_eq!(reader.read_at(page.as_slice(), 8192, deadline(wait * 1000)).unwrap(), 4096);
    reader.read_exact_at(page.as_slice(), 8192, Urgency::None).unwrap();
    assert_eq!(page.as_slice(), [2; 4096]);
    assert_eq!(drive.sent(), before + 2);
    let figures = reader.figures();
    assert_eq!((figures.without_deadline, figures.with_deadline), (1, 3));
    assert_eq!((figures.admitted, figures.refused), (1, 2), "{figures:?}");

    let reader = Reader::open(&disk.path, &direct(stubborn(false))).unwrap();
    assert_eq!(reader.read_at(page.as_slice(), 4096, CRITICAL).unwrap(), 4096);
    assert_eq!((page.as_slice()[0], reader.figures().admitted), (1, 1));
}

#[test]
fn cached_reads_are_never_refused() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let reader = Reader::open(&disk.path, &strictly(late, &tracker.drive(0).unwrap())).unwrap();
    let mut page = [0; 4096];
    rustix::fs::fadvise(&reader, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let sent = tracker.drive(0).unwrap().sent();
    assert!(reader.read_at(&mut page, 1 << 20, CRITICAL).is_err());
    // The refused request has not loaded it.
    assert!(reader.read_at(&mut page, 1 << 20, CRITICAL).is_err());
    assert_eq!(tracker.drive(0).unwrap().sent(), sent);
    assert_eq!(reader.read_at(&mut page, 1 << 20, Urgency::None).unwrap(), 4096);
    assert_eq!(reader.read_at(&mut page, 1 << 20, CRITICAL).unwrap(), 4096);
    assert_eq!(page, [0; 4096], "the 256th page, in one byte");
    let figures = reader.figures();
    assert_eq!(
        (figures.cached, figures.refused, figures.without_deadline),
        (1, 2, 1),
        "{figures:?}"
    );
}

/// If the kernel does not report what is cached: to a process that neither owns nor may write
/// the file.
#[test]
fn partly_cached_reads_are_refused_without_cachestat() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let reader = Reader::open(&disk.path, &strictly(late, &tracker.drive(0).unwrap())).unwrap();
    // Disables readahead.
    rustix::fs::fadvise(&reader, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    rustix::fs::fadvise(&reader, 0, None, rustix::fs::Advice::Random).unwrap();
    let places = (0..20).map(|i| i << 18);
    for place in places.clone() {
        reader.read_exact_at(&mut [0; 4096], place, Urgency::None).unwrap();
    }
    thread::scope(|scope| {
        // Capabilities and users of a thread apply to it alone.
        scope.spawn(|| {
            let nobody = rustix::thread::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut pages = [0; 8192];
            let whole = reader.read_at(&mut pages[..4096], 0, CRITICAL);
            assert_eq!(whole.unwrap(), 4096, "it is cached");
            let refused = |&place: &u64| reader.read_at(&mut pages, place, CRITICAL).is_err();
            // The request makes the kernel start reading: some pages may arrive in time.
            let refused = places.clone().filter(refused).count() as u64;
            let left = places.clone().filter(|&at| reader.admit(8192, at, CRITICAL).is_ok());
            let left = left.count() as u64;
            let figures = reader.figures();
            assert!(refused > 0 && figures.refused == refused + 20 - left, "{figures:?}");
            assert_eq!(figures.cached, 1 + 20 - refused + left, "{figures:?}");
        });
    });
}

/// A file that ends within a block, read past the page cache.
#[test]
fn end_of_file_is_not_an_invalid_call() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, [1; 5000]).unwrap();
    let options = ReadOptions { direct: true, publish: None, ..ReadOptions::default() };
    let reader = match Reader::open(&path, &options) {
        Ok(reader) => reader,
        Err(e) => return disk::skip(Feature::DirectIo, &e.to_string()),
    };
    let mut pages = Aligned(disk::aligned(8192), 8192);
    let error = reader.read_exact_at(pages.as_slice(), 0, Urgency::None).unwrap_err();
    let ReadError::Io(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}");
    assert_eq!(reader.read_at(pages.as_slice(), 0, Urgency::None).unwrap(), 5000);
}

#[test]
fn reads_without_a_forecast_are_admitted_and_counted() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let drive = tracker.drive(0).unwrap();
    let mut buffer = page();
    let mut open = |options: &ReadOptions, expected: FailedOpen| {
        let options = ReadOptions { direct: true, ..options.clone() };
        let reader = Reader::open(&disk.path, &options).unwrap();
        assert_eq!(reader.read_at(buffer.as_slice(), 0, CRITICAL).unwrap(), 4096);
        assert_eq!(reader.figures().failed_open, expected, "{options:?}");
        assert_eq!(expected.total(), 1);
        assert!(reader.expect(4096, 0).is_none());
    };
    let none = FailedOpen::default();
    let fitting = strictly(late, &drive);
    open(&ReadOptions { model: None, ..fitting.clone() }, FailedOpen { no_model: 1, ..none });
    let nowhere = Source::Pinned("/nowhere".into());
    let not_tracked = FailedOpen { not_tracked: 1, ..none };
    open(&ReadOptions { source: nowhere, ..fitting.clone() }, not_tracked);
    // The tracker's heartbeats come every 50 ms.
    thread::sleep(Duration::from_millis(5));
    let old = ReadOptions { oldest: Duration::ZERO, ..fitting.clone() };
    open(&old, FailedOpen { stale: 1, ..none });
    tracker.set_functions(0, &[UnitFunction::Stripe { shift: 12, units: 6 }]).unwrap();
    open(&fitting, FailedOpen { other_model: 1, ..none });
    drop(tracker);
    open(&fitting, not_tracked);
}

/// A disk of the same size counts as the same, even a new one: it has no other identity.
#[test]
fn model_of_another_drive_refuses_nothing() {
    needs_real_disks!();
    let mut late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let drive = tracker.drive(0).unwrap();
    let here = BlockDevice::find(&disk.path).unwrap().identity();
    assert_eq!(here, Identity { bytes: Some(16 << 20), ..Identity::default() });
    let mut page = page();
    let mut open = |of: Identity| {
        late.card.drive = Some(of);
        let options = ReadOptions { direct: true, ..strictly(late.clone(), &drive) };
        let reader = Reader::open(&disk.path, &options).unwrap();
        let is_refused = reader.read_at(page.as_slice(), 0, CRITICAL).is_err();
        let said = reader.other_drive().map(ToString::to_string);
        (is_refused, reader.figures().failed_open.other_drive, said)
    };
    assert_eq!(open(here.clone()), (true, 0, None));
    // An unknown property of the disk is no difference.
    assert_eq!(open(Identity { serial: Some("S1".into()), ..here }), (true, 0, None));
    let (is_refused, counted, said) =
        open(Identity { bytes: Some(8 << 20), ..Identity::default() });
    assert_eq!((is_refused, counted), (false, 1));
    let said = said.unwrap();
    assert!(said.ends_with("of capacity 8388608 bytes, this one's is 16777216 bytes"), "{said}");
}

/// A reader that finds the functions changed recovers by itself.
#[test]
fn model_fits_again_when_its_functions_are_restored() {
    needs_real_disks!();
    let late = stubborn(true);
    let functions = late.trained.functions().to_vec();
    let (disk, tracker) = kept(&late);
    let options = ReadOptions { direct: true, ..strictly(late, &tracker.drive(0).unwrap()) };
    let reader = Reader::open(&disk.path, &options).unwrap();
    let mut page = page();
    assert!(reader.read_at(page.as_slice(), 0, CRITICAL).is_err());
    tracker.set_functions(0, &[UnitFunction::Stripe { shift: 12, units: 6 }]).unwrap();
    assert!(reader.read_at(page.as_slice(), 0, CRITICAL).is_ok());
    tracker.set_functions(0, &functions).unwrap();
    let refused = (0..100).any(|_| {
        thread::sleep(Duration::from_millis(20));
        reader.read_at(page.as_slice(), 0, CRITICAL).is_err()
    });
    assert!(refused);
}

#[test]
fn every_read_is_counted_once_with_many_threads() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let options = ReadOptions {
        direct: true,
        most_refused: 0.5,
        sample_every: 7,
        probe_every: Duration::from_millis(1),
        ..strictly(late, &tracker.drive(0).unwrap())
    };
    let reader = Reader::open(&disk.path, &options).unwrap();
    let (refused, read) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (reader, refused, read) = (&reader, &refused, &read);
            scope.spawn(move || {
                let mut page = page();
                for i in 0..500_u64 {
                    let number = (i * 4 + thread) % 4096;
                    match reader.read_at(page.as_slice(), number << 12, CRITICAL) {
                        Ok(4096) => assert_eq!(page.as_slice(), [number as u8; 4096]),
                        Ok(short) => panic!("{short} bytes"),
                        Err(ReadError::Refused(_)) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        Err(e) => panic!("{e}"),
                    }
                    read.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (refused, read) = (refused.into_inner(), read.into_inner());
    let figures = reader.figures();
    assert_eq!((figures.with_deadline, figures.refused), (2000, refused));
    let sent = figures.probed + figures.sampled + figures.over_cap;
    let doubted = figures.failed_open;
    assert_eq!(sent + doubted.total(), read, "{figures:?}");
    // The state may be written at each attempt to read it.
    assert_eq!(doubted, FailedOpen { unsure: doubted.unsure, ..FailedOpen::default() });
    assert_eq!((figures.forced_samples, figures.admitted), (sent, 0));
    assert!(refused <= 1000 + 16 && figures.sampled > 100, "{figures:?}");
}

/// Sparse reads too, so that there are only a few in each second.
#[test]
fn refusals_per_second_never_exceed_the_cap() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let options = ReadOptions {
        direct: true,
        most_refused: 0.8,
        ..strictly(late, &tracker.drive(0).unwrap())
    };
    let reader = Reader::open(&disk.path, &options).unwrap();
    let (mut page, mut seconds) = (page(), std::collections::BTreeMap::new());
    for gap in [Duration::from_millis(150), Duration::from_micros(200)] {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            let second = |now: Nanos| now.0 / 1_000_000_000;
            let before = second(trimtab_io::monotonic());
            let is_refused = reader.read_at(page.as_slice(), 0, CRITICAL).is_err();
            // The second of the decision is unknown for a read that ends in the next one.
            if second(trimtab_io::monotonic()) == before {
                let (asked, refused): &mut (u32, u32) = seconds.entry(before).or_default();
                (*asked, *refused) = (*asked + 1, *refused + u32::from(is_refused));
            }
            thread::sleep(gap);
        }
    }
    assert!(seconds.len() >= 4, "{seconds:?}");
    for (asked, refused) in seconds.values() {
        // One that was left out may have permitted one more.
        assert!(f64::from(*refused) <= 0.8 * f64::from(asked + 1), "{seconds:?}");
    }
    let figures = reader.figures();
    assert!(figures.refused * 10 > figures.with_deadline * 7, "{figures:?}");
}

/// One thread, whose reads are all refused, on an otherwise idle drive. Each refusal is within
/// the probe interval after the last read that was sent: so the test holds regardless of
/// scheduling delays.
#[test]
fn refused_drive_is_probed_every_10_ms() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    for gap in [Duration::ZERO, Duration::from_millis(3), Duration::from_millis(25)] {
        let strictly = strictly(late.clone(), &tracker.drive(0).unwrap());
        let probe_every = ReadOptions::default().probe_every;
        let reader =
            Reader::open(&disk.path, &ReadOptions { direct: true, probe_every, ..strictly })
                .unwrap();
        let mut page = page();
        assert!(reader.read_at(page.as_slice(), 0, CRITICAL).is_err());
        let (begun, mut sent) = (Instant::now(), Instant::now());
        let mut i = 0;
        while begun.elapsed() < Duration::from_millis(300) {
            thread::sleep(gap);
            i += 1;
            let asked = Instant::now();
            match reader.read_at(page.as_slice(), i % 4096 * 4096, CRITICAL) {
                Ok(_) => sent = Instant::now(),
                Err(_) => assert!(asked - sent < probe_every, "{:?}", asked - sent),
            }
        }
        let most = (begun.elapsed().as_millis() / probe_every.as_millis()) as u64 + 1;
        let figures = reader.figures();
        assert!((1..=most).contains(&figures.probed), "{gap:?}: {figures:?}");
    }
}

#[test]
fn io_uring_reads_are_decided_alike() {
    needs_real_disks!();
    let late = stubborn(true);
    let (disk, tracker) = kept(&late);
    let drive = tracker.drive(0).unwrap();
    let mut ring = match io_uring::IoUring::new(8) {
        Ok(ring) => ring,
        Err(e) => return disk::skip(Feature::IoUring, &e.to_string()),
    };
    let options = ReadOptions { direct: true, ..strictly(late, &drive) };
    let reader = Reader::open(&disk.path, &options).unwrap();
    let mut page = page();
    let buffer = page.as_slice().as_mut_ptr();
    assert!(reader.prepare(buffer, 4096, 3 << 12, CRITICAL).is_err());
    let (entry, pass) = reader.prepare(buffer, 4096, 3 << 12, Urgency::None).unwrap();
    // SAFETY: the page outlives the read, which is waited for.
    unsafe { ring.submission().push(&entry.user_data(7)) }.unwrap();
    ring.submit_and_wait(1).unwrap();
    let done = ring.completion().next().unwrap();
    assert_eq!((done.user_data(), done.result()), (7, 4096));
    pass.finish();
    assert_eq!(page.as_slice(), [3; 4096]);
    assert_eq!((reader.figures().without_deadline, reader.figures().refused), (1, 1));
}

#[test]
fn invalid_input_is_reported_in_one_line() {
    let why = |result: Result<Reader, Error>| result.unwrap_err().to_string();
    let none = ReadOptions { publish: None, ..ReadOptions::default() };
    let missing = why(Reader::open("/nowhere/file", &none));
    assert!(missing.starts_with("cannot open /nowhere/file for reading: No such"), "{missing}");
    let share = ReadOptions { most_refused: 1.5, ..none.clone() };
    assert!(why(Reader::open("/dev/zero", &share)).contains("a share from 0 to 1, not 1.5"));
    let never = ReadOptions { probes_out: 0, ..none.clone() };
    assert!(why(Reader::open("/dev/zero", &never)).contains("at least 1"));
    assert!(why(Reader::open("/", &none)).contains("Is a directory"));
}

/// The sum of offset and length wraps, or exceeds the limit of a read: the result is the
/// kernel's error, with a model and without one.
#[test]
fn reads_beyond_the_largest_offset_fail_as_pread_does() {
    let file = tempfile::tempfile().unwrap();
    let options = ReadOptions { publish: None, ..ReadOptions::with_model(stubborn(true)) };
    let reader = Reader::from_file(file, &options).unwrap();
    for offset in [u64::MAX, u64::MAX - 4095, i64::MAX as u64 - 10, 1 << 63] {
        for urgency in [CRITICAL, Urgency::None, Urgency::Deadline(Duration::from_secs(1))] {
            let read = reader.read_at(&mut [0; 4096], offset, urgency);
            match read {
                Err(ReadError::Io(e)) => {
                    let expected = [Some(libc::EINVAL), Some(libc::EOVERFLOW)];
                    assert!(expected.contains(&e.raw_os_error()), "{offset}: {e}");
                }
                other => panic!("{offset}: {other:?}"),
            }
            assert!(reader.expect(4096, offset).is_none());
        }
    }
}

/// Without a disk there is no state: nothing is refused.
#[test]
fn files_on_no_disk_are_never_refused() {
    let options = ReadOptions { publish: None, ..ReadOptions::with_model(stubborn(true)) };
    let file = File::open("/proc/version").unwrap();
    let reader = Reader::from_file(file, &options).unwrap();
    let mut buffer = [0; 5];
    reader.read_exact_at(&mut buffer, 0, CRITICAL).unwrap();
    assert_eq!(&buffer, b"Linux");
    assert_eq!(reader.figures().failed_open.no_device, 1);
    let error = reader.read_exact_at(&mut [0; 5], 1 << 20, CRITICAL).unwrap_err();
    assert!(matches!(&error, ReadError::Io(e) if e.kind() == std::io::ErrorKind::UnexpectedEof));
}
