//! Which reads in flight are latency-critical, and which of them were refused.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use trimtab_io::Nanos;
use trimtab_shm::{WritableMapping, field};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::super::error::Error;

/// Flagged reads in flight, at most; those beyond are read without the flag.
const SLOTS: usize = 256;
const WORDS: usize = SLOTS / 64;
/// The layout's name and version, at its beginning.
const MAGIC: u64 = u64::from_le_bytes(*b"ttflags1");

/// The memory. The drive makes the file; both sides map it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Table {
    magic: u64,
    /// A bit for each slot whose read the drive has not seen.
    announced: [u64; WORDS],
    slots: [Slot; SLOTS],
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Slot {
    /// Four times the number of its use, and a [`Phase`].
    state: u64,
    offset: u64,
    length: u64,
    /// How long the read would have waited, ns.
    wait: u64,
}

/// The phases of a slot.
mod phase {
    pub(super) const FREE: u64 = 0;
    pub(super) const ANNOUNCED: u64 = 1;
    pub(super) const SEEN: u64 = 2;
    pub(super) const REFUSED: u64 = 3;
    pub(super) const ALL: u64 = 3;
}

/// A flagged read, on the array's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    slot: u32,
    number: u64,
}

/// A flagged read, on the drive's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    slot: u32,
    number: u64,
}

/// The flags of the reads of one drive.
///
/// The array [announces](Self::announce) a read, sends it, and [asks](Self::take) when it is
/// answered. The drive [looks](Self::find) for the read's range, and notes a
/// [refusal](Self::refuse) before it answers. Whatever goes wrong between the two, the read is an
/// ordinary one: the kernel may have merged or split it, the drive may be of another version or
/// gone. The answer to a refused read has its data like any other, because it may be another
/// program's that reads the same range at the same time; the array does not use them.
#[derive(Debug)]
pub struct FlagTable {
    memory: WritableMapping<Table>,
    /// The array's free slots, and the number of the next use.
    free: Mutex<(Vec<u32>, u64)>,
}

impl FlagTable {
    /// Makes the file of a drive.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let failed = || Error::system(format!("make {}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(path).map_err(failed())?;
        file.set_len(size_of::<Table>() as u64).map_err(failed())?;
        let table = Self::map(&file, path)?;
        table.memory.word(0, field!(Table.magic)).store(MAGIC, Release);
        Ok(table)
    }

    /// Opens the file of a drive.
    ///
    /// # Errors
    /// It is not there, or is no such file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = || Error::system(format!("open {}", path.display()));
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed())?;
        let other = || Error::Failed(format!("{}: of another version", path.display()));
        if file.metadata().map_err(failed())?.len() != size_of::<Table>() as u64 {
            return Err(other());
        }
        let table = Self::map(&file, path)?;
        if table.memory.word(0, field!(Table.magic)).load(Acquire) != MAGIC {
            return Err(other());
        }
        // What an array has left that was killed.
        for slot in 0..SLOTS {
            table.memory.word(0, state_of(slot as u32)).store(phase::FREE, Relaxed);
        }
        for word in 0..WORDS {
            let announced = field!(Table.announced).element(word);
            table.memory.word(0, announced).store(0, Release);
        }
        Ok(table)
    }

    fn map(file: &File, path: &Path) -> Result<Self, Error> {
        let failed = |e: trimtab_shm::Error| Error::Failed(format!("{}: {e}", path.display()));
        let memory = WritableMapping::new(file, 1).map_err(failed)?;
        // The number of a use tells those of one array from those of the one before.
        let first = trimtab_io::monotonic().0 >> 2;
        Ok(Self { memory, free: Mutex::new(((0..SLOTS as u32).rev().collect(), first)) })
    }

    fn bit(&self, slot: u32) -> (&std::sync::atomic::AtomicU64, u64) {
        let announced = field!(Table.announced).element(slot as usize / 64);
        (self.memory.word(0, announced), 1 << (slot % 64))
    }

    /// Flags a read that is about to be sent. `None`: too many are in flight.
    pub fn announce(&self, offset: u64, length: u64) -> Option<Announced> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = free.0.pop()?;
        free.1 += 1;
        let number = free.1;
        drop(free);
        self.memory.word(0, offset_of(slot)).store(offset, Relaxed);
        self.memory.word(0, length_of(slot)).store(length, Relaxed);
        self.memory.word(0, state_of(slot)).store(number << 2 | phase::ANNOUNCED, Release);
        let (word, bit) = self.bit(slot);
        word.fetch_or(bit, Release);
        Some(Announced { slot, number })
    }

    /// The read has been answered: whether it was refused, and how long it would have waited.
    pub fn take(&self, announced: Announced) -> Option<Nanos> {
        let Announced { slot, number } = announced;
        let state = self.memory.word(0, state_of(slot)).swap(phase::FREE, AcqRel);
        let wait = Nanos(self.memory.word(0, wait_of(slot)).load(Relaxed));
        let (word, bit) = self.bit(slot);
        word.fetch_and(!bit, Release);
        self.free.lock().unwrap_or_else(PoisonError::into_inner).0.push(slot);
        (state == (number << 2 | phase::REFUSED)).then_some(wait)
    }

    /// Whether a read that has arrived is flagged.
    #[must_use]
    pub fn find(&self, offset: u64, length: u64) -> Option<Flag> {
        (0..WORDS).find_map(|word| {
            let announced = field!(Table.announced).element(word);
            let mut bits = self.memory.word(0, announced).load(Acquire);
            while bits != 0 {
                let slot = word as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if let Some(number) = self.see(slot, offset, length) {
                    return Some(Flag { slot, number });
                }
            }
            None
        })
    }

    /// Takes note of a slot's read, if it is this one.
    fn see(&self, slot: u32, offset: u64, length: u64) -> Option<u64> {
        let word = self.memory.word(0, state_of(slot));
        let state = word.load(Acquire);
        let is_it = state & phase::ALL == phase::ANNOUNCED
            && self.memory.word(0, offset_of(slot)).load(Relaxed) == offset
            && self.memory.word(0, length_of(slot)).load(Relaxed) == length;
        if !is_it {
            return None;
        }
        let seen = state & !phase::ALL | phase::SEEN;
        // The array may have given it up, or have used it again.
        word.compare_exchange(state, seen, AcqRel, Relaxed).ok()?;
        let (word, bit) = self.bit(slot);
        word.fetch_and(!bit, Release);
        Some(state >> 2)
    }

    /// Notes that a read is refused, which would wait so long. Before it is answered.
    pub fn refuse(&self, flag: Flag, wait: Nanos) {
        let Flag { slot, number } = flag;
        let (seen, refused) = (number << 2 | phase::SEEN, number << 2 | phase::REFUSED);
        let word = self.memory.word(0, state_of(slot));
        if word.load(Acquire) == seen {
            self.memory.word(0, wait_of(slot)).store(wait.0, Relaxed);
            // Fails if the array has given it up: then its answer is not waited for.
            _ = word.compare_exchange(seen, refused, AcqRel, Relaxed);
        }
    }
}

type OfTable = trimtab_shm::Field<Table, u64>;

fn slot_of(slot: u32) -> trimtab_shm::Field<Table, Slot> {
    field!(Table.slots).element(slot as usize)
}

fn state_of(slot: u32) -> OfTable {
    slot_of(slot).then(field!(Slot.state))
}

fn offset_of(slot: u32) -> OfTable {
    slot_of(slot).then(field!(Slot.offset))
}

fn length_of(slot: u32) -> OfTable {
    slot_of(slot).then(field!(Slot.length))
}

fn wait_of(slot: u32) -> OfTable {
    slot_of(slot).then(field!(Slot.wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (tempfile::TempDir, FlagTable, FlagTable) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flags");
        let drive = FlagTable::create(&path).unwrap();
        let array = FlagTable::open(&path).unwrap();
        (directory, drive, array)
    }

    #[test]
    fn refusal_reaches_the_read_that_it_is_for() {
        let (_directory, drive, array) = both();
        let reads: Vec<_> = (0..4).map(|i| array.announce(i * 4096, 4096).unwrap()).collect();
        assert_eq!(drive.find(4096, 8192), None, "another length");
        let flag = drive.find(4096, 4096).unwrap();
        assert_eq!(drive.find(4096, 4096), None, "it is seen once");
        drive.refuse(flag, Nanos(77));
        let waits = reads.into_iter().map(|read| array.take(read));
        assert_eq!(waits.collect::<Vec<_>>(), [None, Some(Nanos(77)), None, None]);
        assert!((0..4).all(|i| drive.find(i * 4096, 4096).is_none()), "all are over");
    }

    #[test]
    fn refusal_that_comes_late_harms_no_other_read() {
        let (_directory, drive, array) = both();
        let first = array.announce(0, 512).unwrap();
        let flag = drive.find(0, 512).unwrap();
        assert_eq!(array.take(first), None);
        let second = array.announce(512, 512).unwrap();
        drive.refuse(flag, Nanos(5));
        assert_eq!(first.slot, second.slot);
        assert_eq!(array.take(second), None);
    }

    #[test]
    fn reads_beyond_the_slots_are_not_flagged() {
        let (_directory, drive, array) = both();
        let all: Vec<_> = (0..SLOTS as u64).map(|i| array.announce(i, 1).unwrap()).collect();
        assert_eq!(array.announce(0, 1), None);
        assert!((0..SLOTS as u64).all(|i| drive.find(i, 1).is_some()));
        assert!(all.into_iter().all(|read| array.take(read).is_none()));
        assert!(array.announce(0, 1).is_some());
    }

    #[test]
    fn other_files_are_no_tables() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("flags");
        assert!(FlagTable::open(&path).is_err());
        std::fs::write(&path, vec![0; size_of::<Table>()]).unwrap();
        assert!(FlagTable::open(&path).unwrap_err().to_string().contains("another version"));
        std::fs::write(&path, "short").unwrap();
        assert!(FlagTable::open(&path).unwrap_err().to_string().contains("another version"));
    }
}
