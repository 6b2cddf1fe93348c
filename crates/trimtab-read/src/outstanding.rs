//! Reads of a drive that may not complete soon.
//!
//! Two counts for all readers of a drive in this process, and a list of the reads that were
//! abandoned at their deadline. A read is counted before it is sent, until it has completed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use trimtab_io::Nanos;

use crate::detachable::{Helpers, Left};
use crate::floor::Floor;

/// How often abandoned reads are checked for completion.
const LOOK_EVERY: Nanos = Nanos(1_000_000);

/// The number of outstanding reads of a kind.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU32);

impl Count {
    /// Adds one, if the count then is at most `most`: exact for any number of threads.
    pub(super) fn add_up_to(&self, most: u32) -> bool {
        let more = |out| (out < most).then_some(out + 1);
        self.0.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn end(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub(super) fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// The outstanding reads of one drive of this process; it lives as long as the process.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// Reads that were forecast to be late and sent nevertheless.
    pub(super) forced: Count,
    /// Abandoned reads that have not completed.
    abandoned: Count,
    list: Mutex<Vec<Abandoned>>,
    /// When the list was checked last.
    looked: AtomicU64,
    pub(super) helpers: Arc<Helpers>,
    /// The least time that its reads take.
    pub(super) floor: Floor,
}

#[derive(Debug)]
struct Abandoned {
    read: Arc<dyn Left>,
    is_forced: bool,
}

impl Outstanding {
    /// The entry of the drive or file system with this number.
    pub(super) fn of(number: (u32, u32)) -> Arc<Self> {
        static DRIVES: Mutex<BTreeMap<(u32, u32), Arc<Outstanding>>> = Mutex::new(BTreeMap::new());
        let mut drives = DRIVES.lock().unwrap_or_else(PoisonError::into_inner);
        let drive = Arc::clone(drives.entry(number).or_default());
        drive.look();
        drive
    }

    /// A read was abandoned. A forced one continues to count as forced.
    pub(super) fn abandon(&self, read: Arc<dyn Left>, is_forced: bool) {
        self.abandoned.add();
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(Abandoned { read, is_forced });
    }

    /// Whether there are abandoned reads that had not completed at the last check.
    pub(super) fn has_abandoned(&self) -> bool {
        self.abandoned.get() > 0
    }

    /// The number of abandoned reads that have not completed.
    pub(super) fn abandoned(&self, now: Nanos) -> u32 {
        // The common case.
        if !self.has_abandoned() {
            return 0;
        }
        let looked = self.looked.load(Relaxed);
        if now.since(Nanos(looked)) >= LOOK_EVERY
            && self.looked.compare_exchange(looked, now.0, Relaxed, Relaxed).is_ok()
        {
            self.look();
        }
        self.abandoned.get()
    }

    /// Checks which have completed, unless another thread does.
    pub(super) fn look(&self) {
        let Ok(mut list) = self.list.try_lock() else { return };
        list.retain(|Abandoned { read, is_forced }| {
            let has_ended = read.has_ended();
            if has_ended {
                self.abandoned.end();
                if *is_forced {
                    self.forced.end();
                }
            }
            !has_ended
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;

    #[derive(Debug, Default)]
    struct Read(AtomicBool);

    impl Left for Read {
        fn has_ended(&self) -> bool {
            self.0.load(Relaxed)
        }
    }

    #[test]
    fn count_never_exceeds_its_bound_for_any_number_of_threads() {
        let (count, most_seen) = (Count::default(), AtomicU32::new(0));
        let out = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if count.add_up_to(3) {
                            most_seen.fetch_max(out.fetch_add(1, Relaxed) + 1, Relaxed);
                            out.fetch_sub(1, Relaxed);
                            count.end();
                        }
                    }
                });
            }
        });
        assert!((1..=3).contains(&most_seen.into_inner()));
        assert_eq!(count.get(), 0);
    }

    #[test]
    fn abandoned_reads_count_until_they_complete() {
        let drive = Outstanding::default();
        let reads = [(); 3].map(|()| Arc::new(Read::default()));
        assert!(drive.forced.add_up_to(1));
        for (i, read) in reads.iter().enumerate() {
            drive.abandon(Arc::clone(read) as Arc<dyn Left>, i == 0);
        }
        let ms = |n: u64| Nanos(n * 1_000_000);
        assert_eq!((drive.abandoned(ms(5)), drive.forced.get()), (3, 1));
        reads[0].0.store(true, Relaxed);
        reads[2].0.store(true, Relaxed);
        assert_eq!(drive.abandoned(ms(5)), 3, "checked a moment ago");
        assert_eq!((drive.abandoned(ms(6)), drive.forced.get()), (1, 0));
        assert!(Arc::strong_count(&reads[0]) == 1, "no longer shared");
    }

    #[test]
    fn readers_of_a_drive_share_outstanding_reads() {
        let [a, b, other] = [(4000, 1), (4000, 1), (4000, 2)].map(Outstanding::of);
        assert!(a.forced.add_up_to(1) && !b.forced.add_up_to(1) && other.forced.add_up_to(1));
    }
}
