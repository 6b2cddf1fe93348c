//! Reads that are expected in memory, on files of a real file system.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use trimtab_read::{ReadError, ReadOptions, Reader, RefusalCause, Urgency};
use trimtab_testdisk::Feature;

mod evicted;
use evicted::{evict, resident_pages, written};

const PAGE: u64 = 4096;
const PAGES: u64 = 64;
/// Shorter than `memory_below`, and longer than a copy from memory usually takes.
const SOON: Urgency = Urgency::Deadline(Duration::from_micros(900));
const PATIENCE: Duration = Duration::from_secs(20);

fn reader(file: &File) -> Reader {
    let below = Some(Duration::from_millis(1));
    let options = ReadOptions {
        memory_below: below,
        publish: None,
        // Otherwise the first read of a second is never refused.
        most_refused: 1.0,
        ..ReadOptions::default()
    };
    Reader::from_file(file.try_clone().unwrap(), &options).unwrap()
}

fn read(reader: &Reader, page: u64, urgency: Urgency) -> Result<(), ReadError> {
    let mut buffer = [0; PAGE as usize];
    reader.read_exact_at(&mut buffer, page * PAGE, urgency)?;
    assert_eq!(buffer, [page as u8; PAGE as usize]);
    Ok(())
}

fn is_evicted(result: &Result<(), ReadError>) -> bool {
    matches!(result, Err(ReadError::Refused(refusal)) if refusal.cause == RefusalCause::Evicted)
}

#[test]
fn evicted_pages_are_refused_and_brought_in_and_first_accesses_are_not() {
    let Some((_directory, file)) = written(PAGES) else { return };
    let reader = reader(&file);
    // The first access of all pages: none is in memory.
    for page in 0..PAGES / 2 {
        let first = read(&reader, page, SOON);
        assert!(matches!(first, Ok(()) | Err(ReadError::TimedOut(_))), "{first:?}");
        read(&reader, page, Urgency::None).unwrap();
    }
    assert_eq!(reader.figures().refused, 0);
    assert!(reader.figures().first_accesses > 0);
    // In memory: read, whatever the drive does.
    (0..PAGES / 2).for_each(|page| read(&reader, page, SOON).unwrap());
    let cached = reader.figures().cached;
    assert!(cached >= PAGES / 2, "{cached}");

    assert!(evict(&file));
    let refused = read(&reader, 5, SOON);
    assert!(is_evicted(&refused), "{refused:?}");
    assert_eq!((reader.figures().refused, reader.figures().evicted), (1, 1));
    // A page that was never read is still none that was evicted.
    let first = read(&reader, PAGES - 1, SOON);
    assert!(matches!(first, Ok(()) | Err(ReadError::TimedOut(_))), "{first:?}");
    // No other read brings it in.
    let begun = Instant::now();
    while read(&reader, 5, SOON).is_err() {
        assert!(begun.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(1));
    }
    let figures = reader.figures();
    assert_eq!(figures.refused, figures.evicted);
}

/// Of a read of several pages, one that was never seen makes it a first access.
#[test]
fn one_unseen_page_admits_the_read() {
    let Some((_directory, file)) = written(PAGES) else { return };
    let reader = reader(&file);
    (0..4).for_each(|page| read(&reader, page, Urgency::None).unwrap());
    assert!(evict(&file));
    let mut buffer = [0; 5 * PAGE as usize];
    let five = reader.read_at(&mut buffer, 0, SOON);
    assert!(matches!(five, Ok(_) | Err(ReadError::TimedOut(_))), "{five:?}");
    read(&reader, 4, Urgency::None).unwrap();
    assert!(evict(&file));
    let five = reader.read_at(&mut buffer, 0, SOON);
    assert!(is_evicted(&five.map(|_| ())));
    // The caller may also send it itself.
    assert!(evict(&file));
    assert!(reader.admit(5 * PAGE, 0, SOON).is_err_and(|no| no.cause == RefusalCause::Evicted));
    assert!(reader.admit(5 * PAGE, 8 * PAGE, SOON).is_ok());
}

#[test]
fn refusals_of_evicted_pages_are_capped() {
    let Some((_directory, file)) = written(PAGES) else { return };
    let below = Some(Duration::from_millis(1));
    let options = ReadOptions {
        memory_below: below,
        publish: None,
        most_refused: 0.5,
        ..ReadOptions::default()
    };
    let reader = Reader::from_file(file.try_clone().unwrap(), &options).unwrap();
    (0..PAGES).for_each(|page| read(&reader, page, Urgency::None).unwrap());
    for page in 0..PAGES {
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        _ = read(&reader, page, SOON);
    }
    let figures = reader.figures();
    assert!(figures.evicted > 0 && 2 * figures.refused <= figures.with_deadline, "{figures:?}");
}

/// Without an option the floor is the least latency of the drive's reads.
#[test]
fn floor_is_learned_from_the_drives_reads() {
    let Some((_directory, file)) = written(PAGES) else { return };
    let options = ReadOptions { publish: None, ..ReadOptions::default() };
    let reader = Reader::from_file(file.try_clone().unwrap(), &options).unwrap();
    // Without readahead each read reaches the drive.
    fadvise(&file, 0, None, Advice::Random).unwrap();
    let at_once = Urgency::Deadline(Duration::from_nanos(1));
    let long = Urgency::Deadline(PATIENCE);
    // Nothing is known of the drive: nothing is refused.
    for page in 0..PAGES {
        read(&reader, page, long).unwrap();
    }
    for _ in 0..4 {
        assert!(evict(&file));
        (0..PAGES).for_each(|page| read(&reader, page, long).unwrap());
    }
    assert_eq!(reader.figures().refused, 0);
    // The first read that is expected in memory begins the record.
    (0..PAGES).for_each(|page| read(&reader, page, at_once).unwrap());
    assert_eq!(reader.figures().cached, PAGES);
    assert!(evict(&file));
    let refused = read(&reader, 9, at_once);
    assert!(is_evicted(&refused), "{refused:?} {:?}", reader.figures());
    let Err(ReadError::Refused(refusal)) = refused else { unreachable!() };
    assert!(refusal.expected_wait.is_some_and(|wait| wait > Duration::from_nanos(1)));
    // Zero switches it off.
    let options = ReadOptions { memory_below: Some(Duration::ZERO), ..options };
    let reader = Reader::from_file(file.try_clone().unwrap(), &options).unwrap();
    for _ in 0..2 {
        assert!(evict(&file));
        assert!(!is_evicted(&read(&reader, 9, at_once)));
        read(&reader, 9, Urgency::None).unwrap();
    }
}

/// The reader and its file may be gone when the pages are brought in.
#[test]
fn closed_files_are_still_brought_in() {
    let Some((_directory, file)) = written(PAGES) else { return };
    let reader = reader(&file);
    read(&reader, 3, Urgency::None).unwrap();
    let shared = Arc::downgrade(reader.file());
    assert!(evict(&file));
    assert!(is_evicted(&read(&reader, 3, SOON)));
    drop(reader);
    let begun = Instant::now();
    while resident_pages(&file)[3] == 0 || shared.strong_count() > 0 {
        assert!(begun.elapsed() < PATIENCE, "{}", file.as_raw_fd());
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn evicting_works_here_or_is_reported() {
    if written(1).is_none() {
        trimtab_testdisk::skip(Feature::Kernel, "pages of temporary files cannot be evicted");
    }
}
