//! The location of a file's data on its device, from the latest map of its extents.

mod fiemap;

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use trimtab_io::{Nanos, monotonic};

use crate::location::Place;
use crate::refresh::{self, Refresh};
use fiemap::{Extent, extents};

/// How often a file is checked for changes. Until then an offset may be outdated, and a
/// forecast may be for another part of the drive; the data read are always correct.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);
/// The same, if a read is in a hole, beyond the end, or in unmapped data: the file has
/// probably changed.
const LOOK_AGAIN: Nanos = Nanos::from_millis(5);
/// How often a file that seems unchanged is mapped again: defragmentation, and file systems
/// that never write in place, move data without changing a time stamp.
const ANEW: Nanos = Nanos::from_millis(1000);
/// Mapping a file takes at most this fraction of a processor (1/`REST`).
const REST: u64 = 20;
/// The most milliseconds that dropping a reader waits for its file to be closed.
const PATIENCE: u32 = 100;

/// A file's extents, for a reader.
#[derive(Debug)]
pub(super) struct Extents {
    layout: Arc<Layout>,
    /// When the file was last checked.
    looked: AtomicU64,
    /// The start time of the map that is known to be outdated; 0: the current one is not.
    outdated: AtomicU64,
}

/// Shared by the reader and the thread that maps files.
#[derive(Debug)]
pub(super) struct Layout {
    file: Arc<File>,
    map: ArcSwap<Map>,
    is_over: AtomicBool,
}

#[derive(Debug, PartialEq, Eq)]
struct Map {
    /// `None` if the file system does not report extents.
    extents: Option<Vec<Extent>>,
    /// Size and times of change. Most changes of the extents change one of these.
    stamp: Option<[i64; 5]>,
    /// When mapping started. Two maps of a file never start at the same time.
    of: Nanos,
    /// How long mapping took.
    took: Nanos,
}

impl Map {
    /// `None` if its reader is gone.
    fn make(file: &File, is_over: &AtomicBool) -> Option<Self> {
        let of = monotonic();
        // Before the extents are read: a change in between is noticed at the next check.
        let stamp = stamp(file);
        let extents = match extents(file, is_over) {
            Ok(extents) => Some(extents),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return None,
            Err(_) => None,
        };
        Some(Self { extents, stamp, of, took: Nanos(monotonic().since(of).0) })
    }

    fn find(&self, offset: u64) -> Place {
        let Some(extents) = &self.extents else { return Place::Unmapped };
        let after = extents.partition_point(|extent| extent.start <= offset);
        match after.checked_sub(1).map(|i| extents[i]) {
            Some(Extent { start, end, place }) if offset < end => {
                place.map_or(Place::Unmapped, |place| Place::At(place + (offset - start)))
            }
            _ => Place::Hole,
        }
    }

    /// The stretches of a range, in order: the place and length of each.
    fn stretches(&self, offset: u64, length: u64) -> impl Iterator<Item = (Place, u64)> {
        let extents = self.extents.as_deref();
        let end = offset.saturating_add(length);
        let mut at = offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let place = self.find(at);
            // An extent extends to its end, a hole to the next extent.
            let next = extents.map_or(end, |extents| {
                let ends_after = extents.partition_point(|extent| extent.end <= at);
                extents.get(ends_after).map_or(end, |extent| {
                    if extent.start <= at { extent.end } else { extent.start }
                })
            });
            let stretch = (place, next.min(end) - at);
            at = next;
            Some(stretch)
        })
    }

    /// Whether a new map is due, if the file is checked with period `every`.
    fn is_due(&self, now: Nanos, every: Nanos) -> bool {
        now.since(self.of).0 >= every.0.max(self.took.0.saturating_mul(REST))
    }
}

fn stamp(file: &File) -> Option<[i64; 5]> {
    let metadata = file.metadata().ok()?;
    let size = metadata.size().cast_signed();
    let [mtime, ctime] = [metadata.mtime(), metadata.ctime()];
    Some([size, mtime, metadata.mtime_nsec(), ctime, metadata.ctime_nsec()])
}

impl Refresh for Layout {
    fn refresh(&self) {
        if let Some(map) = Map::make(&self.file, &self.is_over) {
            self.map.store(Arc::new(map));
        }
    }
}

impl Extents {
    /// Maps a file for the first time.
    pub(super) fn of(file: Arc<File>) -> Self {
        let is_over = AtomicBool::new(false);
        let map = Map::make(&file, &is_over).expect("it is wanted");
        let looked = AtomicU64::new(map.of.0);
        let map = ArcSwap::from_pointee(map);
        let layout = Arc::new(Layout { file, map, is_over });
        Self { layout, looked, outdated: AtomicU64::new(0) }
    }

    /// The length of the file at the last check.
    pub(super) fn length(&self) -> Option<u64> {
        Some(self.layout.map.load().stamp?[0].cast_unsigned())
    }

    /// The place of the byte at this offset on the device. Never waits for the file to be
    /// mapped.
    pub(super) fn find(&self, offset: u64, now: Nanos) -> Place {
        let map = self.layout.map.load();
        let found = map.find(offset);
        let every = if matches!(found, Place::At(_)) { LOOK_EVERY } else { LOOK_AGAIN };
        if let Some(looked) = self.turn(now, every)
            && !self.look(&map, found, now)
        {
            self.looked.store(looked, Relaxed);
        }
        // The hole may have been filled.
        if found == Place::Hole && self.outdated.load(Relaxed) == map.of.0 {
            return Place::Unmapped;
        }
        found
    }

    /// Calls `visit` for each stretch of a range, with its place on the device and its length,
    /// until it returns false. Like [`find`](Self::find), it never waits.
    pub(super) fn visit(
        &self,
        offset: u64,
        length: u64,
        now: Nanos,
        mut visit: impl FnMut(Place, u64) -> bool,
    ) {
        let first = self.find(offset, now);
        let map = self.layout.map.load();
        for (place, length) in map.stretches(offset, length) {
            // A hole's result applies to all following holes too.
            let place =
                if place == Place::Hole && first == Place::Unmapped { first } else { place };
            if !visit(place, length) {
                return;
            }
        }
    }

    /// Checks whether the file has changed, and requests a new map if so. Returns false if the
    /// request could not be queued.
    fn look(&self, map: &Map, found: Place, now: Nanos) -> bool {
        let has_changed = map.stamp != stamp(&self.layout.file);
        if has_changed {
            self.outdated.store(map.of.0, Relaxed);
        }
        // Delayed allocation assigns a place without changing the file's times.
        let is_delayed = found == Place::Unmapped && map.extents.is_some();
        let every = if has_changed || is_delayed { LOOK_AGAIN } else { ANEW };
        !map.is_due(now, every) || refresh::ask(Arc::downgrade(&self.layout) as Weak<dyn Refresh>)
    }

    /// Claims the next check, for one thread at a time. Returns the time of the last one.
    fn turn(&self, now: Nanos, every: Nanos) -> Option<u64> {
        let looked = self.looked.load(Relaxed);
        let is = now.since(Nanos(looked)) >= every
            && self.looked.compare_exchange(looked, now.0, Relaxed, Relaxed).is_ok();
        is.then_some(looked)
    }
}

impl Drop for Extents {
    /// The file must be closed when its reader is gone: otherwise its file system could not be
    /// unmounted.
    fn drop(&mut self) {
        self.layout.is_over.store(true, Relaxed);
        for _ in 0..PATIENCE {
            if Arc::strong_count(&self.layout) == 1 {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    fn extent(start: u64, end: u64, place: Option<u64>) -> Extent {
        Extent { start, end, place }
    }

    fn map(extents: Option<Vec<Extent>>) -> Map {
        Map { extents, stamp: None, of: Nanos(1), took: Nanos(0) }
    }

    #[test]
    fn offsets_map_to_extents_and_holes_between_them() {
        let map_of_three = map(Some(vec![
            extent(0, 4096, Some(1 << 20)),
            extent(8192, 16384, Some(1 << 30)),
            extent(16384, 20480, None),
        ]));
        let expected = [
            (0, Place::At(1 << 20)),
            (4095, Place::At((1 << 20) + 4095)),
            (4096, Place::Hole),
            (12288, Place::At((1 << 30) + 4096)),
            (16384, Place::Unmapped),
            (20480, Place::Hole),
        ];
        for (offset, found) in expected {
            assert_eq!(map_of_three.find(offset), found, "{offset}");
        }
        assert_eq!(map(None).find(0), Place::Unmapped);
        assert_eq!(map(Some(Vec::new())).find(0), Place::Hole);
    }

    #[test]
    fn stretches_cover_a_range() {
        let map = map(Some(vec![
            extent(0, 4096, Some(1 << 20)),
            extent(8192, 12288, Some(1 << 30)),
            extent(12288, 16384, None),
        ]));
        let of = |offset, length| map.stretches(offset, length).collect::<Vec<_>>();
        let (first, second) = (Place::At((1 << 20) + 512), Place::At(1 << 30));
        let all = [(first, 3584), (Place::Hole, 4096), (second, 4096), (Place::Unmapped, 4096)];
        assert_eq!(of(512, 15872), all);
        assert_eq!(of(512, 100), [(first, 100)]);
        assert_eq!(of(16000, 1000), [(Place::Unmapped, 384), (Place::Hole, 616)]);
        assert_eq!(of(5, 0), []);
        assert_eq!(of(u64::MAX - 1, 9), [(Place::Hole, 1)]);
    }

    #[test]
    fn fragmented_files_are_mapped_less_often() {
        let map = Map { took: Nanos::from_millis(10), ..map(None) };
        assert!(!map.is_due(Nanos::from_millis(199), LOOK_AGAIN));
        assert!(map.is_due(Nanos::from_millis(201), LOOK_AGAIN));
        assert!(!map.is_due(Nanos::from_millis(999), ANEW));
    }

    /// A file's extents, with an initial map that has no data on the device.
    fn with_empty_map(stamp: impl FnOnce(&File) -> Option<[i64; 5]>) -> Extents {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &[1; 8192]).unwrap();
        let extents = Extents::of(Arc::new(file));
        let stamp = stamp(&extents.layout.file);
        let nothing = Map { stamp, of: monotonic(), ..map(Some(Vec::new())) };
        extents.layout.map.store(Arc::new(nothing));
        extents
    }

    /// Whether the wrong map is replaced within ten seconds.
    fn is_corrected(extents: &Extents) -> bool {
        let begun = Instant::now();
        let is = || extents.layout.map.load().extents != Some(Vec::new());
        while !is() && begun.elapsed().as_secs() < 10 {
            extents.find(0, monotonic());
            thread::sleep(Duration::from_millis(1));
        }
        is()
    }

    #[test]
    fn moved_data_are_found_without_a_new_time_of_change() {
        let extents = with_empty_map(stamp);
        let now = monotonic();
        assert_eq!(extents.find(0, now), Place::Hole, "it is trusted for a while");
        assert!(is_corrected(&extents));
    }

    /// The read that notices a change does not wait for the new map.
    #[test]
    fn changed_files_are_mapped_by_another_thread() {
        let extents = with_empty_map(|_| None);
        let soon = Nanos(monotonic().0 + LOOK_AGAIN.0);
        assert_eq!(extents.find(0, soon), Place::Unmapped);
        assert!(is_corrected(&extents));
        drop(extents);
        let begun = Instant::now();
        while is_thread_there() {
            assert!(begun.elapsed().as_secs() < 60, "the thread does not end");
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_thread_there() -> bool {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.map(|task| fs::read_to_string(task.path().join("comm")));
        names.flatten().any(|name| name.trim() == refresh::NAME)
    }
}
